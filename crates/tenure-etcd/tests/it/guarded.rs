//! Transactions of others that happen only while the lock is held.

use tenure_core::{Claim, EngineUrl, Fence, Seq};
use tenure_etcd::{EtcdOptions, holds};
use tenure_testkit::{
    Result, ensure_eq,
    etcd::{Etcd, base64},
};

use crate::support::{claim, hold, let_go, open, wait};

/// Writes if the lock is held, and says whether it did.
fn write(url: &str, claim: &Claim, seq: Seq) -> Result<bool> {
    let mut url: EngineUrl = url.parse()?;
    let at = holds(&EtcdOptions::from_url(&mut url)?, &claim.key, claim.id, Fence::new(seq, 5))?;
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
    ensure_eq!(write(&url, &holder, held)?, true, "the holder's write");
    let wrong = Seq::new(held.get() + 1).unwrap();
    ensure_eq!(write(&url, &holder, wrong)?, false, "a write with another number");
    ensure_eq!(write(&url, &claim("k # %")?, held)?, false, "a stranger's write");
    let_go(&engine, &holder).await?;
    ensure_eq!(write(&url, &holder, held)?, false, "a write after the release");
    ensure_eq!(hold(&engine, &next).await?.seat.seq, waits, "the number of the next");
    ensure_eq!(write(&url, &next, waits)?, true, "the next holder's write");
    let_go(&engine, &next).await
}
