use crate::{shop::Shop, store::Change, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let Some(guard) = shop.lock("item").await? else { return Ok(Answer::Busy) };
    let (n, shelf) = shop.store.claim("item", guard.stamp(), buyer).await?; // before the first read
    if let Some(answer) = shelf.answer() {
        return Ok(answer);
    }
    shop.pay().await;
    shop.pass(Point::BeforeWrite);
    let (change, receipt) = (Change::Put(shelf.left - 1), shop.receipt(buyer));
    let answer = shop.store.write("item", guard.stamp(), n + 1, change, &receipt).await?;
    let _ = guard.release().await; // what is written is written, under this fence
    Ok(answer)
}
