use crate::{shop::Shop, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let answer = shop.cache()?.take_one("stock", buyer).await?;
    if answer == Answer::Ordered {
        shop.pay().await;
        shop.pass(Point::BeforeWrite); // whoever dies here takes its number with it
        shop.store.append(&shop.receipt(buyer)).await?;
    }
    Ok(answer)
}
