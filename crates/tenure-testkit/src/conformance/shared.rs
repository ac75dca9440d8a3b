use tenure_core::Mode;

use crate::{Cx, Result, ensure_eq, steps::*};

super::area! { "shared":
    readers_hold_together (Shared),
    a_writer_waits_for_all_readers (Shared),
    a_waiting_writer_is_not_overtaken (Shared, Fifo),
    readers_behind_a_writer_come_together (Shared, Fifo),
    the_write_side_is_a_mutex (Shared),
}

/// Any number of shared claims hold beside each other.
async fn readers_hold_together(cx: Cx) -> Result<()> {
    for n in 0..6 {
        hold(if n % 2 == 0 { &cx.a } else { &cx.b }, &cx.shared()).await?;
    }
    ensure_eq!(line(&cx.a, &cx.key).await?.len(), 6, "readers in the line");
    Ok(())
}

/// A writer holds only when the last reader has left.
async fn a_writer_waits_for_all_readers(cx: Cx) -> Result<()> {
    let (first, second, writer) = (cx.shared(), cx.shared(), cx.exclusive());
    hold(&cx.a, &first).await?;
    hold(&cx.b, &second).await?;
    wait(&cx.b, &writer).await?;
    let_go(&cx.a, &first).await?;
    wait(&cx.b, &writer).await?;
    let_go(&cx.b, &second).await?;
    hold(&cx.b, &writer).await?;
    wait(&cx.a, &cx.hasty(Mode::Shared)).await?;
    Ok(())
}

/// A reader that comes after a waiting writer waits behind it, so readers cannot starve writers.
async fn a_waiting_writer_is_not_overtaken(cx: Cx) -> Result<()> {
    let (reader, writer, late) = (cx.shared(), cx.exclusive(), cx.shared());
    hold(&cx.a, &reader).await?;
    queue(&cx.b, &writer).await?;
    queue(&cx.a, &late).await?;
    wait(&cx.a, &cx.hasty(Mode::Shared)).await?;
    let_go(&cx.a, &reader).await?;
    queue(&cx.a, &late).await?;
    hold(&cx.b, &writer).await?;
    Ok(())
}

/// When a writer leaves, all readers up to the next writer hold at once, and none behind it.
async fn readers_behind_a_writer_come_together(cx: Cx) -> Result<()> {
    let (writer, next) = (cx.exclusive(), cx.exclusive());
    let (readers, late) = ([cx.shared(), cx.shared(), cx.shared()], cx.shared());
    hold(&cx.a, &writer).await?;
    for reader in &readers {
        queue(&cx.b, reader).await?;
    }
    queue(&cx.a, &next).await?;
    queue(&cx.b, &late).await?;
    let_go(&cx.a, &writer).await?;
    for reader in &readers {
        hold(&cx.b, reader).await?;
    }
    queue(&cx.b, &late).await?;
    queue(&cx.a, &next).await?;
    // A writer that gives up lets the readers behind it in.
    let_go(&cx.a, &next).await?;
    hold(&cx.b, &late).await?;
    Ok(())
}

/// Writers exclude each other and every reader.
async fn the_write_side_is_a_mutex(cx: Cx) -> Result<()> {
    let writer = cx.exclusive();
    let seq = hold(&cx.a, &writer).await?.seat.seq;
    for mode in [Mode::Exclusive, Mode::Shared] {
        wait(&cx.b, &cx.hasty(mode)).await?;
        wait(&cx.a, &cx.hasty(mode)).await?;
    }
    still_holds(&cx.a, &writer, seq).await
}
