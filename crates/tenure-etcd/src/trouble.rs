//! From the server's errors to ours: what to do about it, and whether it may have happened all the same.

use std::fmt;

use tenure_core::{Address, Error, ErrorKind, Op};

use crate::{
    ENGINE,
    grpc::{Fault, Status},
};

// The codes of gRPC that matter here.
const INVALID_ARGUMENT: u32 = 3;
const DEADLINE_EXCEEDED: u32 = 4;
const NOT_FOUND: u32 = 5;
const PERMISSION_DENIED: u32 = 7;
const RESOURCE_EXHAUSTED: u32 = 8;
const FAILED_PRECONDITION: u32 = 9;
const OUT_OF_RANGE: u32 = 11;
const UNIMPLEMENTED: u32 = 12;
const UNAVAILABLE: u32 = 14;
const UNAUTHENTICATED: u32 = 16;

/// An answer of the server, or the lack of one, to a verb.
pub(crate) fn verb_failed(op: Op, address: &Address, fault: Fault) -> Error {
    match fault {
        Fault::Broken(err) => {
            let error = Error::unavailable(op, format!("the connection to {address} failed"));
            error.with_engine(ENGINE).with_source(err)
        }
        Fault::Status(status) => {
            let (kind, applied, message) = what(&status, address);
            let error = Error::new(kind, op, message).with_engine(ENGINE).with_source(Said(status));
            if applied { error } else { error.not_applied() }
        }
    }
}

/// A connection that could not be made.
pub(crate) fn no_connection(address: &Address, err: std::io::Error) -> Error {
    let (kind, message) = if err.to_string().starts_with("invalid peer certificate") {
        let message =
            format!("{address} is not who it should be; name its authority with `ca=`, and it as it is");
        (ErrorKind::Denied, message)
    } else {
        (ErrorKind::Unavailable, format!("cannot connect to {address}"))
    };
    Error::new(kind, Op::Connect, message).with_engine(ENGINE).with_source(err).not_applied()
}

/// What a status means, and whether the verb may have applied. Where a code has several meanings, the server's words
/// tell them apart; they are part of its protocol, and its own client goes by them.
fn what(status: &Status, address: &Address) -> (ErrorKind, bool, String) {
    use ErrorKind::{Broken, Denied, Invalid, Unavailable, Unsupported};
    let says = |words: &str| status.message.contains(words);
    match status.code {
        UNAVAILABLE if says("no leader") => {
            (Unavailable, false, format!("{address} knows of no leader: most servers are out of its reach"))
        }
        UNAVAILABLE | DEADLINE_EXCEEDED => {
            (Unavailable, true, format!("{address} could not say whether it was done"))
        }
        UNAUTHENTICATED => (Unavailable, false, format!("{address} wants to know again who this is")),
        PERMISSION_DENIED => (
            Denied,
            false,
            format!("{address} refused this user; it needs to read and write the keys listed in the docs"),
        ),
        INVALID_ARGUMENT if says("authentication failed") => {
            (Denied, false, format!("{address} refused this user or password"))
        }
        INVALID_ARGUMENT if says("user name is empty") => {
            (Denied, false, format!("{address} wants a user and password"))
        }
        INVALID_ARGUMENT if says("revision of auth store is old") => {
            (Unavailable, false, format!("{address} wants to know again who this is"))
        }
        FAILED_PRECONDITION if says("authentication is not enabled") => {
            (Invalid, false, format!("{address} knows no users; take the user out of the URL"))
        }
        RESOURCE_EXHAUSTED if says("space exceeded") => (
            Unavailable,
            false,
            format!("{address} has no room left; compact, defragment and disarm the alarm"),
        ),
        RESOURCE_EXHAUSTED => (Unavailable, false, format!("{address} is asked too much at once")),
        NOT_FOUND if says("lease not found") => {
            (Unavailable, false, format!("{address} has let the lease end"))
        }
        OUT_OF_RANGE => (Unavailable, false, format!("{address} has forgotten that revision")),
        UNIMPLEMENTED => (Unsupported, false, format!("{address} is too old, or no etcd")),
        _ => (Broken, true, format!("{address} gave an answer that makes no sense here")),
    }
}

/// Whether the server should not be asked any more over this connection.
pub(crate) fn ends_link(fault: &Fault) -> bool {
    match fault {
        Fault::Broken(_) => true,
        // Another server may do better, or one that is told again who asks.
        Fault::Status(status) => {
            matches!(status.code, UNAVAILABLE | UNAUTHENTICATED)
                || status.message.contains("revision of auth store is old")
        }
    }
}

/// Whether the lease that was named is no more.
pub(crate) fn is_lease_gone(err: &Error) -> bool {
    said(err).is_some_and(|status| status.code == NOT_FOUND && status.message.contains("lease not found"))
}

/// Whether the store has forgotten the revision that was named.
pub(crate) fn is_compacted(err: &Error) -> bool {
    said(err).is_some_and(|status| status.code == OUT_OF_RANGE)
}

fn said(err: &Error) -> Option<&Status> {
    let source = std::error::Error::source(err).and_then(|err| err.downcast_ref::<Said>());
    source.map(|Said(status)| status)
}

/// The server's own words.
#[derive(Debug)]
struct Said(Status);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Said {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_to_do_and_whether_it_may_have_happened() {
        let address = Address { host: "h".into(), port: 1 };
        for (code, message, kind, applied) in [
            (14, "etcdserver: no leader", ErrorKind::Unavailable, false),
            (14, "etcdserver: request timed out", ErrorKind::Unavailable, true),
            (14, "etcdserver: leader changed", ErrorKind::Unavailable, true),
            (16, "etcdserver: invalid auth token", ErrorKind::Unavailable, false),
            (7, "etcdserver: permission denied", ErrorKind::Denied, false),
            (3, "etcdserver: authentication failed, invalid user ID or password", ErrorKind::Denied, false),
            (3, "etcdserver: user name is empty", ErrorKind::Denied, false),
            (9, "etcdserver: authentication is not enabled", ErrorKind::Invalid, false),
            (8, "etcdserver: mvcc: database space exceeded", ErrorKind::Unavailable, false),
            (8, "etcdserver: too many requests", ErrorKind::Unavailable, false),
            (5, "etcdserver: requested lease not found", ErrorKind::Unavailable, false),
            (11, "etcdserver: mvcc: required revision has been compacted", ErrorKind::Unavailable, false),
            (12, "unknown service", ErrorKind::Unsupported, false),
            (3, "etcdserver: key is not provided", ErrorKind::Broken, true),
            (2, "", ErrorKind::Broken, true),
        ] {
            let status = Status { code, message: message.into() };
            let (found, may, _) = what(&status, &address);
            assert_eq!((found, may), (kind, applied), "{code} {message}");
            let err = verb_failed(Op::Attempt, &address, Fault::Status(status));
            assert_eq!(is_lease_gone(&err), code == 5);
            assert_eq!(is_compacted(&err), code == 11);
        }
        assert!(verb_failed(Op::Attempt, &address, Fault::Broken("x".into())).may_have_applied());
    }
}
