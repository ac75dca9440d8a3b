//! The exit codes, which scripts rely on, and how an error becomes one.

use std::process::ExitCode;

use rustix::process::{Resource, Rlimit, setrlimit};
use tenure::{Error, ErrorKind, Op};

/// A code that `tenure` exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code(pub(crate) u8);

/// All went well.
pub(crate) const OK: Code = Code(0);
/// What was to be shown was not seen.
pub(crate) const NOT_SHOWN: Code = Code(1);
/// A promise was broken, or a wrong way got away.
pub(crate) const REFUTED: Code = Code(1);
/// Too little happened to say anything.
pub(crate) const INCONCLUSIVE: Code = Code(2);
/// The call is wrong.
pub(crate) const USAGE: Code = Code(64);
/// The engine cannot be reached.
pub(crate) const UNAVAILABLE: Code = Code(69);
/// Something is wrong inside.
pub(crate) const INTERNAL: Code = Code(70);
/// Somebody else holds the key, or waiting took too long.
pub(crate) const BUSY: Code = Code(75);
/// The lock was lost while the command ran.
pub(crate) const LOST: Code = Code(76);
/// The engine refuses the credentials.
pub(crate) const DENIED: Code = Code(77);
/// The URL or the engine's configuration is wrong.
pub(crate) const CONFIG: Code = Code(78);
/// The command ran longer than `--max-run`.
pub(crate) const MAX_RUN: Code = Code(124);
/// The command cannot be executed.
pub(crate) const CANNOT_EXECUTE: Code = Code(126);
/// The command was not found.
pub(crate) const NOT_FOUND: Code = Code(127);

impl From<Code> for ExitCode {
    fn from(code: Code) -> Self {
        Self::from(code.0)
    }
}

/// Why a verb ends without having done its work: one line for a person, one number for a script.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    pub(crate) fn internal(what: &str, err: impl std::fmt::Display) -> Self {
        Self::new(INTERNAL, format!("{what}: {err}"))
    }
}

impl From<Error> for Failure {
    fn from(err: Error) -> Self {
        Self { code: code_of(&err), message: err.to_string() }
    }
}

fn code_of(err: &Error) -> Code {
    match (err.kind(), err.op()) {
        (ErrorKind::Denied, _) => DENIED,
        // A key, a ttl or a number of permits comes from the command line; what `connect` refuses is the URL.
        (ErrorKind::Invalid, Op::Connect) | (ErrorKind::Unsupported, _) => CONFIG,
        (ErrorKind::Invalid, _) => USAGE,
        (ErrorKind::Lost, _) => LOST,
        (ErrorKind::Timeout, _) => BUSY,
        (ErrorKind::Unavailable, _) => UNAVAILABLE,
        _ => INTERNAL,
    }
}

/// Ends this process by the signal that ended the job, so that shells and supervisors see the same death. Where
/// that cannot be, by the code that a shell would give it.
pub(crate) fn die_by(signal: i32) -> Code {
    // The job may have left a core; another one of this process would only mislead.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let _ = signal_hook::low_level::emulate_default_handler(signal);
    signalled(signal)
}

/// What a shell says of a program that this signal ended.
pub(crate) fn signalled(signal: i32) -> Code {
    Code(u8::try_from(128 + signal).unwrap_or(INTERNAL.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_error_has_its_code() {
        let code = |kind, op| code_of(&Error::new(kind, op, "x"));
        assert_eq!(code(ErrorKind::Unavailable, Op::Acquire), Code(69));
        assert_eq!(code(ErrorKind::Denied, Op::Connect), Code(77));
        assert_eq!(code(ErrorKind::Invalid, Op::Connect), Code(78));
        assert_eq!(code(ErrorKind::Unsupported, Op::Acquire), Code(78));
        assert_eq!(code(ErrorKind::Invalid, Op::Parse), Code(64));
        assert_eq!(code(ErrorKind::Invalid, Op::Acquire), Code(64));
        assert_eq!(code(ErrorKind::Timeout, Op::Acquire), Code(75));
        assert_eq!(code(ErrorKind::Lost, Op::Release), Code(76));
        assert_eq!(code(ErrorKind::Broken, Op::Renew), Code(70));
    }
}
