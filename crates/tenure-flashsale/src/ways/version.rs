use std::time::Duration;

use tenure::versioned::{Limits, Tries};

use crate::{
    shop::Shop,
    strategy::Point,
    trouble::{Result, Trouble},
    wire::Answer,
};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let pauses = (Duration::from_millis(1), Duration::from_millis(20));
    let mut tries = Tries::new(Limits::default().tries(1_000).pauses(pauses.0, pauses.1));
    loop {
        let shelf = shop.store.look(Some(buyer)).await?;
        if let Some(answer) = shelf.answer() {
            return Ok(answer);
        }
        shop.pay().await;
        shop.pass(Point::BeforeWrite);
        if shop.store.put_if(shelf.version, shelf.left - 1, &shop.receipt(buyer)).await? {
            return Ok(Answer::Ordered);
        }
        if tries.again::<Trouble>().await.is_err() {
            return Ok(Answer::Busy);
        }
    }
}
