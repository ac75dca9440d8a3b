//! What can go wrong in a sale.

use std::fmt;

use tenure::ErrorKind;

/// Why something was not done.
#[derive(Debug)]
pub enum Trouble {
    /// The call is wrong: a flag.
    Usage(String),
    /// What the engine's or the store's URL says is wrong, or refused.
    Engine(tenure::Error),
    /// The store, the cache or the engine cannot be reached or does not answer.
    Unavailable(String),
    /// Another transaction was faster, and nothing was done.
    Again(String),
    /// The store turned a late holder away.
    Refused,
    /// Something is wrong inside.
    Internal(String),
    /// A signal of this number: who watched has had enough.
    Interrupted(i32),
}

pub(crate) type Result<T, E = Trouble> = std::result::Result<T, E>;

impl Trouble {
    pub(crate) fn internal(what: &str, err: impl fmt::Display) -> Self {
        Self::Internal(format!("{what}: {err}"))
    }

    pub(crate) fn unavailable(what: &str, err: impl fmt::Display) -> Self {
        Self::Unavailable(format!("{what}: {err}"))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Unavailable(why) | Self::Again(why) | Self::Internal(why) => {
                f.write_str(why)
            }
            Self::Engine(err) => err.fmt(f),
            Self::Refused => f.write_str("the store refused a holder that was overtaken"),
            Self::Interrupted(_) => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<tenure::Error> for Trouble {
    fn from(err: tenure::Error) -> Self {
        match err.kind() {
            ErrorKind::Refused => Self::Refused,
            // A hold that is lost before the write is a reason to begin again, like one that the store refuses.
            ErrorKind::Lost => Self::Again(err.to_string()),
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Denied => Self::Engine(err),
            _ => Self::Unavailable(err.to_string()),
        }
    }
}
