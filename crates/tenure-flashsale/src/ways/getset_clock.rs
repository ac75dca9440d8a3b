use crate::{cache::wall_clock, shop::Shop, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let cache = shop.cache()?;
    let now = || wall_clock(shop.spec.skew); // of this host, right or wrong
    let mut ends = 0;
    let got = shop.ask_until(async || {
        ends = now() + shop.spec.lease.as_millis();
        if cache.set_nx("lock", &ends.to_string()).await? {
            return Ok(true);
        }
        let Some(seen) = cache.get("lock").await? else { return Ok(false) };
        let over = seen.parse().is_ok_and(|end: u128| end < now());
        Ok(over && cache.get_set("lock", &ends.to_string()).await? == Some(seen))
    });
    if !got.await? {
        return Ok(Answer::Busy);
    }
    let sold = shop.read_then_write(buyer).await;
    if now() < ends {
        cache.del("lock").await?;
    }
    sold
}
