//! Between our words and those of the tables.

use std::time::Duration;

use tenure_core::{ClaimId, Error, Key, Mode, Note, Op, Permits, Place, Result, Seq, Standing};

use crate::answer::{Fields, nonsense};

/// The SHA-256 of a key: what its rows are found by, since an index takes no name of 1 KiB.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hash(pub(crate) [u8; 32]);

impl Hash {
    pub(crate) fn of(key: &Key) -> Self {
        Self(key.digest())
    }

    /// Which mark the key's numbers are above.
    pub(crate) fn shard(&self) -> u64 {
        self.0[0].into()
    }
}

pub(crate) fn place(row: &Fields) -> Option<Place> {
    let text = |at| Some(String::from_utf8_lossy(row.bytes(at)?));
    Some(Place {
        key: Key::new(&*text(0)?).ok()?,
        id: ClaimId::from_bytes(row.bytes(1)?.try_into().ok()?),
        seq: Seq::new(u64::try_from(row.number(2)?).ok()?)?,
        mode: mode_of(row.number(3)?, row.number(4)?, row.number(5)?)?,
        standing: Standing::Waits,
        lease_left: Some(duration(row.number(6)?)),
        age: duration(row.number(7)?),
        note: Note::new(&text(8)?, &text(9)?),
    })
}

pub(crate) fn blocker(words: &str) -> Option<Mode> {
    let mut numbers = words.split(' ').map(|word| word.parse().ok());
    mode_of(numbers.next()??, numbers.next()??, numbers.next()??)
}

pub(crate) fn mode_numbers(mode: Mode) -> (u64, u32, u32) {
    match mode {
        Mode::Exclusive => (0, 0, 0),
        Mode::Shared => (1, 0, 0),
        Mode::Permits(permits) => (2, permits.take(), permits.of()),
    }
}

pub(crate) fn mode_of(mode: i64, take: i64, total: i64) -> Option<Mode> {
    match mode {
        0 => Some(Mode::Exclusive),
        1 => Some(Mode::Shared),
        2 => Permits::new(u32::try_from(take).ok()?, u32::try_from(total).ok()?).ok().map(Mode::Permits),
        _ => None,
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn duration(micros: i64) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(0))
}

pub(crate) fn number(op: Op, seq: i64) -> Result<Seq> {
    u64::try_from(seq).ok().and_then(Seq::new).ok_or_else(|| nonsense(op))
}

pub(crate) fn absurd_floor(op: Op) -> Error {
    Error::invalid("the least number asked for is more than a day ahead of the server's clock").in_op(op)
}
