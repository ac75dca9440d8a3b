//! The server forgets: restarted, flushed, or filled until it evicts.

use tenure::{ErrorKind, Loss};

use crate::bed::{client, empties, forgets, secs, server, told, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restarted_server_tells_the_holder_at_its_next_renewal_and_serves_the_waiters() {
    let server = server(&[]);
    forgets(&server.url(), secs(6), || {
        server.kill().unwrap();
        // It answers at once, and grants when it is a second old.
        server.restart().unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_server_tells_the_holder_at_its_next_renewal_and_serves_the_waiters() {
    let server = server(&[]);
    forgets(&server.url(), secs(6), || drop(server.ask(b"flush_all\r\n", "OK\r\n").unwrap())).await;
}

/// Without anybody who asks for it, or the server would keep it longer than others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_filled_until_it_evicts_tells_the_holder_at_its_next_renewal() {
    let server = server(&["-m", "2"]);
    let (ttl, url) = (secs(24), server.url());
    let (here, there) = (client(&url, ttl).await, client(&url, ttl).await);
    let held = here.mutex("k").unwrap().acquire().await.unwrap();
    let mut evictions = 0;
    let kept = |items: Vec<String>| items.iter().any(|item| item.starts_with("tenure:line"));
    while kept(server.items().unwrap()) {
        evictions = server.fill_until_it_forgets(evictions + 10_000).unwrap();
        assert!(evictions < 1_000_000, "it never forgets");
    }
    // Two hold, as such an engine says they may, until the first one renews. The fence tells them apart.
    let next = within("the key is free", there.mutex("k").unwrap().acquire()).await.unwrap();
    assert!(next.fence() > held.fence());
    assert_eq!(told(&held, ttl / 3 + secs(1)).await, Loss::Gone, "the server said so, not the clock");
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    assert!(!next.is_lost(), "the release of the first frees nobody");
    next.release().await.unwrap();
    empties(&here, "k").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_that_nobody_waits_for_costs_the_lock_and_no_more() {
    let server = server(&[]);
    let here = client(&server.url(), secs(4)).await;
    let mut fence = None;
    for _ in 0..3 {
        let held = here.mutex("k").unwrap().acquire_within(secs(15)).await.unwrap();
        assert!(Some(held.fence()) > fence, "{:?} after {fence:?}", held.fence());
        fence = Some(held.fence());
        server.kill().unwrap();
        server.restart().unwrap();
        assert_eq!(told(&held, secs(4)).await, Loss::Gone);
    }
}
