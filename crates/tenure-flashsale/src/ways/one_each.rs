use crate::{shop::Shop, store::Change, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let whose = format!("buyer/{buyer}");
    let Some(guard) = shop.lock(&whose).await? else { return Ok(Answer::Busy) };
    let (n, shelf) = shop.store.claim(&whose, guard.stamp(), buyer).await?;
    if let Some(answer) = shelf.answer() {
        return Ok(answer);
    }
    shop.pay().await; // once: the buyer's other click waits outside
    shop.pass(Point::BeforeWrite);
    let answer = shop.store.write(&whose, guard.stamp(), n + 1, Change::Take, &shop.receipt(buyer)).await?;
    let _ = guard.release().await;
    Ok(answer)
}
