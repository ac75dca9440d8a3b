use crate::{shop::Shop, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let Some(guard) = shop.lock("item").await? else { return Ok(Answer::Busy) };
    let shelf = shop.store.look(Some(buyer)).await?;
    if let Some(answer) = shelf.answer() {
        return Ok(answer);
    }
    shop.pay().await;
    guard.check()?; // still mine, and a moment later?
    shop.pass(Point::BeforeWrite);
    shop.store.put(shelf.left - 1, &shop.receipt(buyer)).await?;
    let _ = guard.release().await;
    Ok(Answer::Ordered)
}
