//! Addresses as the nodes of a cluster tell them.

use tenure_core::Address;

/// A node that does not say its host is reached by the one that named it.
pub(crate) fn same_host(named_by: &Address, node: Address) -> Address {
    if node.host.is_empty() || node.host == "?" {
        Address { host: named_by.host.clone(), ..node }
    } else {
        node
    }
}

/// Reads `host:port`, where the host of a version 6 address stands bare.
pub(crate) fn of_node(text: &str) -> Option<Address> {
    let (host, port) = text.split('@').next()?.rsplit_once(':')?;
    let port = port.parse().ok()?;
    Some(Address { host: host.trim_matches(['[', ']']).to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_with_bare_hosts() {
        assert_eq!(of_node("::1:7000@17000").unwrap().to_string(), "[::1]:7000");
        assert_eq!(of_node("10.0.0.1:7000").unwrap().to_string(), "10.0.0.1:7000");
    }
}
