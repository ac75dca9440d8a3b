//! The server closes connections or forgets scripts: nobody loses anything.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use tenure::{ErrorKind, Evicted, Eviction, Loss, When};
use tenure_testkit::redis::Persistence;

use crate::bed::{
    LIMIT, client, empties, eventually, gets, kill_all, line, redis, renewed_since, secs, waits, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_and_readers_stay_within_their_rule_while_connections_are_killed() {
    const ROUNDS: usize = 15;
    let redis = redis(Persistence::None);
    let url = redis.url();
    let (inside, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = Vec::new();
    for _ in 0..3 {
        let (client, inside, done) = (client(&url, secs(5)).await, inside.clone(), done.clone());
        workers.push(tokio::spawn(async move {
            let (semaphore, rwlock) = (client.semaphore("s", 2).unwrap(), client.rwlock("rw").unwrap());
            for round in 0..ROUNDS {
                let permit = within("a permit is free", semaphore.acquire()).await.unwrap();
                assert!(inside.fetch_add(1, Ordering::SeqCst) < 2, "three hold two permits");
                let reader = within("it can be read", rwlock.read()).await.unwrap();
                drop(reader);
                if round % 3 == 0 {
                    drop(within("it can be written", rwlock.write()).await.unwrap());
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                drop(permit);
                done.fetch_add(1, Ordering::SeqCst);
            }
            client.close().await;
        }));
    }
    for goal in (3..3 * ROUNDS).step_by(4) {
        let progress = async || match done.load(Ordering::SeqCst) {
            done if done >= goal => Ok(()),
            done => Err(format!("{done} rounds")),
        };
        eventually("work goes on", LIMIT, progress).await;
        kill_all(&redis);
    }
    for worker in workers {
        within("all work is done", worker).await.unwrap();
    }
    let client = client(&url, secs(5)).await;
    empties(&client, "s").await;
    empties(&client, "rw").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_scripts_are_loaded_again_by_every_verb() {
    let redis = redis(Persistence::None);
    let (ttl, url) = (secs(2), redis.url());
    let forget = || redis.command(&["SCRIPT", "FLUSH"]).unwrap();
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    forget();
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    forget();
    let flushed = Instant::now();
    renewed_since(&held, ttl, flushed).await;
    let waiting = waits(&there, "k").await;
    forget();
    assert_eq!(line(&here, "k").await.len(), 2);
    forget();
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();

    let writer = here.rwlock("k").unwrap().write().await.unwrap();
    forget();
    let reader = writer.downgrade().await.unwrap();
    let place = line(&there, "k").await.remove(0);
    let eviction = Eviction { key: place.key, id: place.id, seq: place.seq, when: When::Now };
    forget();
    assert_eq!(there.evict(&eviction).await.unwrap(), Evicted::Freed);
    assert_eq!(within("the holder is told", reader.lost()).await, Loss::Gone);
    assert_eq!(reader.release().await.unwrap_err().kind(), ErrorKind::Lost);
    empties(&here, "k").await;
}
