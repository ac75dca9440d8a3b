use crate::{shop::Shop, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let (cache, me) = (shop.cache()?, shop.my_name());
    if !shop.ask_until(async || cache.set_nx_px("lock", &me, shop.spec.lease).await).await? {
        return Ok(Answer::Busy);
    }
    let sold = shop.read_then_write(buyer).await;
    if cache.get("lock").await?.as_ref() == Some(&me) {
        shop.pass(Point::BeforeDelete); // it was mine a moment ago
        cache.del("lock").await?;
    }
    sold
}
