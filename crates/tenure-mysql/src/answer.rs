//! What a server answers: for each statement its rows, all of them text.

use sqlx::{Row, mysql::MySqlRow};
use tenure_core::{Error, ErrorKind, Op, Result};

/// The rows of each statement, in order; most have none.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) sets: Vec<Vec<Fields>>,
    /// Of each statement, how many rows it found or changed, and what it inserted last.
    pub(crate) done: Vec<(u64, u64)>,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Fields(Vec<Option<Vec<u8>>>);

impl Answer {
    /// The rows of the statements that gave any, statement by statement.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &Fields> {
        self.sets.iter().flatten()
    }

    /// How many rows a statement found or changed, and what it inserted last.
    pub(crate) fn done(&self, statement: usize) -> (u64, u64) {
        self.done.get(statement).copied().unwrap_or_default()
    }

    /// The only row.
    pub(crate) fn row(&self, op: Op) -> Result<&Fields> {
        self.rows().next().ok_or_else(|| nonsense(op))
    }
}

impl Fields {
    pub(crate) fn read(row: &MySqlRow) -> Result<Self, sqlx::Error> {
        (0..row.len()).map(|at| row.try_get_unchecked(at)).collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn bytes(&self, at: usize) -> Option<&[u8]> {
        self.0.get(at)?.as_deref()
    }

    pub(crate) fn text(&self, at: usize) -> &str {
        self.bytes(at).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    /// A number, or `None` if it is `NULL` or none.
    pub(crate) fn number(&self, at: usize) -> Option<i64> {
        self.text(at).parse().ok()
    }

    /// Whether a condition was true; what is unknown is not.
    pub(crate) fn is(&self, at: usize) -> bool {
        self.number(at).is_some_and(|number| number != 0)
    }
}

/// An answer that no statement here gives.
pub(crate) fn nonsense(op: Op) -> Error {
    Error::new(ErrorKind::Broken, op, "the server's answer is not one to tenure's statements")
}
