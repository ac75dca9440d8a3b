//! The server ends sessions, or gives them other defaults: nobody loses anything.

use std::{sync::Arc, time::Instant};

use crate::bed::{
    LIMIT, Ledger, client, contend, empties, eventually, gets, kill_all, line, listening, millis,
    renewed_since, secs, server, waits, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_sessions_cost_neither_holder_nor_waiter_anything() {
    let server = server(&[]);
    let (ttl, url) = (secs(3), server.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let before: Vec<_> = line(&here, "k").await.iter().map(|place| (place.id, place.seq)).collect();
    kill_all(&server);
    renewed_since(&held, ttl, Instant::now()).await;
    let after: Vec<_> = line(&here, "k").await.iter().map(|place| (place.id, place.seq)).collect();
    assert_eq!(before, after);
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&here, "k").await;
}

/// The doorbell died with the holder's session, and the one who listened for it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_doorbell_is_gone_does_not_sleep_through_its_turn() {
    let server = server(&[]);
    let url = server.url();
    // A waiter that hears nothing looks again after a third of this.
    let (here, there) = (client(&url, secs(60)).await, client(&url, secs(60)).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let heard = async || if listening(&server) == 1 { Ok(()) } else { Err("nobody listens".to_owned()) };
    eventually("the waiter listens", LIMIT, heard).await;
    kill_all(&server);
    let asked = Instant::now();
    drop(held);
    let next = gets(waiting).await;
    assert!(asked.elapsed() < secs(10), "it took {:?}", asked.elapsed());
    next.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_grant_is_doubled_while_sessions_are_killed_again_and_again() {
    const ROUNDS: usize = 30;
    let server = server(&[]);
    let (url, ledger) = (server.url(), Arc::new(Ledger::default()));
    let mut workers = Vec::new();
    for _ in 0..3 {
        let (client, ledger) = (client(&url, secs(5)).await, ledger.clone());
        workers.push(tokio::spawn(async move { contend(&client, "k", ROUNDS, &ledger).await }));
    }
    let all = 3 * ROUNDS as u64;
    // After every few entries, so that each time something was under way and work goes on in between.
    for goal in (5..all).step_by(9) {
        let progress = async || if ledger.count() >= goal { Ok(()) } else { Err(format!("{ledger:?}")) };
        eventually("work goes on", LIMIT, progress).await;
        kill_all(&server);
    }
    for worker in workers {
        within("all work is done", worker).await.unwrap();
    }
    ledger.check(all);
    empties(&client(&url, secs(5)).await, "k").await;
}

/// Whatever a server gives its sessions by default, and whether waiters are told or ask again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_isolation_level_and_both_ways_to_wait_will_do() {
    const ROUNDS: usize = 15;
    for (settings, option) in [
        (&["transaction_isolation=READ-COMMITTED", "wait_timeout=1", "interactive_timeout=1"][..], ""),
        (&["transaction_isolation=REPEATABLE-READ", "max_statement_time=0.5"], ""),
        (&["transaction_isolation=SERIALIZABLE", "autocommit=0"], ""),
        (&["transaction_isolation=SERIALIZABLE"], "?wake=poll"),
    ] {
        let server = server(settings);
        let (url, ledger) = (format!("{}{option}", server.url()), Arc::new(Ledger::default()));
        let mut workers = Vec::new();
        for _ in 0..3 {
            let (client, ledger) = (client(&url, secs(5)).await, ledger.clone());
            workers.push(tokio::spawn(async move { contend(&client, "k", ROUNDS, &ledger).await }));
        }
        for worker in workers {
            within("all work is done", worker).await.unwrap();
        }
        ledger.check(3 * ROUNDS as u64);
        empties(&client(&url, secs(5)).await, "k").await;
    }
}

/// A server that ends idle sessions after a second ends neither those of a holder nor those of a waiter.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_wait_are_not_idle() {
    let server = server(&["wait_timeout=1", "interactive_timeout=1", "max_statement_time=0.5"]);
    let ttl = secs(30);
    let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let mut other = server.admin().unwrap();
    let ended = async || {
        // One that is not ours shows that the time has passed: each look makes it wait for a second anew.
        tokio::time::sleep(millis(1500)).await;
        if other.sql("DO 0").is_err() { Ok(()) } else { Err("it lives".to_owned()) }
    };
    eventually("an idle session is ended", LIMIT, ended).await;
    let asked = Instant::now();
    held.release().await.unwrap();
    gets(waiting).await.release().await.unwrap();
    assert!(asked.elapsed() < secs(5), "it took {:?}", asked.elapsed());
}

/// A wait that is given up leaves neither a place nor a session that blocks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_is_given_up_leaves_nothing_behind() {
    let server = server(&[]);
    let (here, there) = (client(&server.url(), secs(60)).await, client(&server.url(), secs(60)).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    for _ in 0..5 {
        let waiting = waits(&there, "k").await;
        let heard = async || if listening(&server) > 0 { Ok(()) } else { Err("nobody listens".to_owned()) };
        eventually("the waiter listens", LIMIT, heard).await;
        waiting.abort();
        let alone = async || match line(&here, "k").await.len() {
            1 => Ok(()),
            places => Err(format!("{places} places")),
        };
        eventually("its place is given up", secs(3), alone).await;
    }
    let nobody = async || match listening(&server) {
        0 => Ok(()),
        count => Err(format!("{count} still listen")),
    };
    eventually("nobody listens", secs(5), nobody).await;
    held.release().await.unwrap();
    empties(&here, "k").await;
}
