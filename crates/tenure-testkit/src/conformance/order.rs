use std::{sync::Arc, time::Duration};

use tenure_core::{Claim, Engine, Order, Standing, Wake};
use tokio::task::JoinSet;

use crate::{
    Cx, Failure, Result, ensure_eq,
    faults::{Silent, Yielding},
    steps::*,
};

super::area! { "order":
    first_come_first_served (Fifo),
    a_newcomer_does_not_overtake (Fifo),
    a_long_line_is_kept (Fifo),
    waiters_are_never_forgotten,
    waiters_come_through_without_pushes,
}

/// Waiters come to hold in the order in which they came.
async fn first_come_first_served(cx: Cx) -> Result<()> {
    let mut holder = cx.exclusive();
    hold(&cx.a, &holder).await?;
    let waiters: Vec<_> = (0..8).map(|_| cx.exclusive()).collect();
    for (n, waiter) in waiters.iter().enumerate() {
        queue(engine(&cx, n), waiter).await?;
    }
    let mut holds_on = &cx.a;
    for (n, next) in waiters.iter().enumerate() {
        let_go(holds_on, &holder).await?;
        let line = line(&cx.a, &cx.key).await?;
        let holders: Vec<_> =
            line.iter().filter(|place| place.standing == Standing::Holds).map(|place| place.id).collect();
        ensure_eq!(holders, [next.id], "who holds after the release");
        // A claim is its client's own: where places live with a session, nobody else can ask for it.
        holds_on = engine(&cx, n);
        hold(holds_on, next).await?;
        holder = next.clone();
    }
    Ok(())
}

fn engine(cx: &Cx, n: usize) -> &Arc<dyn Engine> {
    if n.is_multiple_of(2) { &cx.a } else { &cx.b }
}

/// A claim that comes while the key is free but somebody stands in line waits behind them.
async fn a_newcomer_does_not_overtake(cx: Cx) -> Result<()> {
    let (holder, waiter) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    queue(&cx.a, &waiter).await?;
    let_go(&cx.a, &holder).await?;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    queue(&cx.b, &cx.exclusive()).await?;
    hold(&cx.a, &waiter).await?;
    Ok(())
}

/// A line of some hundred claims is kept whole and in order.
async fn a_long_line_is_kept(cx: Cx) -> Result<()> {
    let claims: Vec<_> = (0..300).map(|_| cx.exclusive()).collect();
    hold(&cx.a, &claims[0]).await?;
    for (n, claim) in claims.iter().enumerate().skip(1) {
        queue(engine(&cx, n), claim).await?;
    }
    let shown: Vec<_> = line(&cx.b, &cx.key).await?.iter().map(|place| place.id).collect();
    let want: Vec<_> = claims.iter().map(|claim| claim.id).collect();
    ensure_eq!(shown.len(), want.len(), "places in the line");
    ensure_eq!(shown == want, true, "the order of the line");
    for (n, claim) in claims.iter().enumerate() {
        hold(engine(&cx, n), claim).await?;
        let_go(engine(&cx, n), claim).await?;
    }
    nobody(&cx.a, &cx.key).await
}

/// A line of twenty claims of two clients drains to the last one.
async fn waiters_are_never_forgotten(cx: Cx) -> Result<()> {
    // Long enough to show that pushes come, where they are promised.
    let recheck = if cx.guarantees.wake == Wake::Push { 3_000 } else { 100 };
    let recheck = Duration::from_millis(recheck);
    drain(&cx, Yielding::over(cx.a.clone()), Yielding::over(cx.b.clone()), recheck).await
}

/// A line drains when no push ever arrives, by asking again.
async fn waiters_come_through_without_pushes(cx: Cx) -> Result<()> {
    drain(&cx, Silent::over(cx.a.clone()), Silent::over(cx.b.clone()), Duration::from_millis(20)).await
}

async fn drain(cx: &Cx, a: Arc<dyn Engine>, b: Arc<dyn Engine>, recheck: Duration) -> Result<()> {
    let holder = cx.exclusive();
    hold(&a, &holder).await?;
    let mut waiters = JoinSet::new();
    for n in 0..20 {
        let engine = if n % 2 == 0 { a.clone() } else { b.clone() };
        let claim: Claim = cx.exclusive();
        wait(&engine, &claim).await?;
        waiters.spawn(async move {
            acquire(&engine, &claim, recheck, Duration::from_secs(25)).await?;
            let_go(&engine, &claim).await
        });
    }
    let_go(&a, &holder).await?;
    while let Some(waiter) = waiters.join_next().await {
        waiter.map_err(|error| Failure::new(format!("a waiter died: {error}")))??;
    }
    match cx.guarantees.order {
        Order::Fifo => nobody(&a, &cx.key).await,
        // What a lost round of votes took may still be on its way out.
        Order::Any => {
            let empty = async || Ok(line(&a, &cx.key).await?.is_empty());
            cx.eventually("the line is empty", Cx::LIMIT, empty).await
        }
    }
}
