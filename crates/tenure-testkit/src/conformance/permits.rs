use tenure_core::Mode;

use crate::{Cx, Result, steps::*};

super::area! { "permits":
    never_more_than_all (Permits),
    freed_permits_are_given_again (Permits),
    a_large_wish_is_not_overtaken (Permits, Fifo),
    nobody_holds_behind_one_who_waits (Permits, Fifo),
    other_totals_do_not_mix (Permits),
    other_modes_do_not_mix (Permits, Shared),
    all_at_once (Permits),
}

/// The permits that are held never sum to more than there are.
async fn never_more_than_all(cx: Cx) -> Result<()> {
    hold(&cx.a, &cx.permits(2, 5)?).await?;
    hold(&cx.b, &cx.permits(2, 5)?).await?;
    let two = cx.permits(2, 5)?;
    wait(&cx.a, &tenure_core::Claim { patience: tenure_core::Patience::Try, ..two }).await?;
    hold(&cx.a, &cx.permits(1, 5)?).await?;
    wait(&cx.b, &cx.permits(1, 5)?).await?;
    Ok(())
}

/// What a holder gives back can be taken, and no more than that.
async fn freed_permits_are_given_again(cx: Cx) -> Result<()> {
    let (big, small, next) = (cx.permits(3, 4)?, cx.permits(1, 4)?, cx.permits(2, 4)?);
    hold(&cx.a, &big).await?;
    hold(&cx.b, &small).await?;
    wait(&cx.b, &next).await?;
    let_go(&cx.b, &small).await?;
    wait(&cx.b, &next).await?;
    let_go(&cx.a, &big).await?;
    hold(&cx.b, &next).await?;
    Ok(())
}

/// A wish for many permits is not overtaken by later, smaller ones that would fit.
async fn a_large_wish_is_not_overtaken(cx: Cx) -> Result<()> {
    let (first, large, small) = (cx.permits(2, 3)?, cx.permits(3, 3)?, cx.permits(1, 3)?);
    hold(&cx.a, &first).await?;
    queue(&cx.b, &large).await?;
    queue(&cx.a, &small).await?;
    let_go(&cx.a, &first).await?;
    queue(&cx.a, &small).await?;
    hold(&cx.b, &large).await?;
    let_go(&cx.b, &large).await?;
    hold(&cx.a, &small).await?;
    Ok(())
}

/// A wish that fits beside every place ahead of it still waits while one of those waits.
async fn nobody_holds_behind_one_who_waits(cx: Cx) -> Result<()> {
    let (first, second, third) = (cx.permits(2, 3)?, cx.permits(2, 3)?, cx.permits(1, 3)?);
    hold(&cx.a, &first).await?;
    queue(&cx.b, &second).await?;
    queue(&cx.a, &third).await?;
    let_go(&cx.a, &first).await?;
    hold(&cx.a, &third).await?;
    hold(&cx.b, &second).await?;
    Ok(())
}

/// Claims that disagree about how many permits there are do not hold beside each other.
async fn other_totals_do_not_mix(cx: Cx) -> Result<()> {
    let (of_two, of_nine) = (cx.permits(1, 2)?, cx.permits(1, 9)?);
    hold(&cx.a, &of_two).await?;
    wait(&cx.b, &of_nine).await?;
    let_go(&cx.a, &of_two).await?;
    hold(&cx.b, &of_nine).await?;
    wait(&cx.a, &cx.permits(1, 2)?).await?;
    Ok(())
}

/// Permits hold beside neither readers nor writers.
async fn other_modes_do_not_mix(cx: Cx) -> Result<()> {
    let permit = cx.permits(1, 9)?;
    hold(&cx.a, &permit).await?;
    wait(&cx.b, &cx.hasty(Mode::Shared)).await?;
    wait(&cx.b, &cx.hasty_exclusive()).await?;
    let_go(&cx.a, &permit).await?;
    hold(&cx.b, &cx.shared()).await?;
    wait(&cx.a, &cx.permits(1, 9)?).await?;
    Ok(())
}

/// All permits can be held by one, and sums as large as the type allows do not wrap.
async fn all_at_once(cx: Cx) -> Result<()> {
    let all = cx.permits(u32::MAX, u32::MAX)?;
    hold(&cx.a, &all).await?;
    wait(&cx.b, &cx.permits(u32::MAX, u32::MAX)?).await?;
    let_go(&cx.a, &all).await?;
    Ok(())
}
