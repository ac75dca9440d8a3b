//! The server ends sessions: because an operator says so, or because they were idle.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::bed::{
    LIMIT, Ledger, client, contend, empties, eventually, gets, kill_all, line, renewed, renewed_since, secs,
    server, value, waits, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_session_costs_neither_holder_nor_waiter_anything() {
    let server = server(&[]);
    let (ttl, url) = (secs(3), server.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    let places =
        async || line(&here, "k").await.iter().map(|place| (place.id, place.seq)).collect::<Vec<_>>();
    let before = places().await;
    kill_all(&server);
    renewed(&held, ttl).await;
    assert_eq!(before, places().await);
    let fence = held.fence();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_ear_was_cut_off_does_not_sleep_through_its_turn() {
    let server = server(&[]);
    let url = server.url();
    // A waiter that hears nothing looks again after a third of this.
    let (here, there) = (client(&url, secs(60)).await, client(&url, secs(60)).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
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
    for goal in (5..all).step_by(11) {
        let progress = async || if ledger.count() >= goal { Ok(()) } else { Err(format!("{ledger:?}")) };
        eventually("work goes on", LIMIT, progress).await;
        kill_all(&server);
    }
    for worker in workers {
        within("all are done", worker).await.unwrap();
    }
    ledger.check(all);
    let looking = client(&url, secs(5)).await;
    empties(&looking, "k").await;
}

/// Sessions that are idle for a moment are ended all the time, so every verb finds its connection gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_session_may_be_ended_at_any_time() {
    // Shorter than the time between two renewals, and long enough to be opened in.
    let server = server(&["idle_session_timeout=1500"]);
    let (ttl, url) = (secs(6), server.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = waits(&there, "k").await;
    for _ in 0..2 {
        // New ones are made at once, so it is those of now that are waited for.
        let present = "SELECT coalesce(string_agg(pid::text, ','), '0') FROM pg_stat_activity
                       WHERE application_name = 'tenure'";
        let now = value(&server, present);
        let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({now})");
        let ended = async || match &*value(&server, &left) {
            "0" => Ok(()),
            some => Err(format!("{some} sessions")),
        };
        eventually("all sessions are ended", LIMIT, ended).await;
        renewed_since(&held, ttl, Instant::now()).await;
    }
    assert!(!waiting.is_finished());
    let released = Instant::now();
    held.release().await.unwrap();
    let next = gets(waiting).await;
    assert!(released.elapsed() < ttl, "it took {:?}", released.elapsed());
    tokio::time::sleep(Duration::from_millis(1600)).await;
    next.release().await.unwrap();
    empties(&here, "k").await;
}
