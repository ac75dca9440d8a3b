use std::fmt;

/// Why a rule does not hold.
#[derive(Clone)]
pub struct Failure {
    message: String,
    verdict: bool,
}

/// What a rule returns.
pub type Result<T = (), E = Failure> = std::result::Result<T, E>;

impl Failure {
    /// A failure with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), verdict: true }
    }

    /// A failure that says nothing about the rule: the trial hung, panicked or could not be run.
    pub(crate) fn of_the_trial(message: impl Into<String>) -> Self {
        Self { message: message.into(), verdict: false }
    }

    /// Whether the rule came to a conclusion, rather than the trial breaking down.
    #[must_use]
    pub const fn is_verdict(&self) -> bool {
        self.verdict
    }
}

impl From<tenure_core::Error> for Failure {
    fn from(error: tenure_core::Error) -> Self {
        Self::new(format!("the engine failed: {error}"))
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::of_the_trial(format!("the machine failed: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Fails the rule with a message unless the condition is true.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::Failure::new(format!($($message)+)));
        }
    };
}

/// Fails the rule with a message that shows both values unless they are equal.
#[macro_export]
macro_rules! ensure_eq {
    ($left:expr, $right:expr, $($message:tt)+) => {{
        let (left, right) = (&$left, &$right);
        if left != right {
            return Err($crate::Failure::new(format!("{}: {left:?}, not {right:?}", format!($($message)+))));
        }
    }};
}
