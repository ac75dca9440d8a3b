use std::time::Duration;

use tokio::time::sleep;

use crate::{
    shop::{Shop, in_time},
    store::Receipt,
    strategy::Point,
    trouble::Result,
    wire::Answer,
};

/// How long a price stands.
const STANDS: Duration = Duration::from_millis(30);

/// Changes the price, and the tax that belongs to it, while others sell.
pub(crate) async fn change_prices(shop: &Shop) -> Result<()> {
    let lock = shop.client()?.rwlock(shop.key("price")?)?.ttl(shop.spec.lease);
    for change in 1..=i64::from(shop.spec.price_changes) {
        if let Some(guard) = in_time(lock.write_within(shop.spec.patience).await)? {
            shop.store.set_price(Receipt::PRICE + change).await?;
            shop.pay().await; // between the two, price and tax do not belong together
            shop.store.set_tax(Receipt::TAX + change).await?;
            let _ = guard.release().await;
        }
        sleep(STANDS).await;
    }
    Ok(())
}

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let lock = shop.client()?.rwlock(shop.key("price")?)?.ttl(shop.spec.lease);
    let Some(guard) = in_time(lock.read_within(shop.spec.patience).await)? else { return Ok(Answer::Busy) };
    let price = shop.store.price().await?;
    shop.pay().await;
    shop.pass(Point::BeforeWrite);
    let tax = shop.store.tax().await?;
    guard.check()?;
    let answer = shop.store.take(&Receipt { price, tax, ..shop.receipt(buyer) }).await?;
    let _ = guard.release().await;
    Ok(answer)
}
