//! A session serves any number of locks; when it ends, holders are told and waiters get another.

use std::time::Instant;

use tenure::{Filter, Loss};
use tenure_testkit::proxy::Flow;

use crate::bed::{
    client, empties, eventually, gets, line, renewed_since, rival, route, secs, server, told, waits, within,
};

/// The network is away for longer than the session lives, in both ways: whoever held is told, not later than its session can
/// end; whoever waited takes a new place in a new session, and gets the lock in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn when_a_session_ends_holders_are_told_and_waiters_go_on_in_another() {
    let (proxy, [broken, direct]) = route();
    let ttl = secs(2);
    let (here, there) = (client(&broken, ttl).await, client(&direct, ttl).await);
    let [held, waited] = ["sessions/held", "sessions/waited"];
    let mine = here.mutex(held).unwrap().acquire().await.unwrap();
    let theirs = there.mutex(waited).unwrap().acquire().await.unwrap();
    let waiting = waits(&here, waited).await;
    let old = line(&there, waited).await[1].seq;
    let next = rival(&there, held, &mine).await;
    proxy.flow_both(Flow::Swallow).unwrap();
    assert_eq!(told(&mine, ttl).await, Loss::Expired);
    let next = within("the other has the lock", next).await.unwrap();
    let gone = async || match line(&there, waited).await.len() {
        1 => Ok(()),
        places => Err(format!("{places} places")),
    };
    eventually("the waiter's place went with its session", secs(10), gone).await;
    proxy.reset().unwrap();
    proxy.heal().unwrap();
    let anew = async || match line(&there, waited).await.get(1).map(|place| place.seq) {
        Some(new) if new > old => Ok(()),
        other => Err(format!("{other:?}")),
    };
    eventually("the waiter has a new place", secs(10), anew).await;
    theirs.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    drop(mine);
    renewed_since(&next, ttl, Instant::now()).await;
    next.release().await.unwrap();
    empties(&there, held).await;
    empties(&there, waited).await;
}

/// However many locks are held, what the server hears of it is the heartbeat of one session.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_locks_cost_one_heartbeat() {
    let server = server(&[]);
    let ttl = secs(3);
    let client = client(&server.url(), ttl).await;
    let idle = requests_in(&server, secs(2)).await;
    let mut guards = Vec::new();
    for n in 0..500 {
        guards.push(client.mutex(format!("many/{n}")).unwrap().acquire().await.unwrap());
    }
    assert_eq!(
        server.connections().unwrap(),
        1 + usize::from(ttl != secs(15)),
        "one session for all of them"
    );
    let busy = requests_in(&server, secs(2)).await;
    assert!(busy < idle + 60, "500 locks cost {busy} requests where none cost {idle}");
    for guard in guards {
        assert!(!guard.is_lost());
        guard.release().await.unwrap();
    }
    assert!(client.line(&Filter::Prefix("many/".into(), 10)).await.unwrap().is_empty());
}

async fn requests_in(server: &tenure_testkit::zookeeper::Zookeeper, time: std::time::Duration) -> u64 {
    let before = server.counts("zk_packets_received").unwrap();
    tokio::time::sleep(time).await;
    server.counts("zk_packets_received").unwrap() - before
}
