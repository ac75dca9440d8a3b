use std::{
    io::{Error, ErrorKind},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    os::{linux::net::SocketAddrExt, unix::net},
};

use crate::Result;

/// Below the ports that the kernel gives to outgoing connections (32768 and up), which could otherwise take the port
/// of a server while it is down.
const PORTS: Range<u16> = 20_000..32_000;

/// A port on loopback that no other test uses, in this process or another, for as long as this lives.
///
/// Seeing that a port is free is not enough: two tests may see it before either server listens, and a server that is
/// down for a while leaves its port free. So a port is first claimed by name, as a Unix socket in the abstract
/// namespace. It can be bound once, vanishes with its process however that ends, leaves no file behind, and is seen
/// by exactly those who share the ports too, because both belong to the network namespace.
#[derive(Debug)]
pub struct Port {
    number: u16,
    _claim: net::UnixListener,
}

impl Port {
    /// Claims a free port.
    ///
    /// # Errors
    /// If all are taken.
    pub fn claim() -> Result<Self> {
        let count = PORTS.end - PORTS.start;
        // From a place of its own in the range: tests that start together do not try the same ones.
        let first = fastrand::u16(..count);
        for offset in 0..count {
            let number = PORTS.start + (first + offset) % count;
            let name = net::SocketAddr::from_abstract_name(format!("tenure-testkit-port-{number}"))?;
            let claim = match net::UnixListener::bind_addr(&name) {
                Ok(claim) => claim,
                Err(error) if error.kind() == ErrorKind::AddrInUse => continue,
                Err(error) => return Err(error.into()),
            };
            // Somebody else's server may be there, which knows nothing of claims.
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _claim: claim });
            }
        }
        Err(Error::other(format!("no free port in {PORTS:?}")).into())
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }

    /// Its address on loopback.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.number).into()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_claimed_port_is_given_to_nobody_else_though_nothing_listens() {
        let ports: Vec<_> = (0..200).map(|_| Port::claim().unwrap()).collect();
        let numbers: BTreeSet<_> = ports.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), ports.len());
        let name = format!("tenure-testkit-port-{}", ports[0].number());
        let name = net::SocketAddr::from_abstract_name(name).unwrap();
        assert_eq!(net::UnixListener::bind_addr(&name).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(ports);
        assert!(net::UnixListener::bind_addr(&name).is_ok(), "free again");
    }
}
