use tenure_core::{Error, ErrorKind, Op, Record, Result};

use super::Dialect;

/// What is asked of a database, in its dialect.
///
/// A record is looked at with its row locked, the rule is asked, and the row is swapped if it still is what was seen:
/// in a transaction it always is.
pub(super) struct Statements<'a> {
    dialect: Dialect,
    table: &'a str,
}

/// A record as text: the parts in the order in which [`Record`] has them.
const TEXT: &str = "CONCAT_WS(' ', fence, claim, n, mark)";
const NOBODY: &str = "00000000000000000000000000000000";

impl<'a> Statements<'a> {
    pub(super) fn new(dialect: Dialect, table: &'a str) -> Self {
        Self { dialect, table }
    }

    pub(super) fn create(&self) -> String {
        let table = self.table;
        match self.dialect {
            Dialect::MySql => format!(
                "CREATE TABLE IF NOT EXISTS {table} (
  resource VARBINARY(255) NOT NULL PRIMARY KEY COMMENT 'what is protected',
  fence BIGINT NOT NULL COMMENT 'of the last writer that claimed',
  claim CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'of that writer',
  n BIGINT NOT NULL COMMENT 'the number of its last write',
  mark BIGINT NOT NULL COMMENT 'the largest fence that claimed, readers too'
) ENGINE=InnoDB COMMENT='tenure: fenced resources'"
            ),
            Dialect::Postgres => format!(
                "CREATE TABLE IF NOT EXISTS {table} (
  resource text PRIMARY KEY,  -- what is protected
  fence bigint NOT NULL,      -- of the last writer that claimed
  claim text NOT NULL,        -- of that writer
  n bigint NOT NULL,          -- the number of its last write
  mark bigint NOT NULL        -- the largest fence that claimed, readers too
) WITH (fillfactor = 70)"
            ),
        }
    }

    /// Makes the row of a resource if there is none; on MySQL, locks the one there is. Changes nothing.
    pub(super) fn make(&self) -> String {
        let (table, place, exists) = match self.dialect {
            Dialect::MySql => (self.table, "?", "ON DUPLICATE KEY UPDATE fence = fence"),
            Dialect::Postgres => (self.table, "$1", "ON CONFLICT (resource) DO NOTHING"),
        };
        format!(
            "INSERT INTO {table} (resource, fence, claim, n, mark) VALUES ({place}, 0, '{NOBODY}', 0, 0) {exists}"
        )
    }

    /// The record, with its row locked for this transaction alone.
    pub(super) fn look(&self) -> String {
        self.locking("FOR UPDATE")
    }

    /// The record, with its row locked beside others who read.
    pub(super) fn look_shared(&self) -> String {
        self.locking(match self.dialect {
            Dialect::MySql => "LOCK IN SHARE MODE",
            Dialect::Postgres => "FOR SHARE",
        })
    }

    /// A locking read sees what was committed last. On MySQL an ordinary one may see what was there when the
    /// transaction first read, and so does the inner one here: if it differs, so may everything the transaction reads.
    fn locking(&self, lock: &str) -> String {
        let table = self.table;
        match self.dialect {
            Dialect::MySql => format!(
                "SELECT CONCAT({TEXT}, '|', COALESCE((SELECT {TEXT} FROM {table} WHERE resource = ?), '')) \
                 FROM {table} WHERE resource = ? {lock}"
            ),
            Dialect::Postgres => format!("SELECT {TEXT} FROM {table} WHERE resource = $1 {lock}"),
        }
    }

    /// Puts one record in the place of another, if that is there.
    pub(super) fn swap(&self) -> String {
        let sql = format!(
            "UPDATE {} SET fence = ?, claim = ?, n = ?, mark = ? \
             WHERE resource = ? AND fence = ? AND claim = ? AND n = ? AND mark = ?",
            self.table
        );
        match self.dialect {
            Dialect::MySql => sql,
            Dialect::Postgres => (1..=9).fold(sql, |sql, i| sql.replacen('?', &format!("${i}"), 1)),
        }
    }
}

/// A record, and the one that the transaction's ordinary reads see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) record: Record,
    /// Whether the ordinary reads see an earlier one, or none.
    stale: bool,
}

impl Kept {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (latest, seen) = text.split_once('|').unwrap_or((text, text));
        Ok(Self { record: latest.parse()?, stale: latest != seen })
    }

    /// The record, unless what the transaction reads next could be older than it.
    pub(super) fn fresh(self, op: Op) -> Result<Record> {
        if self.stale {
            let message = "this transaction read before it came here, and would go on to see what was then; \
                           roll back, and make this its first statement";
            return Err(Error::new(ErrorKind::Invalid, op, message).not_applied());
        }
        Ok(self.record)
    }
}
