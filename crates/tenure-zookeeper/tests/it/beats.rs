//! What it takes to keep a session and its places.

use tenure_core::{Engine, Held, Mode, Renewal};
use tenure_testkit::{Result, ensure, proxy::Proxy, zookeeper::Zookeeper};

use crate::support::{claim, corner, hold, let_go, open};

/// Renewals that are asked for together are one message, and nothing is sent after it.
#[tokio::test]
async fn many_renewals_send_no_more_than_one() -> Result {
    const TOGETHER: usize = 10;
    const ROUNDS: u64 = 20;
    let server = Zookeeper::shared()?;
    let proxy = Proxy::start(server.addr())?;
    let url = corner("beats")?.replace(&server.addr().to_string(), &proxy.addr().to_string());
    let engine = open(&url).await?;
    let claim = claim("k", Mode::Exclusive)?;
    let seq = hold(&engine, &claim).await?.seat.seq;
    let held = [Held { claim: &claim, seq }];
    let renew = async |together: usize| -> Result<u64> {
        let before = proxy.counts().up.forwarded;
        let calls = (0..together).map(|_| engine.renew(&held));
        for renewed in futures_util::future::try_join_all(calls).await? {
            ensure!(matches!(renewed[..], [Renewal::Renewed(_)]), "{renewed:?}");
        }
        Ok(proxy.counts().up.forwarded - before)
    };
    // The first beat of a session comes by itself.
    renew(1).await?;
    let one = renew(1).await?;
    let mut many = 0;
    for _ in 0..ROUNDS {
        many += renew(TOGETHER).await?;
    }
    // A beat that is due by itself may fall in between.
    ensure!(many <= (ROUNDS + 1) * one, "{ROUNDS} rounds of {TOGETHER} sent {many} bytes, one alone {one}");
    let_go(&engine, &claim).await
}
