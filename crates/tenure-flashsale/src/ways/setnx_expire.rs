use crate::{shop::Shop, strategy::Point, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let (cache, me) = (shop.cache()?, shop.my_name());
    if !shop.ask_until(async || cache.set_nx("lock", &me).await).await? {
        return Ok(Answer::Busy);
    }
    shop.pass(Point::BeforeExpire); // whoever dies here has locked the shop for good
    cache.expire("lock", shop.spec.lease).await?;
    let sold = shop.read_then_write(buyer).await;
    cache.del("lock").await?;
    sold
}
