//! From the driver's errors to ours: what to do about it, and whether it may have happened all the same.

use redis::{ErrorKind as Kind, RedisError, ServerErrorKind as Server};
use tenure_core::{Address, Error, ErrorKind, Op};

use crate::ENGINE;

/// An answer of the server, or the lack of one, to a verb.
pub(crate) fn verb_failed(op: Op, address: &Address, err: RedisError) -> Error {
    let (kind, applied, message) = match err.kind() {
        // The server says these before it has changed anything.
        Kind::Server(Server::NoPerm) | Kind::AuthenticationFailed => (
            ErrorKind::Denied,
            false,
            format!("{address} refused this user; it needs the rights listed in the docs"),
        ),
        Kind::Server(Server::BusyLoading) => {
            (ErrorKind::Unavailable, false, format!("{address} is still loading its data"))
        }
        Kind::Server(Server::ReadOnly) => {
            (ErrorKind::Unavailable, false, format!("{address} has become a replica"))
        }
        Kind::Server(Server::MasterDown) => {
            (ErrorKind::Unavailable, false, format!("{address} has lost its master"))
        }
        Kind::Server(Server::TryAgain) => {
            (ErrorKind::Unavailable, false, "the slot is being moved to another node".to_owned())
        }
        Kind::Server(Server::ClusterDown) => {
            (ErrorKind::Unavailable, false, "the cluster is down".to_owned())
        }
        Kind::Server(Server::Moved | Server::Ask) => (
            ErrorKind::Invalid,
            false,
            format!("{address} is a node of a cluster; write `redis+cluster://` instead"),
        ),
        Kind::Server(_) | Kind::Extension => match code(&err) {
            "OOM" => (ErrorKind::Unavailable, false, format!("{address} is out of memory")),
            "NOPERM" => (
                ErrorKind::Denied,
                true,
                format!("{address} refused this user; it needs the rights listed in the docs"),
            ),
            "NOAUTH" | "WRONGPASS" => {
                (ErrorKind::Denied, false, format!("{address} wants a user and password"))
            }
            "MISCONF" => (
                ErrorKind::Unavailable,
                false,
                format!("{address} refuses to write because it cannot save its data"),
            ),
            "NOREPLICAS" => {
                (ErrorKind::Unavailable, false, format!("{address} has too few replicas to write"))
            }
            "BUSY" => {
                (ErrorKind::Unavailable, false, format!("{address} is busy with a script of somebody else"))
            }
            "WRONGTYPE" | "FOREIGN" => (
                ErrorKind::Invalid,
                // Of many renewals, some may have been made before this one.
                op == Op::Renew,
                format!(
                    "a key of {address} has the name of a lock and is none of tenure's; choose another ns="
                ),
            ),
            _ => (ErrorKind::Broken, true, format!("{address} gave an answer that makes no sense here")),
        },
        Kind::Io => (ErrorKind::Unavailable, true, format!("the connection to {address} failed")),
        _ => (ErrorKind::Broken, true, format!("{address} gave an answer that makes no sense here")),
    };
    let error = Error::new(kind, op, message).with_engine(ENGINE).with_source(err);
    if applied { error } else { error.not_applied() }
}

/// Whether a cluster could not serve several keys at once because it is moving them to another node.
pub(crate) fn is_being_moved(err: &Error) -> bool {
    let source = std::error::Error::source(err).and_then(|err| err.downcast_ref::<RedisError>());
    source.is_some_and(|err| err.kind() == Server::TryAgain.into())
}

/// A command that a script may not run for this user. The server names its line at most, so we name the command.
pub(crate) fn denied_in_script(op: Op, address: &Address, script: &str, err: &RedisError) -> Option<Error> {
    let (_, why) = err.detail()?.split_once("The user executing the script ")?;
    let line = err.detail()?.split_once("@user_script:").and_then(|(_, at)| {
        let digits: String = at.trim_start().chars().take_while(char::is_ascii_digit).collect();
        script.lines().nth(digits.parse::<usize>().ok()?.checked_sub(1)?)
    });
    let command = line.and_then(|line| line.split_once("redis.call('")?.1.split_once('\''));
    let command = command.map_or("one of its commands".to_owned(), |(name, _)| name.to_lowercase());
    let why = why.split(" script: ").next().unwrap_or(why);
    let message = format!(
        "{address} refused this user; it needs the rights listed in the docs, for `{command}` in a script too ({why})"
    );
    Some(Error::new(ErrorKind::Denied, op, message).with_engine(ENGINE))
}

/// A connection that could not be made: nothing was sent on it.
pub(crate) fn no_connection(op: Op, address: &Address, tls: bool, err: RedisError) -> Error {
    let (kind, message) = match (err.kind(), code(&err)) {
        (_, "NOAUTH") => (ErrorKind::Denied, format!("{address} wants a user and password")),
        (Kind::Server(Server::NoPerm), _) | (_, "NOPERM") => (
            ErrorKind::Denied,
            format!("{address} refused this user; it needs the rights listed in the docs"),
        ),
        (Kind::AuthenticationFailed, _) | (_, "WRONGPASS") => {
            (ErrorKind::Denied, format!("{address} refused the user or the password in the URL"))
        }
        _ if err.to_string().contains("DB index is out of range") => {
            (ErrorKind::Invalid, format!("{address} has no database of the number in the URL"))
        }
        (Kind::RESP3NotSupported, _) => (
            ErrorKind::Unsupported,
            format!("{address} is older than Redis 6, the first that tenure works with"),
        ),
        (Kind::InvalidClientConfig, _) => {
            (ErrorKind::Invalid, format!("the settings for the connection to {address} are wrong"))
        }
        _ if is_certificate(&err) => (
            ErrorKind::Denied,
            format!("{address} has no certificate that is trusted here; name its authority with `ca=`"),
        ),
        // A server without TLS waits for the end of what it takes for a command; one with TLS hangs up.
        _ if err.is_timeout() && tls => (
            ErrorKind::Unavailable,
            format!("{address} did not answer in time; `rediss:` needs a port that speaks TLS"),
        ),
        _ if err.is_timeout() => (ErrorKind::Unavailable, format!("{address} did not answer in time")),
        _ if err.is_connection_dropped() && !err.is_connection_refusal() && !tls => {
            (ErrorKind::Unavailable, format!("{address} hung up; a port that speaks TLS needs `rediss:`"))
        }
        _ => (ErrorKind::Unavailable, format!("cannot connect to {address}")),
    };
    Error::new(kind, op, message).with_engine(ENGINE).with_source(err).not_applied()
}

/// Whether TLS failed because of who the server is, rather than because nobody speaks TLS there.
fn is_certificate(err: &RedisError) -> bool {
    let text = err.to_string();
    ["invalid peer certificate", "UnknownIssuer", "NotValidForName"].iter().any(|sign| text.contains(sign))
}

/// The first word of the server's answer. Old servers put their own before that of the command that failed.
pub(crate) fn code(err: &RedisError) -> &str {
    match err.code() {
        Some("ERR") | None => {
            let detail = err.detail().unwrap_or("");
            ["OOM", "NOAUTH", "WRONGPASS", "NOPERM", "MISCONF", "NOREPLICAS", "READONLY", "FOREIGN"]
                .into_iter()
                .find(|code| detail.contains(&format!("-{code} ")))
                .unwrap_or_else(|| err.code().unwrap_or(""))
        }
        Some(code) => code,
    }
}
