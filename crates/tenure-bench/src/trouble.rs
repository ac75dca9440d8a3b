use std::fmt;

use tenure::ErrorKind;

/// Why something was not measured.
#[derive(Debug)]
pub enum Trouble {
    /// The call is wrong: a flag.
    Usage(String),
    /// What the engine's URL says is wrong, or refused.
    Engine(tenure::Error),
    /// The engine cannot be reached or does not answer.
    Unavailable(String),
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
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(why) | Self::Unavailable(why) | Self::Internal(why) => f.write_str(why),
            Self::Engine(err) => err.fmt(f),
            Self::Interrupted(_) => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Trouble {}

impl From<tenure::Error> for Trouble {
    fn from(err: tenure::Error) -> Self {
        match err.kind() {
            ErrorKind::Invalid | ErrorKind::Unsupported | ErrorKind::Denied => Self::Engine(err),
            ErrorKind::Broken => Self::Internal(err.to_string()),
            _ => Self::Unavailable(err.to_string()),
        }
    }
}
