use crate::{shop::Shop, trouble::Result, wire::Answer};

pub(super) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    let _mine = shop.in_process.lock().await;
    shop.read_then_write(buyer).await
}
