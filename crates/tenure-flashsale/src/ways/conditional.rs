use crate::{shop::Shop, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    shop.pay().await;
    shop.pass(Point::BeforeWrite);
    shop.store.take(&shop.receipt(buyer)).await
}
