use tenure_core::{Claim, Held, Key, Renewal, Seq};

use crate::{Cx, Result, ensure, ensure_eq, steps::*};

super::area! { "renew":
    after_lapse_is_lost_and_creates_nothing (Leases),
    after_release_is_lost_and_creates_nothing,
    wrong_number_is_lost_and_creates_nothing,
    of_a_place_taken_anew_is_lost (Leases),
    answers_in_order,
    never_shortens_a_lease (Leases),
    nothing_is_nothing,
    says_how_long,
}

/// A renewal that comes too late is `Lost`, stays `Lost`, and does not bring the place back.
async fn after_lapse_is_lost_and_creates_nothing(cx: Cx) -> Result<()> {
    let claim = cx.brief();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    cx.lapse(&claim).await;
    for _ in 0..2 {
        ensure_eq!(renew(&cx.a, &claim, seq).await?, Renewal::Lost, "a late renewal");
        nobody(&cx.b, &cx.key).await?;
    }
    Ok(())
}

/// A renewal after the release is `Lost` and does not bring the place back.
async fn after_release_is_lost_and_creates_nothing(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let_go(&cx.a, &claim).await?;
    ensure_eq!(renew(&cx.a, &claim, seq).await?, Renewal::Lost, "a renewal after the release");
    nobody(&cx.b, &cx.key).await
}

/// A renewal names the number too: with any other it is `Lost`, and the real place is as it was.
async fn wrong_number_is_lost_and_creates_nothing(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let wrong = [seq.get() + 1, seq.get() - 1, 1, Seq::MAX.get()];
    for wrong in wrong.into_iter().filter_map(Seq::new).filter(|&wrong| wrong != seq) {
        ensure_eq!(renew(&cx.a, &claim, wrong).await?, Renewal::Lost, "a renewal of {wrong} for {seq}");
    }
    ensure_eq!(line(&cx.b, &cx.key).await?.len(), 1, "places in the line");
    still_holds(&cx.a, &claim, seq).await
}

/// A place that ended and was taken anew under the same id is another place: the old hold is not renewed by it.
async fn of_a_place_taken_anew_is_lost(cx: Cx) -> Result<()> {
    let claim = cx.brief();
    let old = hold(&cx.a, &claim).await?.seat.seq;
    cx.lapse(&claim).await;
    let long = Claim { ttl: cx.exclusive().ttl, ..claim.clone() };
    let new = hold(&cx.a, &long).await?.seat.seq;
    ensure!(new > old, "a place taken anew has number {new}, the old one had {old}");
    ensure_eq!(renew(&cx.a, &claim, old).await?, Renewal::Lost, "a renewal of the old place");
    still_holds(&cx.a, &long, new).await
}

/// Many renewals in one batch are answered each at its place in the batch, alive and lost mixed.
async fn answers_in_order(cx: Cx) -> Result<()> {
    let mut holds = Vec::new();
    for n in 0..9 {
        let claim = Claim { key: Key::new(format!("{}/{n}", cx.key.as_str()))?, ..cx.exclusive() };
        let seq = hold(&cx.a, &claim).await?.seat.seq;
        if n % 3 == 1 {
            let_go(&cx.a, &claim).await?;
        }
        holds.push((claim, seq));
    }
    let batch: Vec<_> = holds.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    let alive: Vec<_> =
        cx.a.renew(&batch).await?.iter().map(|answer| matches!(answer, Renewal::Renewed(_))).collect();
    let want: Vec<_> = (0..9).map(|n| n % 3 != 1).collect();
    ensure_eq!(alive, want, "which of the batch live on");
    Ok(())
}

/// A renewal with a shorter ttl does not bring the end of the lease forward.
async fn never_shortens_a_lease(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let short = Claim { ttl: cx.brief_ttl(), ..claim.clone() };
    let renewed = renew(&cx.a, &short, seq).await?;
    ensure!(matches!(renewed, Renewal::Renewed(_)), "a renewal with a shorter ttl is {renewed:?}");
    lives_longer(&cx.b, &claim, short.ttl.get()).await?;
    cx.lapse(&short).await;
    still_holds(&cx.a, &claim, seq).await
}

/// An empty batch gives an empty answer.
async fn nothing_is_nothing(cx: Cx) -> Result<()> {
    ensure_eq!(cx.a.renew(&[]).await?, Vec::new(), "the answer to no renewal");
    Ok(())
}

/// A renewal says for how long: at most what was asked for, or nothing where places end with their process.
async fn says_how_long(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    match renew(&cx.a, &claim, seq).await? {
        Renewal::Renewed(None) => ensure!(!cx.leases(), "an engine with leases renewed without one"),
        Renewal::Renewed(Some(ttl)) => {
            ensure!(cx.leases() && ttl <= claim.ttl.get(), "renewed for {ttl:?}, asked {:?}", claim.ttl);
        }
        Renewal::Lost => return Err(crate::Failure::new("a fresh hold is lost")),
    }
    Ok(())
}
