//! One client, nobody else: blocks of round trips and of acquire and release take turns.

use std::time::{Duration, Instant};

use super::Place;
use crate::{
    figures::{Alone, Spread},
    player::nanos,
    trouble::Result,
};

/// How many follow one another.
const BLOCK: u32 = 20;
/// No more of each: enough for a p99, and short on an engine that takes a microsecond.
const MOST: usize = 50_000;

pub(crate) async fn measure(place: &Place, time: Duration) -> Result<Alone> {
    let began = Instant::now();
    let (mut trips, mut one, mut new) = (Vec::new(), Vec::new(), Vec::new());
    while one.is_empty() || (began.elapsed() < time && one.len() < MOST) {
        trips.extend(place.trips(BLOCK).await?);
        for _ in 0..BLOCK {
            one.push(cycle(place, &place.key("alone")).await?);
        }
        trips.extend(place.trips(BLOCK).await?);
        for _ in 0..BLOCK {
            new.push(cycle(place, &place.key(&format!("alone/{}", new.len()))).await?);
        }
    }
    let (trip, one_key, new_key) = (Spread::of(trips), Spread::of(one), Spread::of(new));
    let (ratio, new_key_ratio) = (one_key.p50_us / trip.p50_us, new_key.p50_us / trip.p50_us);
    Ok(Alone { trip, one_key, new_key, ratio, new_key_ratio })
}

async fn cycle(place: &Place, key: &str) -> Result<u64> {
    let mutex = place.player.client.mutex(key)?;
    let began = Instant::now();
    mutex.acquire().await?.release().await?;
    Ok(nanos(began.elapsed()))
}
