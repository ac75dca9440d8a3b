//! What an error means, and whether the verb may have applied.

use tenure_core::{Address, Error, ErrorKind, Op};

use crate::{
    ENGINE,
    link::{Failure, Trouble},
    wire::code,
};

/// Of a request.
pub(crate) fn of(failure: Failure, op: Op) -> Error {
    let (kind, applied, message) = match failure {
        Failure::Gone => (ErrorKind::Unavailable, true, "the connection ended before the answer came".into()),
        Failure::NotSent => (ErrorKind::Unavailable, false, "there is no connection to any server".into()),
        Failure::Ended => {
            (ErrorKind::Unavailable, false, "the session has ended; another one follows".into())
        }
        Failure::Garbled => (ErrorKind::Broken, true, "the server gave an answer that makes no sense".into()),
        Failure::Code(code::NO_AUTH) => (
            ErrorKind::Denied,
            false,
            "the nodes belong to another user; log in as who created them: zookeeper://user:password@host"
                .into(),
        ),
        Failure::Code(code::AUTH_FAILED) => (ErrorKind::Denied, false, "the login was refused".into()),
        Failure::Code(code::NO_NODE) => (
            ErrorKind::Unavailable,
            false,
            "somebody deletes the nodes of tenure; they are made again".into(),
        ),
        // It did not get to it in time, or has too much to do.
        Failure::Code(code @ (-7 | -127)) => {
            (ErrorKind::Unavailable, false, format!("the server says no ({code})"))
        }
        Failure::Code(code) => {
            (ErrorKind::Broken, false, format!("the server does not take a request ({code})"))
        }
    };
    let error = Error::new(kind, op, message).with_engine(ENGINE);
    if applied { error } else { error.not_applied() }
}

/// Of a connection.
pub(crate) fn of_connecting(address: &Address, trouble: Trouble) -> Error {
    let error = match trouble {
        Trouble::Io(err) => {
            Error::unavailable(Op::Connect, format!("{address} does not serve")).with_source(err)
        }
        Trouble::Denied => {
            Error::new(ErrorKind::Denied, Op::Connect, format!("{address} refused this user or password"))
        }
        Trouble::Expired => Error::unavailable(Op::Connect, format!("{address} refused a new session")),
        Trouble::Garbled => Error::new(
            ErrorKind::Invalid,
            Op::Connect,
            format!(
                "{address} does not speak ZooKeeper's protocol; is that its client port, with or without TLS?"
            ),
        ),
        Trouble::Tls(err) => return err,
    };
    error.with_engine(ENGINE).not_applied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_say_what_to_do_and_whether_it_may_have_happened() {
        for (failure, kind, applied) in [
            (Failure::Gone, ErrorKind::Unavailable, true),
            (Failure::NotSent, ErrorKind::Unavailable, false),
            (Failure::Ended, ErrorKind::Unavailable, false),
            (Failure::Garbled, ErrorKind::Broken, true),
            (Failure::Code(code::NO_AUTH), ErrorKind::Denied, false),
            (Failure::Code(code::AUTH_FAILED), ErrorKind::Denied, false),
            (Failure::Code(code::NO_NODE), ErrorKind::Unavailable, false),
            (Failure::Code(-7), ErrorKind::Unavailable, false),
            (Failure::Code(-8), ErrorKind::Broken, false),
        ] {
            let error = of(failure, Op::Attempt);
            assert_eq!((error.kind(), error.may_have_applied()), (kind, applied), "{failure:?}");
        }
    }
}
