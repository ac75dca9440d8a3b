//! A value and its record in a store that can change two things in one step, if the record is still what was seen.

use async_trait::async_trait;
use tenure_core::{Error, ErrorKind, Op, Record, Result, Stamp};

use super::Written;

/// How often others may come between a look and a change: each of them got something done.
const TRIES: usize = 64;

/// A value and its record.
#[async_trait]
pub(super) trait Pair: Sync {
    /// What the store knows the two by, as they were seen.
    type Seen: Send;

    /// The record and the value. The value is not newer than the record, so that whose record it is may trust it.
    async fn look(&self) -> Result<Look<Self::Seen>>;

    /// Puts another record in the place of what was seen, and another value if one is given. Whether it did: not if the
    /// record has changed.
    async fn change(&self, seen: Self::Seen, record: String, value: Option<&[u8]>) -> Result<bool>;
}

/// What is in a store.
pub(super) struct Look<S> {
    pub(super) record: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
    pub(super) seen: S,
}

impl<S> Look<S> {
    fn record(&self) -> Result<Record> {
        match &self.record {
            None => Ok(Record::default()),
            Some(bytes) => String::from_utf8_lossy(bytes).parse(),
        }
    }
}

pub(super) async fn claim(pair: &impl Pair, stamp: Stamp) -> Result<u64> {
    for _ in 0..TRIES {
        let look = pair.look().await?;
        let kept = look.record()?;
        let next = kept.claim(&stamp).map_err(|refusal| refusal.into_error(Op::Claim))?;
        if next == kept || pair.change(look.seen, next.to_string(), None).await? {
            return Ok(next.n());
        }
    }
    Err(crowded(Op::Claim))
}

pub(super) async fn read(pair: &impl Pair, stamp: Stamp) -> Result<Option<Vec<u8>>> {
    let look = pair.look().await?;
    look.record()?.read(&stamp).map_err(|refusal| refusal.into_error(Op::Read))?;
    Ok(look.value)
}

pub(super) async fn write(pair: &impl Pair, stamp: Stamp, n: u64, value: &[u8]) -> Result<Written> {
    for _ in 0..TRIES {
        let look = pair.look().await?;
        let next = look.record()?.write(&stamp, n).map_err(|refusal| refusal.into_error(Op::Write))?;
        let Some(next) = next else { return Ok(Written::Before) };
        if pair.change(look.seen, next.to_string(), Some(value)).await? {
            return Ok(Written::Now);
        }
    }
    Err(crowded(Op::Write))
}

pub(super) async fn record(pair: &impl Pair) -> Result<Record> {
    pair.look().await?.record()
}

fn crowded(op: Op) -> Error {
    let message = format!("others changed the record {TRIES} times while this call looked at it");
    Error::new(ErrorKind::Unavailable, op, message).not_applied()
}
