use crate::{
    host::boot_micros,
    shop::{Shop, in_time},
    strategy::Point,
    trouble::Result,
    wire::Answer,
};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let door = shop.client()?.semaphore(shop.key("door")?, shop.spec.permits)?.ttl(shop.spec.lease);
    let Some(permit) = in_time(door.acquire_many_within(1, shop.spec.patience).await)? else {
        return Ok(Answer::Busy);
    };
    let entered = boot_micros();
    shop.pay().await;
    shop.pass(Point::BeforeWrite);
    let answer = shop.store.take(&shop.receipt(buyer)).await;
    shop.reporter.visit(entered, boot_micros());
    let _ = permit.release().await;
    answer
}
