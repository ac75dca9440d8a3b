//! A line as the store has it.

use tenure_core::{ClaimId, Error, ErrorKind, Key, Mode, Op, Result, Seq};

use crate::{ENGINE, names::Names, pb, spots::Spot, words::Words};

/// A place as the store has it.
#[derive(Clone, Debug)]
pub(crate) struct Standing {
    pub(crate) key: Key,
    pub(crate) spot: Spot,
    pub(crate) seq: Seq,
    pub(crate) lease: i64,
    pub(crate) name: Vec<u8>,
    pub(crate) words: Words,
}

impl Standing {
    /// Whose place it is.
    pub(crate) fn id(&self) -> ClaimId {
        self.words.id
    }
}

/// Reads places, and puts each line in order.
pub(crate) fn read(op: Op, names: &Names, kvs: Vec<pb::KeyValue>) -> Result<Vec<Standing>> {
    let read = |kv: pb::KeyValue| {
        let (key, spot) = names.read(&kv.key)?;
        let seq = Seq::new(kv.create_revision.unsigned_abs())?;
        Some(Standing { key, spot, seq, lease: kv.lease, words: Words::read(&kv.value)?, name: kv.key })
    };
    let mut places = kvs.into_iter().map(read).collect::<Option<Vec<_>>>().ok_or_else(|| {
        let message = "among the places stands a key that tenure did not write; delete it";
        Error::new(ErrorKind::Broken, op, message).with_engine(ENGINE)
    })?;
    places.sort_by(|a, b| (&a.key, a.seq).cmp(&(&b.key, b.seq)));
    Ok(places)
}

pub(crate) fn modes(line: &[Standing]) -> Vec<Mode> {
    line.iter().map(|place| place.words.mode).collect()
}

/// An answer that this engine's own requests cannot have.
pub(crate) fn nonsense(op: Op) -> Error {
    Error::new(ErrorKind::Broken, op, "the server gave an answer that makes no sense here")
        .with_engine(ENGINE)
}
