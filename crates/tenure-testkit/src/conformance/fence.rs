use std::time::Duration;

use tenure_core::{Claim, Renewal, Seq};

use crate::{Cx, Failure, Result, ensure, steps::*};

super::area! { "fence":
    grows_with_every_grant,
    grows_after_idle,
    grows_after_reopening,
    grows_after_everybody_left,
    grows_after_restart (Restart),
    fits_in_53_bits,
    grows_in_the_order_of_the_line (Fifo),
    respects_the_floor (Floors),
    renewing_raises_to_the_floor (Floors),
}

/// Holds and lets go once, and requires a number above `last`.
async fn one_more(cx: &Cx, on_b: bool, last: Seq) -> Result<Seq> {
    let engine = if on_b { &cx.b } else { &cx.a };
    let claim = cx.hasty_exclusive();
    let seq = hold(engine, &claim).await?.seat.seq;
    ensure!(seq > last, "a later grant has number {seq}, an earlier one had {last}");
    let_go(engine, &claim).await?;
    Ok(seq)
}

/// Every grant of a key has a larger number than the one before, whichever client it went to.
async fn grows_with_every_grant(cx: Cx) -> Result<()> {
    let mut last = Seq::ZERO;
    for n in 0..20 {
        last = one_more(&cx, n % 3 == 0, last).await?;
    }
    Ok(())
}

/// A key that nobody used for a while goes on where it was.
async fn grows_after_idle(cx: Cx) -> Result<()> {
    let mut last = Seq::ZERO;
    for n in 0..3 {
        for _ in 0..4 {
            last = one_more(&cx, n == 1, last).await?;
        }
        // Long enough in virtual time for an engine to forget an idle key; where time is real the key is at
        // least empty in between.
        let idle = if cx.time == crate::Time::Virtual { 100_000_000 } else { 50 };
        cx.pass(Duration::from_millis(idle)).await;
        nobody(&cx.a, &cx.key).await?;
    }
    Ok(())
}

/// A client that is opened later goes on where the others were.
async fn grows_after_reopening(cx: Cx) -> Result<()> {
    let mut last = one_more(&cx, false, Seq::ZERO).await?;
    for _ in 0..3 {
        let late = cx.lab.open().await?;
        let claim = cx.hasty_exclusive();
        let seq = hold(&late, &claim).await?.seat.seq;
        ensure!(seq > last, "a new client's grant has number {seq}, an earlier one had {last}");
        let_go(&late, &claim).await?;
        drop(late);
        last = one_more(&cx, true, seq).await?;
    }
    Ok(())
}

/// A store that all clients have left goes on where it was when one comes back.
async fn grows_after_everybody_left(cx: Cx) -> Result<()> {
    let mut last = one_more(&cx, true, Seq::ZERO).await?;
    let claim = cx.hasty_exclusive();
    let Cx { a, b, lab, .. } = cx;
    drop((a, b));
    for _ in 0..3 {
        let alone = lab.open().await?;
        let claim = Claim { id: tenure_core::ClaimId::fresh(), ..claim.clone() };
        let seq = hold(&alone, &claim).await?.seat.seq;
        ensure!(seq > last, "the grant of who came back has number {seq}, an earlier one had {last}");
        let_go(&alone, &claim).await?;
        last = seq;
    }
    Ok(())
}

/// A server that was killed and started again goes on where it was.
async fn grows_after_restart(cx: Cx) -> Result<()> {
    let mut last = Seq::ZERO;
    for _ in 0..5 {
        last = one_more(&cx, false, last).await?;
    }
    for _ in 0..2 {
        cx.lab.restart().await?;
        let late = cx.lab.open().await?;
        let claim = cx.exclusive();
        let grant = acquire(&late, &claim, Duration::from_millis(100), Cx::LIMIT).await?;
        ensure!(grant.seat.seq > last, "after a restart {} came, before it {last}", grant.seat.seq);
        last = grant.seat.seq;
        let_go(&late, &claim).await?;
    }
    Ok(())
}

/// Numbers are positive and below 2^53.
async fn fits_in_53_bits(cx: Cx) -> Result<()> {
    let seq = hold(&cx.a, &cx.exclusive()).await?.seat.seq;
    ensure!(seq > Seq::ZERO && seq <= Seq::MAX, "the number {seq} is out of range");
    Ok(())
}

/// Numbers grow from the front of the line to its end.
async fn grows_in_the_order_of_the_line(cx: Cx) -> Result<()> {
    hold(&cx.a, &cx.exclusive()).await?;
    for n in 0..6 {
        queue(if n % 2 == 0 { &cx.b } else { &cx.a }, &cx.exclusive()).await?;
    }
    let line = line(&cx.a, &cx.key).await?;
    ensure!(line.is_sorted_by(|a, b| a.seq < b.seq), "the line is not in order: {line:?}");
    Ok(())
}

/// A place's number is not below the claim's floor, and the next one is above it.
async fn respects_the_floor(cx: Cx) -> Result<()> {
    let low = one_more(&cx, false, Seq::ZERO).await?;
    let floor = Seq::new(low.get() + 1_000_000).ok_or_else(|| Failure::new("no room for a floor"))?;
    let claim = Claim { floor, ..cx.exclusive() };
    let seq = hold(&cx.b, &claim).await?.seat.seq;
    ensure!(seq >= floor, "the number {seq} is below the floor {floor}");
    let_go(&cx.b, &claim).await?;
    one_more(&cx, false, seq).await?;
    Ok(())
}

/// A renewal raises the key's last number to the claim's floor and leaves the place's own number alone.
async fn renewing_raises_to_the_floor(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let floor = Seq::new(seq.get() + 1_000_000).ok_or_else(|| Failure::new("no room for a floor"))?;
    let raised = Claim { floor, ..claim.clone() };
    let renewal = renew(&cx.a, &raised, seq).await?;
    ensure!(matches!(renewal, Renewal::Renewed(_)), "a renewal with a floor is {renewal:?}");
    still_holds(&cx.a, &claim, seq).await?;
    let_go(&cx.a, &claim).await?;
    one_more(&cx, true, floor).await?;
    Ok(())
}
