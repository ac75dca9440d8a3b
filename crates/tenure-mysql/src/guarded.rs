//! Guarded writes: a transaction that commits only if the lock is still its own.

use tenure_core::{Error, Held, Result};

use crate::{
    script::{Value, code_of, is_table, named_in},
    url::is_database,
};

/// The statement that answers, inside a transaction on the same server, whether a hold still holds, and keeps it so
/// until that transaction ends.
///
/// Make it the last statement before the commit, and commit only if its one value is 1. From then on nobody else can
/// be granted the key before the commit: whoever tries waits for it. So do renewals of the hold, hence *last*: a
/// transaction that goes on for seconds after it keeps the lock from being renewed.
///
/// It needs the right to SELECT from the tables, and works at every isolation level, in every time zone, with any
/// client. Where the server refuses to read what changed after the transaction began (error 1020, MariaDB with
/// `innodb_snapshot_isolation`), the transaction is undone like one that met a deadlock: begin it again, at
/// READ COMMITTED.
///
/// # Examples
/// ```
/// use tenure_core::{Answered, Claim, ClaimId, Held, Key, Mode, Note, Patience, Seq, Ttl};
/// use tenure_mysql::StillHeld;
///
/// # let claim = Claim {
/// #     key: Key::new("jobs/nightly")?, id: ClaimId::fresh(), mode: Mode::Exclusive, patience: Patience::Queue,
/// #     ttl: Ttl::new(std::time::Duration::from_secs(30))?, floor: Seq::ZERO, note: Note::new("", ""),
/// # };
/// # let seq = Seq::new(41).unwrap();
/// let check = StillHeld::new("shop", "tenure", Held { claim: &claim, seq })?;
/// // With a driver: execute `check.sql()` with `check.key()`, `check.id()` and `check.seq()`.
/// assert_eq!(check.sql().matches('?').count(), 3);
/// // Or as one text, for whatever takes one.
/// assert!(check.text().contains("`shop`.`tenure_places`"));
/// # Ok::<_, tenure_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillHeld {
    sql: String,
    text: String,
    key: [u8; 32],
    id: [u8; 16],
    seq: u64,
}

impl StillHeld {
    /// For a hold on the server whose database and `table=` are named in the engine's URL.
    ///
    /// # Errors
    /// `Invalid` if either is no such name.
    pub fn new(database: &str, table: &str, hold: Held<'_>) -> Result<Self> {
        if !is_database(database) || !is_table(table) {
            return Err(Error::invalid("these are not the names of a database and its tables"));
        }
        let template = code_of(include_str!("sql/still_held.sql"));
        let (key, id, seq) = (hold.claim.key.digest(), hold.claim.id.to_bytes(), hold.seq.get());
        // The values before the names, which may have a question mark in them.
        let mut text = String::with_capacity(2 * template.len());
        let mut values = [Value::Bytes(&key), Value::Bytes(&id), Value::Number(seq)].into_iter();
        for part in template.split_inclusive('?') {
            text.push_str(part.trim_end_matches('?'));
            if let Some(value) = values.next().filter(|_| part.ends_with('?')) {
                value.write(&mut text);
            }
        }
        let named = |text: &str| named_in(Some(database), table, text);
        Ok(Self { sql: named(&template), text: named(&text), key, id, seq })
    }

    /// The statement, with a `?` for [`StillHeld::key`], [`StillHeld::id`] and [`StillHeld::seq`], in this order. It selects one
    /// integer: 1 if the hold still holds, 0 if not.
    #[must_use]
    pub fn sql(&self) -> &str {
        &self.sql
    }

    /// The key, as the tables know it.
    #[must_use]
    pub const fn key(&self) -> &[u8; 32] {
        &self.key
    }

    /// The claim's id.
    #[must_use]
    pub const fn id(&self) -> &[u8; 16] {
        &self.id
    }

    /// The place's number.
    #[must_use]
    pub const fn seq(&self) -> u64 {
        self.seq
    }

    /// The statement with the values in it, as numbers and hexadecimal literals.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}
