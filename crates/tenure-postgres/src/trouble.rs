//! From the driver's errors to ours: what to do about it, and whether it may have happened all the same.

use std::fmt;

use tenure_core::{Address, Error, ErrorKind, Op};

use crate::ENGINE;

/// An answer of the server, or the lack of one, to a verb.
pub(crate) fn verb_failed(op: Op, address: &Address, err: tokio_postgres::Error) -> Error {
    let Some(code) = err.code().map(|code| code.code().to_owned()) else {
        let error = Error::unavailable(op, format!("the connection to {address} failed"));
        return error.with_engine(ENGINE).with_source(Said(err));
    };
    let (kind, applied, message) = what(&code, address);
    let error = Error::new(kind, op, message).with_engine(ENGINE).with_source(Said(err));
    if applied { error } else { error.not_applied() }
}

/// A connection that could not be made, or a question that changes nothing.
pub(crate) fn no_connection(address: &Address, err: tokio_postgres::Error) -> Error {
    let of = |kind, message| Error::new(kind, Op::Connect, message).with_engine(ENGINE);
    let error = if says(&err, "invalid peer certificate") {
        let message =
            format!("{address} is not who it should be; name its authority with `ca=`, and it as it is");
        of(ErrorKind::Denied, message).with_source(Said(err))
    } else if says(&err, "server does not support TLS") {
        of(ErrorKind::Unavailable, format!("{address} does not speak TLS")).with_source(Said(err))
    } else {
        verb_failed(Op::Connect, address, err)
    };
    error.not_applied()
}

/// Whether one of the errors beneath starts so: those of TLS are known by nothing but their words here.
fn says(err: &tokio_postgres::Error, words: &str) -> bool {
    let mut source = std::error::Error::source(err);
    while let Some(err) = source {
        if err.to_string().starts_with(words) {
            return true;
        }
        source = err.source();
    }
    false
}

/// What a code means, and whether the verb may have applied. The server says most of these when it has taken back
/// whatever the transaction did.
fn what(code: &str, address: &Address) -> (ErrorKind, bool, String) {
    match code {
        "40001" | "40P01" => {
            (ErrorKind::Unavailable, false, format!("{address} took back a transaction in favour of another"))
        }
        "55P03" => (ErrorKind::Unavailable, false, format!("{address}: somebody keeps the key locked")),
        "57014" => (ErrorKind::Unavailable, false, format!("{address} took too long and stopped")),
        "25006" => (
            ErrorKind::Unavailable,
            false,
            format!("{address} is read-only: a standby, or default_transaction_read_only is on"),
        ),
        "42501" => (
            ErrorKind::Denied,
            false,
            format!("{address} refused this user; it needs the rights that `tenure schema postgres` lists"),
        ),
        "42P01" | "42883" | "42704" => (
            ErrorKind::Invalid,
            false,
            format!("{address} has not the tables of tenure; `tenure schema postgres` prints what to run"),
        ),
        "3D000" => (ErrorKind::Invalid, false, format!("{address} has no such database")),
        "3F000" => (ErrorKind::Invalid, false, format!("{address} has no such schema")),
        "53300" => (ErrorKind::Unavailable, false, format!("{address} has no connection to spare")),
        // It may say so after a commit whose reply it does not send any more.
        _ if code.starts_with("57P") => {
            (ErrorKind::Unavailable, true, format!("{address} is starting or going down"))
        }
        _ => match &code[..2.min(code.len())] {
            "28" => (ErrorKind::Denied, false, format!("{address} refused this user or password")),
            "08" | "58" => (ErrorKind::Unavailable, true, format!("the connection to {address} failed")),
            "53" | "54" => (ErrorKind::Unavailable, false, format!("{address} has no room left")),
            "22" | "23" | "25" | "42" | "P0" | "0A" => {
                (ErrorKind::Broken, false, format!("{address} does not take tenure's statements"))
            }
            _ => (ErrorKind::Broken, true, format!("{address} gave an answer that makes no sense here")),
        },
    }
}

/// Whether an error is the end of the connection, or should be.
pub(crate) fn ends_link(err: &tokio_postgres::Error) -> bool {
    match err.code().map(|code| code.code()) {
        None => true,
        // Another server may have taken over; or the session is not the one in which statements were prepared.
        Some("25006" | "26000") => true,
        Some(code) => code.starts_with("57P") || code.starts_with("08"),
    }
}

/// Whether somebody else had the key for too long.
pub(crate) fn is_locked(err: &Error) -> bool {
    has_code(err, |code| code == "55P03")
}

/// Whether there are no tables yet.
pub(crate) fn is_missing(err: &Error) -> bool {
    has_code(err, |code| matches!(code, "42P01" | "3F000"))
}

fn has_code(err: &Error, wanted: impl Fn(&str) -> bool) -> bool {
    let source = std::error::Error::source(err).and_then(|err| err.downcast_ref::<Said>());
    source.and_then(|Said(err)| err.code()).is_some_and(|code| wanted(code.code()))
}

/// The driver's error, which by itself does not say what the server said.
#[derive(Debug)]
struct Said(tokio_postgres::Error);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_db_error(), std::error::Error::source(&self.0)) {
            (Some(err), _) => write!(f, "{} {}", err.code().code(), err.message()),
            (None, Some(source)) => write!(f, "{}: {source}", self.0),
            (None, None) => self.0.fmt(f),
        }
    }
}

impl std::error::Error for Said {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_say_what_to_do_and_whether_it_may_have_happened() {
        let address = Address { host: "h".into(), port: 1 };
        for (code, kind, applied) in [
            ("40001", ErrorKind::Unavailable, false),
            ("40P01", ErrorKind::Unavailable, false),
            ("55P03", ErrorKind::Unavailable, false),
            ("57014", ErrorKind::Unavailable, false),
            ("57P01", ErrorKind::Unavailable, true),
            ("57P03", ErrorKind::Unavailable, true),
            ("08006", ErrorKind::Unavailable, true),
            ("53100", ErrorKind::Unavailable, false),
            ("25006", ErrorKind::Unavailable, false),
            ("28P01", ErrorKind::Denied, false),
            ("28000", ErrorKind::Denied, false),
            ("42501", ErrorKind::Denied, false),
            ("3D000", ErrorKind::Invalid, false),
            ("3F000", ErrorKind::Invalid, false),
            ("42P01", ErrorKind::Invalid, false),
            ("23505", ErrorKind::Broken, false),
            ("XX000", ErrorKind::Broken, true),
            ("", ErrorKind::Broken, true),
        ] {
            let (found, may, _) = what(code, &address);
            assert_eq!((found, may), (kind, applied), "{code}");
        }
    }
}
