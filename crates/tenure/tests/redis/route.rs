//! The network between a client and the server breaks, in all the ways a network has.

use std::time::Instant;

use futures_util::future::join_all;
use tenure::Loss;
use tenure_testkit::{
    Result,
    proxy::{Flow, Proxy, Side, Way},
};

use crate::bed::{
    client, empties, gets, millis, renewed_since, runs_down_to, secs, shared, told, url_at, waits, within,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// Requests are lost.
    RequestsLost,
    /// Answers and pushes are lost.
    AnswersLost,
    /// Everything is lost.
    BlackHole,
    /// Everything is late: it arrives when the route is whole again.
    Cut,
    /// Connections are reset and new ones refused.
    Refused,
    /// The server's end of the connections is gone, nobody says so, and there are no new ones.
    HalfOpen,
    /// Connections are reset, and new ones are fine.
    Reset,
    /// The server's end of the connections is gone and nobody says so; new ones are fine.
    Silent,
}

/// Those that last until the route is mended.
const LASTING: [Fault; 6] =
    [Fault::RequestsLost, Fault::AnswersLost, Fault::BlackHole, Fault::Cut, Fault::Refused, Fault::HalfOpen];
/// Those that only cost the connections there are.
const PASSING: [Fault; 2] = [Fault::Reset, Fault::Silent];

impl Fault {
    fn strike(self, proxy: &Proxy) -> Result {
        match self {
            Self::RequestsLost => proxy.flow(Way::Up, Flow::Swallow),
            Self::AnswersLost => proxy.flow(Way::Down, Flow::Swallow),
            Self::BlackHole => proxy.flow_both(Flow::Swallow),
            Self::Cut => proxy.flow_both(Flow::Stall),
            Self::Refused => proxy.refuse().and_then(|()| proxy.reset()),
            Self::HalfOpen => proxy.refuse().and_then(|()| proxy.half_open(Side::Server)),
            Self::Reset => proxy.reset(),
            Self::Silent => proxy.half_open(Side::Server),
        }
    }
}

fn route() -> (Proxy, String) {
    let proxy = Proxy::start(shared().addr()).unwrap();
    let url = url_at(proxy.addr());
    (proxy, url)
}

/// Runs a case for each fault at once, each with its own route and key.
async fn each<F: Future<Output = ()>>(
    faults: impl IntoIterator<Item = Fault>,
    case: impl Fn(Fault, String) -> F,
) {
    let key = |fault| format!("route/{fault:?}/{}", fastrand::u64(..));
    join_all(faults.into_iter().map(|fault| case(fault, key(fault)))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_whose_route_comes_back_in_time_keeps_the_lock() {
    each(LASTING.into_iter().chain(PASSING), |fault, key| async move {
        let (proxy, url) = route();
        let ttl = secs(4);
        let (here, there) = (client(&url, ttl).await, client(&shared().url(), ttl).await);
        let held = here.mutex(&*key).unwrap().acquire().await.unwrap();
        let waiting = waits(&there, &key).await;
        fault.strike(&proxy).unwrap();
        if LASTING.contains(&fault) {
            // Renewals are due when two thirds are left: some have failed.
            runs_down_to(&held, millis(2000)).await;
            proxy.heal().unwrap();
        }
        renewed_since(&held, ttl, Instant::now()).await;
        assert!(!waiting.is_finished(), "{fault:?}");
        held.release().await.unwrap();
        let next = gets(waiting).await;
        next.release().await.unwrap();
        empties(&there, &key).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_holder_whose_route_stays_away_is_told_before_anybody_else_holds() {
    each(LASTING, |fault, key| async move {
        let (proxy, url) = route();
        let ttl = secs(2);
        let (here, there) = (client(&url, ttl).await, client(&shared().url(), ttl).await);
        let held = here.mutex(&*key).unwrap().acquire().await.unwrap();
        let witness = held.witness();
        let waiting = waits(&there, &key).await;
        let rival = tokio::spawn(async move {
            let guard = gets(waiting).await;
            // By a look at the clock, at the very moment at which the other one has it.
            assert!(witness.check().is_err(), "two hold the lock");
            guard
        });
        fault.strike(&proxy).unwrap();
        assert_eq!(told(&held, ttl).await, Loss::Expired, "{fault:?}");
        let fence = held.fence();
        let next = within("the waiter has the lock", rival).await.unwrap();
        assert!(next.fence() > fence);
        // The lost guard is dropped while the route is broken, and must not free what is another's now.
        drop(held);
        proxy.heal().unwrap();
        let back = waits(&here, &key).await;
        renewed_since(&next, ttl, Instant::now()).await;
        assert!(!back.is_finished());
        next.release().await.unwrap();
        gets(back).await.release().await.unwrap();
        empties(&there, &key).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_behind_a_dead_route_has_the_lock_when_it_is_mended() {
    each(LASTING.into_iter().chain(PASSING), |fault, key| async move {
        let (proxy, url) = route();
        // It bears a server that is out of reach for as long as its lease.
        let ttl = secs(3);
        let (here, there) = (client(&url, ttl).await, client(&shared().url(), ttl).await);
        let held = there.mutex(&*key).unwrap().acquire().await.unwrap();
        let waiting = waits(&here, &key).await;
        fault.strike(&proxy).unwrap();
        let fence = held.fence();
        // The push that says so is lost, or late.
        held.release().await.unwrap();
        proxy.heal().unwrap();
        let mended = Instant::now();
        let next = gets(waiting).await;
        assert!(mended.elapsed() < ttl + secs(1), "{fault:?}: after {:?}", mended.elapsed());
        assert!(next.fence() > fence);
        renewed_since(&next, ttl, Instant::now()).await;
        next.release().await.unwrap();
        empties(&there, &key).await;
    })
    .await;
}
