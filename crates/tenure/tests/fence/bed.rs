//! What the tests stand on: stamps, names that nobody else has, and conditions with a limit.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tenure::{
    ClaimId, Error, Fence, Mode, Refusal, Seq, Stamp,
    fence::{Why, Written},
};

/// How long anything may take on a machine that is busy with other tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn stamp(seq: u64, id: u8, mode: Mode) -> Stamp {
    Stamp::new(Fence::new(Seq::new(seq).unwrap(), 0), ClaimId::from_bytes([id; 16]), mode).unwrap()
}

/// The holder of this grant, which may write.
pub(crate) fn writer(seq: u8) -> Stamp {
    stamp(seq.into(), seq, Mode::Exclusive)
}

/// The holder of this grant, which may read.
pub(crate) fn reader(seq: u8) -> Stamp {
    stamp(seq.into(), seq, Mode::Shared)
}

pub(crate) fn fence(seq: u64) -> Fence {
    Fence::new(Seq::new(seq).unwrap(), 0)
}

/// A name that no other test of this binary uses.
pub(crate) fn fresh(name: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Why it was refused.
pub(crate) fn why<T: std::fmt::Debug>(answer: tenure::Result<T>) -> Why {
    let err: Error = answer.unwrap_err();
    match Refusal::of(&err) {
        Some(refusal) => refusal.why(),
        None => panic!("not a refusal: {err}"),
    }
}

pub(crate) fn by(seq: u64) -> Why {
    Why::Overtaken { by: fence(seq) }
}

pub(crate) const NOW: Written = Written::Now;
pub(crate) const BEFORE: Written = Written::Before;

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {LIMIT:?} in vain until {what}"),
    }
}

/// Every order of the steps of two holders, as who does the next one.
pub(crate) fn orders(each: usize) -> Vec<Vec<usize>> {
    (0..1_u32 << (2 * each))
        .filter(|bits| bits.count_ones() as usize == each)
        .map(|bits| (0..2 * each).map(|i| (bits >> i & 1) as usize).collect())
        .collect()
}
