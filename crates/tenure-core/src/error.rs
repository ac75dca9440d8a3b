use std::{borrow::Cow, convert::Infallible, fmt, sync::Arc};

use crate::Key;

/// What the verbs of this crate and of `tenure` return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a driver or of the operating system, kept whole.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What went wrong, in which verb, on which key, and whether it may have happened all the same.
///
/// Contention is not an error, and neither is a loss until somebody asks to use the lock.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    op: Op,
    key: Option<Key>,
    engine: Option<&'static str>,
    applied: Applied,
    message: Cow<'static, str>,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

/// What the caller must decide on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The engine or this library broke the contract: report a bug.
    Broken,
    /// The client was closed.
    Closed,
    /// Credentials or access rights were refused.
    Denied,
    /// A key, ttl, URL or option is wrong: fix the call.
    Invalid,
    /// The claim is certainly gone.
    Lost,
    /// The protected resource refuses the fence: [`Refusal::of`](crate::Refusal::of) says who was there before.
    Refused,
    /// The caller's deadline passed.
    Timeout,
    /// The engine could not be reached or did not answer.
    Unavailable,
    /// The engine's guarantees say no; found before any I/O.
    Unsupported,
}

/// May the verb have taken effect?
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Applied {
    /// Certainly not.
    No,
    /// Nobody knows.
    Maybe,
}

/// Which verb failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// Wait for a lock: attempts and turns until granted.
    Acquire,
    /// [`Engine::attempt`](crate::Engine::attempt)
    Attempt,
    /// Claim a fence at the resource that a lock protects.
    Claim,
    /// Open an engine.
    Connect,
    /// [`Engine::downgrade`](crate::Engine::downgrade)
    Downgrade,
    /// [`Engine::evict`](crate::Engine::evict)
    Evict,
    /// [`Engine::examine`](crate::Engine::examine)
    Examine,
    /// [`Engine::line`](crate::Engine::line)
    Line,
    /// Parse what the user gave.
    Parse,
    /// Read what a lock protects.
    Read,
    /// [`Engine::release`](crate::Engine::release)
    Release,
    /// [`Engine::renew`](crate::Engine::renew)
    Renew,
    /// Work under a held lock.
    Run,
    /// Write what a lock protects.
    Write,
}

impl Error {
    /// An error of this kind in this verb, which may have applied. The message says what to do.
    pub fn new(kind: ErrorKind, op: Op, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Self(Box::new(Inner {
            kind,
            op,
            key: None,
            engine: None,
            applied: Applied::Maybe,
            message,
            source: None,
        }))
    }

    /// The call is wrong; nothing was done.
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Invalid, Op::Parse, message).not_applied()
    }

    /// The engine could not be reached or did not answer.
    pub fn unavailable(op: Op, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unavailable, op, message)
    }

    /// The engine cannot do this; nothing was done.
    pub fn unsupported(op: Op, message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Unsupported, op, message).not_applied()
    }

    /// The same error in another verb.
    #[must_use]
    pub fn in_op(mut self, op: Op) -> Self {
        self.0.op = op;
        self
    }

    /// The same error, naming the key.
    #[must_use]
    pub fn with_key(mut self, key: &Key) -> Self {
        self.0.key = Some(key.clone());
        self
    }

    /// The same error, naming the engine.
    #[must_use]
    pub fn with_engine(mut self, engine: &'static str) -> Self {
        self.0.engine = Some(engine);
        self
    }

    /// The same error with the driver's own beneath it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<BoxError>) -> Self {
        self.0.source = Some(Arc::from(source.into()));
        self
    }

    /// The same error, which certainly had no effect.
    #[must_use]
    pub fn not_applied(mut self) -> Self {
        self.0.applied = Applied::No;
        self
    }

    /// What the caller must decide on.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Which verb failed.
    #[must_use]
    pub fn op(&self) -> Op {
        self.0.op
    }

    /// On which key, if on one.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        self.0.key.as_ref()
    }

    /// On which engine, once one was asked.
    #[must_use]
    pub fn engine(&self) -> Option<&'static str> {
        self.0.engine
    }

    /// What happened and what to do, without key and engine.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// May the verb have taken effect?
    #[must_use]
    pub fn applied(&self) -> Applied {
        self.0.applied
    }

    /// Whether the verb may have taken effect.
    #[must_use]
    pub fn may_have_applied(&self) -> bool {
        self.0.applied == Applied::Maybe
    }

    /// Whether the same call may succeed later without anybody mending anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, ErrorKind::Unavailable)
    }
}

impl From<Infallible> for Error {
    /// So that what is a [`Key`] already can be given wherever one is parsed.
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl fmt::Display for Error {
    /// One line that a person can act on.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        if inner.op != Op::Parse {
            write!(f, "{}", inner.op)?;
            if let Some(key) = &inner.key {
                write!(f, " `{key}`")?;
            }
            if let Some(engine) = inner.engine {
                write!(f, " on {engine}")?;
            }
            f.write_str(": ")?;
        }
        write!(f, "{}: {}", inner.kind, inner.message)?;
        if let Some(source) = &inner.source {
            write!(f, " ({source})")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self}; applied: {:?})", self.0.applied)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broken => "broken (please report)",
            Self::Closed => "closed",
            Self::Denied => "denied",
            Self::Invalid => "invalid",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::Timeout => "timed out",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
        })
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acquire => "acquire",
            Self::Attempt => "attempt",
            Self::Claim => "claim",
            Self::Connect => "connect",
            Self::Downgrade => "downgrade",
            Self::Evict => "evict",
            Self::Examine => "examine",
            Self::Line => "line",
            Self::Parse => "parse",
            Self::Read => "read",
            Self::Release => "release",
            Self::Renew => "renew",
            Self::Run => "run",
            Self::Write => "write",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn display_is_one_line_to_act_on_and_the_source_stays_whole() {
        let key = Key::new("orders\n1").unwrap();
        let err = Error::unavailable(Op::Attempt, "no answer within 5s; is the server up?")
            .with_key(&key)
            .with_engine("file")
            .with_source(std::io::Error::other("disk on fire"));
        assert_eq!(
            err.to_string(),
            "attempt `orders\\u{a}1` on file: unavailable: no answer within 5s; is the server up? (disk on fire)"
        );
        assert!(err.source().unwrap().downcast_ref::<std::io::Error>().is_some());
        assert!(err.may_have_applied() && err.is_retryable());
        assert!(!err.clone().not_applied().may_have_applied());
        assert_eq!(err.in_op(Op::Release).op(), Op::Release);
    }

    #[test]
    fn a_wrong_call_is_never_retried_and_never_applied() {
        let err = Error::invalid("the key is empty");
        assert_eq!(err.to_string(), "invalid: the key is empty");
        assert!(!err.is_retryable() && !err.may_have_applied());
    }
}
