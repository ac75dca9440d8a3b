use tenure_core::{Answered, Released};

use crate::{
    Cx, Result, ensure, ensure_eq,
    faults::{Fault, Faulty, Nth, Verb},
    steps::*,
};

super::area! { "replies":
    attempt_lost_before_the_effect,
    attempt_lost_after_the_effect,
    waiting_attempt_lost_after_the_effect (Fifo),
    release_lost_after_the_effect,
    release_lost_before_the_effect,
    renew_lost_after_the_effect,
    doubled_verbs_change_nothing,
    release_overtakes_an_attempt,
    old_attempt_after_release (Leases),
    stale_copy_after_lapse_is_not_the_hold (Leases),
}

/// An attempt whose request was lost is asked again and then holds.
async fn attempt_lost_before_the_effect(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    faults.on(Verb::Attempt, Nth::Call(1), Fault::DropRequest);
    let claim = cx.exclusive();
    ensure!(a.attempt(&claim).await.is_err(), "the fault did not strike");
    nobody(&cx.b, &cx.key).await?;
    hold(&a, &claim).await?;
    Ok(())
}

/// An attempt whose reply was lost is asked again and finds the place it took.
async fn attempt_lost_after_the_effect(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    faults.on(Verb::Attempt, Nth::Call(1), Fault::DropReply);
    let claim = cx.exclusive();
    ensure!(a.attempt(&claim).await.is_err(), "the fault did not strike");
    let taken = line(&cx.b, &cx.key).await?;
    ensure_eq!(taken.len(), 1, "places after the effect");
    ensure_eq!(hold(&a, &claim).await?.seat.seq, taken[0].seq, "the number of the place it took");
    let_go(&a, &claim).await?;
    nobody(&cx.b, &cx.key).await
}

/// A waiter whose reply was lost finds its place again and lost no rank by it.
async fn waiting_attempt_lost_after_the_effect(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    faults.on(Verb::Attempt, Nth::Call(1), Fault::DropReply);
    let (holder, unsure, late) = (cx.exclusive(), cx.exclusive(), cx.exclusive());
    hold(&cx.b, &holder).await?;
    ensure!(a.attempt(&unsure).await.is_err(), "the fault did not strike");
    let behind = queue(&cx.b, &late).await?.seq;
    ensure!(queue(&a, &unsure).await?.seq < behind, "the unsure waiter lost its rank");
    let_go(&cx.b, &holder).await?;
    hold(&a, &unsure).await?;
    Ok(())
}

/// A release whose reply was lost is asked again, frees nothing more and hurts nobody who came meanwhile.
async fn release_lost_after_the_effect(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    faults.on(Verb::Release, Nth::Call(1), Fault::DropReply);
    let (first, next) = (cx.exclusive(), cx.exclusive());
    hold(&a, &first).await?;
    ensure!(a.release(&first, Answered::All).await.is_err(), "the fault did not strike");
    let seq = hold(&cx.b, &next).await?.seat.seq;
    ensure_eq!(a.release(&first, Answered::All).await?, Released::NotHeld, "the repeated release");
    still_holds(&cx.b, &next, seq).await
}

/// A release whose request was lost is asked again and then frees.
async fn release_lost_before_the_effect(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    faults.on(Verb::Release, Nth::Call(1), Fault::DropRequest);
    let first = cx.exclusive();
    hold(&a, &first).await?;
    ensure!(a.release(&first, Answered::All).await.is_err(), "the fault did not strike");
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    let_go(&a, &first).await?;
    hold(&cx.b, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// A renewal whose reply was lost is asked again and still renews the same place.
async fn renew_lost_after_the_effect(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    faults.on(Verb::Renew, Nth::Call(1), Fault::DropReply);
    let claim = cx.exclusive();
    let seq = hold(&a, &claim).await?.seat.seq;
    ensure!(renew(&a, &claim, seq).await.is_err(), "the fault did not strike");
    still_holds(&a, &claim, seq).await
}

/// A verb that arrives twice does what it does once.
async fn doubled_verbs_change_nothing(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    for verb in [Verb::Attempt, Verb::Renew] {
        faults.on(verb, Nth::EVERY, Fault::Duplicate);
    }
    let (first, next) = (cx.exclusive(), cx.exclusive());
    let seq = hold(&a, &first).await?.seat.seq;
    still_holds(&a, &first, seq).await?;
    wait(&a, &next).await?;
    ensure!(places(&cx.b, &next).await? <= 1, "a doubled attempt took two places");
    ensure_eq!(places(&cx.b, &first).await?, 1, "places of the holder");
    faults.calm();
    faults.on(Verb::Release, Nth::EVERY, Fault::Duplicate);
    ensure_eq!(a.release(&first, Answered::All).await?, Released::NotHeld, "the second of two releases");
    hold(&a, &next).await?;
    Ok(())
}

/// A release that overtakes its own attempt leaves the key free: at once, or when the late place lapses.
async fn release_overtakes_an_attempt(cx: Cx) -> Result<()> {
    let (a, faults) = Faulty::over(cx.a.clone());
    let gate = faults.hold(Verb::Attempt, Nth::Call(1));
    let late = cx.brief();
    let sent = tokio::spawn({
        let (a, late) = (a.clone(), late.clone());
        async move { a.attempt(&late).await }
    });
    cx.within("the attempt was sent", gate.reached_by(1)).await?;
    ensure_eq!(a.release(&late, Answered::InDoubt).await?, Released::NotHeld, "the overtaking release");
    gate.open();
    // Granted, busy or refused: nobody listens to the answer any more.
    let _ = cx.within("the late attempt was answered", sent).await?;
    if cx.lapses() {
        cx.lapse(&late).await;
    } else {
        // Where nothing lapses, a dropped verb never runs later and nothing can overtake it: what this trial made
        // happen all the same is undone by hand.
        let _ = a.release(&late, Answered::All).await?;
    }
    ensure_eq!(places(&cx.b, &late).await?, 0, "places of a released claim");
    hold(&cx.b, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// A copy of an old attempt that arrives after its release blocks others for one lease at most.
async fn old_attempt_after_release(cx: Cx) -> Result<()> {
    let claim = cx.brief();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let_go(&cx.a, &claim).await?;
    let _ = cx.a.attempt(&claim).await;
    ensure_eq!(
        renew(&cx.a, &claim, seq).await?,
        tenure_core::Renewal::Lost,
        "a renewal of the place that was released"
    );
    cx.lapse(&claim).await;
    nobody(&cx.b, &cx.key).await?;
    hold(&cx.b, &cx.hasty_exclusive()).await?;
    Ok(())
}

/// A copy of an old attempt that arrives after the lease ended takes another number, so that the old hold
/// cannot be renewed by it.
async fn stale_copy_after_lapse_is_not_the_hold(cx: Cx) -> Result<()> {
    let (slow, next) = (cx.brief(), cx.exclusive());
    let old = hold(&cx.a, &slow).await?.seat.seq;
    cx.lapse(&slow).await;
    let seq = hold(&cx.b, &next).await?.seat.seq;
    let _ = cx.a.attempt(&slow).await;
    ensure_eq!(renew(&cx.a, &slow, old).await?, tenure_core::Renewal::Lost, "a renewal of the ended place");
    still_holds(&cx.b, &next, seq).await
}
