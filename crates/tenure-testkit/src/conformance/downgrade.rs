use tenure_core::{Held, Mode, Renewal, Seq};

use crate::{Cx, Result, ensure, ensure_eq, steps::*};

super::area! { "downgrade":
    keeps_its_number (Shared),
    lets_readers_in (Shared, Fifo),
    tells_the_readers (Shared, Fifo, Push),
    repeated_changes_nothing (Shared),
    of_a_lost_place_is_lost (Shared),
}

/// A downgraded writer keeps its place and number, and is a reader in the line.
async fn keeps_its_number(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let answer = cx.a.downgrade(Held { claim: &claim, seq }).await?;
    ensure!(matches!(answer, Renewal::Renewed(_)), "the downgrade of a hold is {answer:?}");
    let line = line(&cx.b, &cx.key).await?;
    ensure_eq!(line.len(), 1, "places in the line");
    ensure_eq!((line[0].mode, line[0].seq), (Mode::Shared, seq), "mode and number after the downgrade");
    still_holds(&cx.a, &claim, seq).await?;
    let_go(&cx.a, &claim).await
}

/// The readers next in line hold beside a downgraded writer; a writer behind them does not.
async fn lets_readers_in(cx: Cx) -> Result<()> {
    let (claim, reader, writer) = (cx.exclusive(), cx.shared(), cx.exclusive());
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    queue(&cx.b, &reader).await?;
    queue(&cx.b, &writer).await?;
    let _ = cx.a.downgrade(Held { claim: &claim, seq }).await?;
    hold(&cx.b, &reader).await?;
    queue(&cx.b, &writer).await?;
    still_holds(&cx.a, &claim, seq).await
}

/// A reader that waits is told when the writer ahead of it downgrades.
async fn tells_the_readers(cx: Cx) -> Result<()> {
    let (claim, reader) = (cx.exclusive(), cx.shared());
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let waiting = queue(&cx.b, &reader).await?.seq;
    let told = turn(&cx.b, &reader, waiting, Cx::LIMIT);
    let downgrade = async {
        let answer = cx.a.downgrade(Held { claim: &claim, seq }).await?;
        ensure!(matches!(answer, Renewal::Renewed(_)), "the downgrade of a hold is {answer:?}");
        Ok(())
    };
    futures_util::try_join!(told, downgrade)?;
    Ok(())
}

/// A second downgrade changes nothing.
async fn repeated_changes_nothing(cx: Cx) -> Result<()> {
    let (claim, reader) = (cx.exclusive(), cx.shared());
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    for _ in 0..3 {
        let answer = cx.a.downgrade(Held { claim: &claim, seq }).await?;
        ensure!(matches!(answer, Renewal::Renewed(_)), "a repeated downgrade is {answer:?}");
    }
    let beside = hold(&cx.b, &reader).await?.seat.seq;
    let _ = cx.a.downgrade(Held { claim: &claim, seq }).await?;
    still_holds(&cx.b, &reader, beside).await?;
    still_holds(&cx.a, &claim, seq).await
}

/// A downgrade of a place that is gone, or under another number, is `Lost` and creates nothing.
async fn of_a_lost_place_is_lost(cx: Cx) -> Result<()> {
    let claim = cx.exclusive();
    let seq = hold(&cx.a, &claim).await?.seat.seq;
    let wrong = Seq::new(seq.get() + 1).unwrap_or(Seq::ZERO);
    ensure_eq!(cx.a.downgrade(Held { claim: &claim, seq: wrong }).await?, Renewal::Lost, "a wrong number");
    ensure_eq!(line(&cx.b, &cx.key).await?[0].mode, Mode::Exclusive, "the mode after a wrong number");
    let_go(&cx.a, &claim).await?;
    ensure_eq!(
        cx.a.downgrade(Held { claim: &claim, seq }).await?,
        Renewal::Lost,
        "a downgrade after release"
    );
    nobody(&cx.b, &cx.key).await
}
