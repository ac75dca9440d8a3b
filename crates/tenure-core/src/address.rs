use std::fmt;

use crate::{Error, Result};

/// A host and its port, as they stand in a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// A name or an address; one of version 6 stands without its brackets.
    pub host: String,
    /// Never zero.
    pub port: u16,
}

impl Address {
    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`.
    ///
    /// # Errors
    /// `Invalid` for anything else.
    pub fn parse(text: &str, default_port: u16) -> Result<Self> {
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, rest)) => (host, rest.strip_prefix(':').or(rest.is_empty().then_some(""))),
            None => text.rsplit_once(':').map_or((text, Some("")), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            Some("") => Some(default_port),
            Some(port) => port.parse().ok(),
            None => None,
        };
        match port {
            Some(port) if !host.is_empty() && !host.starts_with('[') && port > 0 => {
                Ok(Self { host: host.to_owned(), port })
            }
            _ => Err(Error::invalid(format!("`{}` is no host and port", text.escape_debug()))),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_every_shape_are_read_and_shown() {
        let read = |text| Address::parse(text, 5432).map(|address| address.to_string());
        assert_eq!(read("h").unwrap(), "h:5432");
        assert_eq!(read("h:1").unwrap(), "h:1");
        assert_eq!(read("[::1]").unwrap(), "[::1]:5432");
        assert_eq!(read("[::1]:2").unwrap(), "[::1]:2");
        for wrong in ["", ":1", "h:0", "h:99999", "h:x", "[::1", "[::1]x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
