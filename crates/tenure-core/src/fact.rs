/// Something an operator should know about an engine as it stands: its version, where it keeps its memory, what
/// it does when that is full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// What it is about, in a word.
    pub name: &'static str,
    /// What was found and, if that weakens the locks, what to change.
    pub text: String,
    /// Whether it makes locks weaker than they could be.
    pub warns: bool,
}

impl Fact {
    /// A fact that is as it should be.
    pub fn good(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), warns: false }
    }

    /// A fact that makes locks weaker than they could be.
    pub fn warning(name: &'static str, text: impl Into<String>) -> Self {
        Self { name, text: text.into(), warns: true }
    }
}
