use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{Claim, ClaimId, Standing};
use tokio::task::JoinSet;

use crate::{Cx, Failure, Result, ensure, ensure_eq, steps::*};

super::area! { "exclusion":
    one_holder,
    next_holds_after_release,
    one_client_does_not_shut_itself_in,
    clients_with_other_clocks (Leases, Skew),
    race (Threads),
    race_without_waiting (Threads),
}

/// While one claim holds alone, no other does, whichever client asks.
async fn one_holder(cx: Cx) -> Result<()> {
    let first = cx.exclusive();
    let grant = hold(&cx.a, &first).await?;
    for engine in [&cx.b, &cx.a] {
        wait(engine, &cx.hasty_exclusive()).await?;
        wait(engine, &cx.exclusive()).await?;
    }
    let holders = line(&cx.b, &cx.key).await?.iter().filter(|p| p.standing == Standing::Holds).count();
    ensure_eq!(holders, 1, "holders in the line");
    still_holds(&cx.a, &first, grant.seat.seq).await
}

/// Once the holder let go, the next attempt holds.
async fn next_holds_after_release(cx: Cx) -> Result<()> {
    let first = cx.exclusive();
    hold(&cx.a, &first).await?;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    let_go(&cx.a, &first).await?;
    let second = cx.hasty_exclusive();
    hold(&cx.b, &second).await?;
    wait(&cx.a, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// Two claims of one client exclude each other as those of two clients do.
async fn one_client_does_not_shut_itself_in(cx: Cx) -> Result<()> {
    let (first, second) = (cx.exclusive(), cx.hasty_exclusive());
    hold(&cx.a, &first).await?;
    wait(&cx.a, &second).await?;
    let_go(&cx.a, &first).await?;
    hold(&cx.a, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// Leases are judged by the store's clock, so a client whose clock is ahead does not see them end early.
async fn clients_with_other_clocks(cx: Cx) -> Result<()> {
    let ahead = cx.lab.open_ahead(Duration::from_secs(7200)).await?;
    let first = cx.exclusive();
    let grant = hold(&cx.a, &first).await?;
    wait(&ahead, &cx.hasty_exclusive()).await?;
    still_holds(&cx.a, &first, grant.seat.seq).await?;
    let_go(&cx.a, &first).await?;
    hold(&ahead, &cx.exclusive()).await?;
    wait(&cx.a, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// Many tasks on many threads and clients add to a number that only the lock protects: none is lost, nobody
/// meets anybody inside, and every holder's number is above the one before.
async fn race(cx: Cx) -> Result<()> {
    race_of(&cx, 8, 12, true).await
}

/// The same with claims that never wait in the line.
async fn race_without_waiting(cx: Cx) -> Result<()> {
    race_of(&cx, 6, 8, false).await
}

#[derive(Debug, Default)]
struct Scene {
    count: AtomicU64,
    occupied: AtomicBool,
    last_seq: AtomicU64,
}

async fn race_of(cx: &Cx, tasks: u64, rounds: u64, queue: bool) -> Result<()> {
    let scene = Arc::new(Scene::default());
    let mut racers = JoinSet::new();
    for task in 0..tasks {
        let engine = if task % 2 == 0 { cx.a.clone() } else { cx.b.clone() };
        let (scene, wish) = (scene.clone(), if queue { cx.exclusive() } else { cx.hasty_exclusive() });
        racers.spawn(async move {
            for _ in 0..rounds {
                let claim = Claim { id: ClaimId::fresh(), ..wish.clone() };
                let recheck = Duration::from_millis(if queue { 100 } else { 2 });
                let grant = acquire(&engine, &claim, recheck, Duration::from_secs(20)).await?;
                inside(&scene, grant.seat.seq.get()).await?;
                let_go(&engine, &claim).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    // The first failure ends the race: whoever failed may have left a place that the others would wait for.
    while let Some(racer) = racers.join_next().await {
        racer.map_err(|error| Failure::new(format!("a racer died: {error}")))??;
    }
    ensure_eq!(scene.count.load(Ordering::SeqCst), tasks * rounds, "additions that were not lost");
    nobody(&cx.a, &cx.key).await
}

/// The protected section: reads, lets others run, then writes. Two inside at once lose an addition.
async fn inside(scene: &Scene, seq: u64) -> Result<()> {
    ensure!(!scene.occupied.swap(true, Ordering::SeqCst), "two holders at once");
    let last = scene.last_seq.swap(seq, Ordering::SeqCst);
    ensure!(seq > last, "a later holder has number {seq}, the one before had {last}");
    let count = scene.count.load(Ordering::SeqCst);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    scene.count.store(count + 1, Ordering::SeqCst);
    scene.occupied.store(false, Ordering::SeqCst);
    Ok(())
}
