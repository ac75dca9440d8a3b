use crate::{shop::Shop, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let (cache, me) = (shop.cache()?, shop.my_name());
    if !shop.ask_until(async || cache.set_nx_px("lock", &me, shop.spec.lease).await).await? {
        return Ok(Answer::Busy);
    }
    let sold = shop.read_then_write(buyer).await;
    cache.del("lock").await?; // whose?
    sold
}
