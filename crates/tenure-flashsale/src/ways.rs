//! The ways to sell, one file each: the wrong ones are as the field writes them.

mod admission;
mod ask_delete;
mod blind_delete;
mod conditional;
mod counter;
mod fenced;
mod getset_clock;
mod lease;
mod local_mutex;
mod no_lock;
mod one_each;
mod price;
mod setnx_expire;
mod version;

pub(crate) use self::price::change_prices;
use crate::{shop::Shop, strategy::Strategy, trouble::Result, wire::Answer};

/// Sells one console to this buyer, in the way of the lane.
pub(crate) async fn order(shop: &Shop, buyer: u32) -> Result<Answer> {
    match shop.spec.strategy {
        Strategy::NoLock => no_lock::order(shop, buyer).await,
        Strategy::LocalMutex => local_mutex::order(shop, buyer).await,
        Strategy::SetnxExpire => setnx_expire::order(shop, buyer).await,
        Strategy::GetsetClock => getset_clock::order(shop, buyer).await,
        Strategy::BlindDelete => blind_delete::order(shop, buyer).await,
        Strategy::AskDelete => ask_delete::order(shop, buyer).await,
        Strategy::Lease => lease::order(shop, buyer).await,
        Strategy::Fenced => fenced::order(shop, buyer).await,
        Strategy::Version => version::order(shop, buyer).await,
        Strategy::Conditional => conditional::order(shop, buyer).await,
        Strategy::Counter => counter::order(shop, buyer).await,
        Strategy::OneEach => one_each::order(shop, buyer).await,
        Strategy::Price => price::order(shop, buyer).await,
        Strategy::Admission => admission::order(shop, buyer).await,
    }
}
