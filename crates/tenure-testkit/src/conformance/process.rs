use tenure_core::Standing;

use crate::{Cx, Result, ensure_eq, helper::Helper, steps::*};

super::area! { "process":
    processes_exclude_each_other (Helper),
    a_killed_holder_is_followed (Helper, Processes),
    a_killed_holder_is_followed_after_its_lease (Helper, Silence),
    a_killed_holder_wakes_the_next (Helper, Processes, Push, Fifo),
    a_chain_of_killings_is_followed (Helper, Processes, Fifo),
    a_killed_waiter_is_passed_over (Helper, Fifo),
    a_paused_process_goes_on_holding (Helper, Processes),
    a_paused_lease_is_lost (Helper, Silence),
}

/// Claims of two processes exclude each other, and a release in one lets the other in.
async fn processes_exclude_each_other(cx: Cx) -> Result<()> {
    let mut helper = Helper::start(&cx, cx.exclusive().ttl)?;
    let seq = helper.says("holding").await?;
    wait(&cx.a, &cx.hasty_exclusive()).await?;
    let line = line(&cx.a, &cx.key).await?;
    ensure_eq!(line.iter().map(|p| p.seq).collect::<Vec<_>>(), [seq], "the line as another process sees it");
    ensure_eq!(line[0].note.label(), "conformance helper", "the note as another process sees it");
    helper.told("renew", "renewed").await?;
    helper.told("release", "freed").await?;
    hold(&cx.a, &cx.exclusive()).await?;
    helper.told("release", "not held").await
}

/// The place of a killed process is free at once.
async fn a_killed_holder_is_followed(cx: Cx) -> Result<()> {
    let mut helper = Helper::start(&cx, cx.exclusive().ttl)?;
    let old = helper.says("holding").await?;
    wait(&cx.a, &cx.hasty_exclusive()).await?;
    helper.kill().await?;
    let new = hold(&cx.a, &cx.hasty_exclusive()).await?.seat.seq;
    crate::ensure!(new > old, "the next holder has number {new}, the killed one had {old}");
    Ok(())
}

/// The place of a killed process is free once its lease or session has ended.
async fn a_killed_holder_is_followed_after_its_lease(cx: Cx) -> Result<()> {
    let mut helper = Helper::start(&cx, cx.brief_ttl())?;
    let old = helper.says("holding").await?;
    helper.kill().await?;
    cx.lapse(&cx.brief()).await;
    let new = hold(&cx.a, &cx.hasty_exclusive()).await?.seat.seq;
    crate::ensure!(new > old, "the next holder has number {new}, the killed one had {old}");
    Ok(())
}

/// A waiter is told of its turn when the holder's process is killed.
async fn a_killed_holder_wakes_the_next(cx: Cx) -> Result<()> {
    let mut helper = Helper::start(&cx, cx.exclusive().ttl)?;
    helper.says("holding").await?;
    let waiter = cx.exclusive();
    let seq = queue(&cx.a, &waiter).await?.seq;
    futures_util::try_join!(turn(&cx.a, &waiter, seq, Cx::LIMIT), helper.kill())?;
    Ok(())
}

/// Each of many processes comes to hold, in order, when the one before it is killed.
async fn a_chain_of_killings_is_followed(cx: Cx) -> Result<()> {
    let mut holder = Helper::start(&cx, cx.exclusive().ttl)?;
    let mut last = holder.says("holding").await?;
    let mut waiters = Vec::new();
    for _ in 0..4 {
        let mut waiter = Helper::start(&cx, cx.exclusive().ttl)?;
        waiter.says("waiting").await?;
        waiters.push(waiter);
    }
    for mut next in waiters {
        holder.kill().await?;
        let seq = next.says("holding").await?;
        crate::ensure!(seq > last, "a later holder has number {seq}, an earlier one had {last}");
        (holder, last) = (next, seq);
    }
    holder.kill().await?;
    hold(&cx.a, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// A waiter whose process was killed holds nobody up.
async fn a_killed_waiter_is_passed_over(cx: Cx) -> Result<()> {
    let (holder, last) = (cx.exclusive(), cx.exclusive());
    hold(&cx.a, &holder).await?;
    let mut helper = Helper::start(&cx, cx.brief_ttl())?;
    helper.says("waiting").await?;
    queue(&cx.b, &last).await?;
    helper.kill().await?;
    if cx.leases() {
        cx.lapse(&cx.brief()).await;
    }
    let_go(&cx.a, &holder).await?;
    hold(&cx.b, &last).await?;
    Ok(())
}

/// A process that is paused goes on holding, however long, and finds its hold as it was.
async fn a_paused_process_goes_on_holding(cx: Cx) -> Result<()> {
    let mut helper = Helper::start(&cx, cx.brief_ttl())?;
    let seq = helper.says("holding").await?;
    helper.pause()?;
    cx.lapse(&cx.brief()).await;
    wait(&cx.a, &cx.hasty_exclusive()).await?;
    let line = line(&cx.a, &cx.key).await?;
    ensure_eq!(
        line.iter().map(|p| (p.seq, p.standing)).collect::<Vec<_>>(),
        [(seq, Standing::Holds)],
        "the line"
    );
    helper.resume()?;
    helper.told("renew", "renewed").await?;
    helper.told("release", "freed").await
}

/// A process that is paused past its lease or session has lost the lock, learns it, and frees nobody else's.
async fn a_paused_lease_is_lost(cx: Cx) -> Result<()> {
    let mut helper = Helper::start(&cx, cx.brief_ttl())?;
    helper.says("holding").await?;
    helper.pause()?;
    cx.lapse(&cx.brief()).await;
    let next = cx.exclusive();
    let seq = hold(&cx.a, &next).await?.seat.seq;
    helper.resume()?;
    helper.told("renew", "lost").await?;
    helper.told("release", "not held").await?;
    still_holds(&cx.a, &next, seq).await
}
