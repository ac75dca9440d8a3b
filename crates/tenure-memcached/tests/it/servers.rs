//! Several servers, each with its share of the keys.

use tenure_core::{Engine, Renewal};
use tenure_testkit::{Result, ensure, ensure_eq, memcached::Memcached};

use crate::support::{claim, hold, items, let_go, open, renew, wait};

/// Every server has some of the keys, all clients agree which, and one that dies takes no others with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_costs_its_own_keys_and_no_others() -> Result {
    let servers = Memcached::three()?;
    let hosts = |order: [usize; 3]| order.map(|n| servers[n].addr().to_string()).join(",");
    let (here, there) = (
        open(&format!("memcached://{}", hosts([0, 1, 2]))).await?,
        open(&format!("memcached://{}", hosts([2, 0, 1]))).await?,
    );
    ensure_eq!(here.identity(), there.identity(), "the identity, in whatever order they are named");
    let mut held = Vec::new();
    for n in 0..60 {
        let claim = claim(&format!("spread/{n}"))?;
        held.push((hold(&here, &claim).await?.seat.seq, claim));
        wait(&there, &crate::support::claim(&format!("spread/{n}"))?).await?;
    }
    let shares = [items(&servers[0])?, items(&servers[1])?, items(&servers[2])?];
    ensure_eq!(shares.iter().sum::<usize>(), 60 * 3, "a line and two leases for each key");
    ensure!(shares.iter().all(|&share| share > 0), "the shares are {shares:?}");

    servers[1].kill()?;
    let (mut renewed, mut failed) = (0, 0);
    for (seq, claim) in &held {
        match renew(&here, claim, *seq).await {
            Ok(Renewal::Renewed(_)) => renewed += 1,
            Ok(Renewal::Lost) => {
                return Err(tenure_testkit::Failure::new("a hold on a living server was lost"));
            }
            Err(err) => {
                ensure!(err.is_retryable(), "{err}");
                failed += 1;
            }
        }
    }
    ensure_eq!(failed * 3, shares[1], "the keys of the dead server");
    ensure_eq!(renewed + failed, 60, "all keys");
    Ok(())
}

/// Releases reach the server that has the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_on_any_of_them() -> Result {
    let servers = Memcached::three()?;
    let hosts: Vec<_> = servers.iter().map(|server| server.addr().to_string()).collect();
    let engine = open(&format!("memcached://{}", hosts.join(","))).await?;
    let claims = (0..30).map(|n| claim(&format!("k/{n}"))).collect::<Result<Vec<_>>>()?;
    for claim in &claims {
        hold(&engine, claim).await?;
    }
    for claim in &claims {
        let_go(&engine, claim).await?;
    }
    for server in &servers {
        ensure_eq!(items(server)?, 0, "items that are left");
    }
    Ok(())
}
