//! What went wrong, in our words: what to do about it, and whether it may have happened all the same.

use std::io;

use tenure_core::{Address, Error, ErrorKind, Op};

use crate::ENGINE;

/// A server that refuses a command, in its own words. It says so before it has changed anything.
pub(crate) fn refused(op: Op, address: &Address, said: &str) -> Error {
    let (kind, message) = what(said, address);
    Error::new(kind, op, message).with_engine(ENGINE).with_source(said.to_owned()).not_applied()
}

fn what(said: &str, address: &Address) -> (ErrorKind, String) {
    if said.contains("out of memory") {
        (ErrorKind::Unavailable, format!("{address} is out of memory"))
    } else if said.contains("too large") {
        (ErrorKind::Unavailable, format!("{address} takes no item as long as this line (-I)"))
    } else if said.contains("unauthenticated") || said.contains("authentication failure") {
        (ErrorKind::Denied, format!("{address} refused the user or the password in the URL, or wants one"))
    } else if said == "ERROR" {
        (ErrorKind::Unsupported, format!("{address} does not know the meta commands; memcached 1.6 does"))
    } else {
        (ErrorKind::Broken, format!("{address} gave an answer that makes no sense here"))
    }
}

/// An answer that makes no sense for the command.
pub(crate) fn nonsense(op: Op, address: &Address) -> Error {
    Error::new(ErrorKind::Broken, op, format!("{address} gave an answer that makes no sense here"))
        .with_engine(ENGINE)
}

/// A connection that ended before the answer came.
pub(crate) fn cut_off(op: Op, address: &Address) -> Error {
    Error::unavailable(op, format!("the connection to {address} failed")).with_engine(ENGINE)
}

/// A connection that could not be made: nothing was asked on it.
pub(crate) fn no_connection(address: &Address, err: io::Error) -> Error {
    Error::unavailable(Op::Connect, format!("cannot connect to {address}"))
        .with_engine(ENGINE)
        .with_source(err)
        .not_applied()
}

/// An item with the name of a line that none of ours has written.
pub(crate) fn foreign(op: Op, address: &Address) -> Error {
    let message =
        format!("an item of {address} has the name of a lock and is none of tenure's; choose another ns=");
    Error::new(ErrorKind::Invalid, op, message).with_engine(ENGINE).not_applied()
}

/// Others changed the line whenever this client was about to.
pub(crate) fn crowded(op: Op) -> Error {
    Error::unavailable(op, "too many change this line at once").with_engine(ENGINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_servers_say_is_what_to_do() {
        let address = Address { host: "h".into(), port: 1 };
        for (said, kind) in [
            ("SERVER_ERROR out of memory storing object", ErrorKind::Unavailable),
            ("SERVER_ERROR object too large for cache", ErrorKind::Unavailable),
            ("CLIENT_ERROR unauthenticated", ErrorKind::Denied),
            ("CLIENT_ERROR authentication failure", ErrorKind::Denied),
            ("ERROR", ErrorKind::Unsupported),
            ("CLIENT_ERROR bad data chunk", ErrorKind::Broken),
        ] {
            let err = refused(Op::Attempt, &address, said);
            assert_eq!(err.kind(), kind, "{said}");
            assert!(!err.may_have_applied());
        }
        assert!(cut_off(Op::Attempt, &address).may_have_applied());
    }
}
