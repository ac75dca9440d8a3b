//! Transactions of others that happen only while the lock is held.

use std::collections::BTreeSet;

use tenure_core::{Answered, Attempt, Claim, Engine, ErrorKind, Fence, Released, Seq};
use tenure_etcd::{EtcdEngine, HeldAt};
use tenure_testkit::{
    Result, ensure, ensure_eq,
    etcd::{Etcd, base64},
};

use crate::support::{claim, hold, let_go, open, wait};

fn held_at(engine: &EtcdEngine, claim: &Claim, seq: Seq) -> tenure_core::Result<HeldAt> {
    engine.held_at(claim.id, Fence::new(seq, 5))
}

/// Writes if the lock is held, and says whether it did.
fn write(at: &HeldAt) -> Result<bool> {
    let compare = format!(
        r#"{{"key":"{}","target":"CREATE","result":"EQUAL","create_revision":"{}"}}"#,
        base64(&at.key),
        at.create_revision
    );
    let put = format!(r#"{{"request_put":{{"key":"{}","value":"eA=="}}}}"#, base64(b"data"));
    let body = format!(r#"{{"compare":[{compare}],"success":[{put}]}}"#);
    Ok(Etcd::shared()?.admin().call("kv/txn", &body)?.contains(r#""succeeded":true"#))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_happens_only_while_the_lock_is_held() -> Result {
    let url = format!("{}?ns=guarded", Etcd::shared()?.url());
    let engine = open(&url).await?;
    let (holder, next) = (claim("k # %")?, claim("k # %")?);
    let held = hold(&engine, &holder).await?.seat.seq;
    let waits = wait(&engine, &next).await?.seat.unwrap().seq;
    let at = held_at(&engine, &holder, held)?;
    ensure_eq!(write(&at)?, true, "the holder's write");
    for (who, seq) in [(&holder, Seq::new(held.get() + 1).unwrap()), (&claim("k # %")?, held)] {
        let lost = held_at(&engine, who, seq).map_err(|err| err.kind());
        ensure_eq!(lost, Err(ErrorKind::Lost), "where somebody stands who does not");
    }
    let_go(&engine, &holder).await?;
    ensure_eq!(write(&at)?, false, "a write after the release");
    ensure!(held_at(&engine, &holder, held).is_err(), "a released claim stands somewhere");
    ensure_eq!(hold(&engine, &next).await?.seat.seq, waits, "the number of the next");
    let next_at = held_at(&engine, &next, waits)?;
    ensure_eq!(write(&next_at)?, true, "the next holder's write");
    let_go(&engine, &next).await?;
    // Somebody else at the same name, with another number.
    let last = claim("k # %")?;
    let seq = hold(&engine, &last).await?.seat.seq;
    ensure_eq!(held_at(&engine, &last, seq)?.key, next_at.key, "the name of the last place");
    ensure_eq!((write(&at)?, write(&next_at)?), (false, false), "writes of those who held before");
    let_go(&engine, &last).await
}

/// etcd goes through all names that ever were in a line: there must not be one for each time that a lock was taken.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_used_again_when_nothing_can_strike_who_stands_there_next() -> Result {
    let engine = open(&format!("{}?ns=spots", Etcd::shared()?.url())).await?;
    let mut names = BTreeSet::new();
    for _ in 0..10 {
        let claims = [claim("k")?, claim("other")?];
        for claim in &claims {
            let seq = hold(&engine, claim).await?.seat.seq;
            names.insert(held_at(&engine, claim, seq)?.key);
        }
        for claim in &claims {
            let_go(&engine, claim).await?;
        }
    }
    ensure!(names.len() <= 4, "{} names of two locks with two places at most", names.len());
    // An attempt of this one may still be on its way, so nobody else is to stand where it would.
    let doubtful = claim("k")?;
    let seq = hold(&engine, &doubtful).await?.seat.seq;
    let left = held_at(&engine, &doubtful, seq)?.key;
    ensure_eq!(engine.release(&doubtful, Answered::InDoubt).await?, Released::Freed, "a release in doubt");
    let claims = [claim("k")?, claim("k")?, claim("k")?];
    for claim in &claims {
        let seq = match engine.attempt(claim).await? {
            Attempt::Granted(grant) => grant.seat.seq,
            Attempt::Busy(busy) => busy.seat.unwrap().seq,
        };
        ensure!(held_at(&engine, claim, seq)?.key != left, "a name in doubt is used again");
    }
    for claim in &claims {
        let_go(&engine, claim).await?;
    }
    Ok(())
}
