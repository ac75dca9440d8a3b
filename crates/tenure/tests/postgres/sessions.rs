//! The server ends sessions: because an operator says so, or because they were idle.

use std::time::{Duration, Instant};

use crate::bed::{LIMIT, client, empties, eventually, gets, renewed_since, secs, server, value, waits};

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
