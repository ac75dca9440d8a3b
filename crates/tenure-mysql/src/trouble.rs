//! From the driver's errors to ours: what to do about it, and whether it may have happened all the same.

use sqlx::mysql::MySqlDatabaseError;
use tenure_core::{Address, Error, ErrorKind, Op};

use crate::{ENGINE, url::MysqlOptions};

/// The number of the server's error, if it is one.
pub(crate) fn code(err: &sqlx::Error) -> u16 {
    match err {
        sqlx::Error::Database(err) => {
            err.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number)
        }
        _ => 0,
    }
}

/// Whether another connection may do better: the server is going away, or has become a replica.
pub(crate) fn ends_link(err: &sqlx::Error) -> bool {
    matches!(code(err), 1053 | 1158..=1161 | 1290 | 1792 | 1836 | 1927 | 3032 | 4031)
}

/// Whether a verb failed because a table is not there.
pub(crate) fn is_missing_table(err: &Error) -> bool {
    source_code(err) == 1146
}

/// Whether a verb failed, and was undone, because a row was there already.
pub(crate) fn is_duplicate(err: &Error) -> bool {
    source_code(err) == 1062
}

/// Whether a verb was refused because its statement could not be prepared, or is not known any more.
pub(crate) fn is_unprepared(err: &Error) -> bool {
    matches!(source_code(err), 1243 | 1295 | 1461)
}

fn source_code(err: &Error) -> u16 {
    std::error::Error::source(err).and_then(|err| err.downcast_ref::<sqlx::Error>()).map_or(0, code)
}

/// An answer of the server, or the lack of one, to a verb.
pub(crate) fn verb_failed(op: Op, address: &Address, err: sqlx::Error) -> Error {
    // All of these come instead of a commit: the transaction is undone.
    let (kind, applied, message) = match code(&err) {
        1213 | 1020 => {
            (ErrorKind::Unavailable, false, format!("{address} undid this because of another transaction"))
        }
        1205 => (ErrorKind::Unavailable, false, format!("a row of the lock stayed locked on {address}")),
        1044 | 1045 | 1142 | 1143 | 1227 => (
            ErrorKind::Denied,
            false,
            format!(
                "{address} refused this user; it needs SELECT, INSERT, UPDATE and DELETE on tenure's tables"
            ),
        ),
        1049 => (ErrorKind::Invalid, false, format!("{address} has no database of the name in the URL")),
        1146 => (
            ErrorKind::Invalid,
            false,
            format!("{address} does not have tenure's tables; run what `tenure schema mysql` prints"),
        ),
        1054 => (
            ErrorKind::Invalid,
            false,
            format!(
                "{address} has tables of another tenure; add the columns that `tenure schema mysql` prints"
            ),
        ),
        1290 | 1792 | 1836 => {
            (ErrorKind::Unavailable, false, format!("{address} is read-only; name the primary in the URL"))
        }
        1665 => (
            ErrorKind::Invalid,
            false,
            format!("{address} writes statements to its binary log; set binlog_format to ROW or MIXED"),
        ),
        1040 | 1203 | 1226 | 1243 | 1295 | 1461 => {
            (ErrorKind::Unavailable, false, format!("{address} has no connection or statement left"))
        }
        1114 | 1021 | 1041 | 1037 | 1038 => {
            (ErrorKind::Unavailable, false, format!("{address} has no room left"))
        }
        1053 | 1317 | 1927 | 1969 | 3024 | 3032 | 4031 => {
            (ErrorKind::Unavailable, true, format!("{address} ended the statement"))
        }
        0 if !matches!(err, sqlx::Error::Database(_)) => {
            (ErrorKind::Unavailable, true, format!("the connection to {address} failed"))
        }
        _ => (ErrorKind::Broken, true, format!("{address} gave an answer that makes no sense here")),
    };
    let error = Error::new(kind, op, message).with_engine(ENGINE).with_source(err);
    if applied { error } else { error.not_applied() }
}

/// A connection that ended before the answer came.
pub(crate) fn no_answer(op: Op, address: &Address) -> Error {
    let error = Error::unavailable(op, format!("{address} did not answer")).with_engine(ENGINE);
    if op == Op::Connect { error.not_applied() } else { error }
}

/// A connection that could not be made: nothing was done on it.
pub(crate) fn no_connection(options: &MysqlOptions, err: sqlx::Error) -> Error {
    let address = &options.address;
    let (kind, message) = match (code(&err), &err) {
        (1044, _) => (ErrorKind::Denied, format!("{address} refused this user the database in the URL")),
        (1045 | 1130 | 1251 | 1698 | 2059 | 4151, _) => {
            (ErrorKind::Denied, format!("{address} refused the user or the password in the URL"))
        }
        (1049, _) => (ErrorKind::Invalid, format!("{address} has no database of the name in the URL")),
        (1040 | 1203 | 1226, _) => (ErrorKind::Unavailable, format!("{address} has no connection left")),
        // What is refused in a handshake comes as data that are not valid; the rest is the server's word.
        (_, sqlx::Error::Io(io)) if options.tls.is_some() && io.kind() == std::io::ErrorKind::InvalidData => {
            (ErrorKind::Denied, untrusted(address, &io.to_string()))
        }
        (_, sqlx::Error::Tls(why)) if why.to_string().contains("does not support TLS") => {
            (ErrorKind::Denied, format!("{address} offers no TLS, and tls=verify sends nothing without"))
        }
        (_, sqlx::Error::Tls(why)) => (ErrorKind::Denied, untrusted(address, &why.to_string())),
        (_, sqlx::Error::Configuration(_)) => (
            ErrorKind::Denied,
            format!("{address} asks for the password in a way that needs TLS; add tls=verify"),
        ),
        _ => (ErrorKind::Unavailable, format!("cannot connect to {address}")),
    };
    Error::new(kind, Op::Connect, message).with_engine(ENGINE).with_source(err).not_applied()
}

fn untrusted(address: &Address, why: &str) -> String {
    if why.contains("not valid for name") {
        format!("the certificate of {address} is for another name; write the host as it does")
    } else {
        format!("{address} has no certificate that is trusted here; name its authority with `ca=`")
    }
}
