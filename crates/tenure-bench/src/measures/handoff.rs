//! From a release in one process to the hold in another. Both read the same clock.

use std::time::{Duration, Instant};

use super::Place;
use crate::{
    figures::{Handoff, Spread},
    parts::unexpected,
    trouble::Result,
    wire::{Order, Says, Turns},
};

/// The turns of each between two looks at the time: few, since on some engines one takes milliseconds.
const TURNS: u32 = 25;
const MOST: usize = 20_000;

pub(crate) async fn measure(place: &Place, time: Duration) -> Result<Handoff> {
    let (mut one, mut two) = (place.part().await?, place.part().await?);
    let began = Instant::now();
    let (mut trips, mut times) = (Vec::new(), Vec::new());
    while times.is_empty() || (began.elapsed() < time && times.len() < MOST) {
        let key = place.key("handoff");
        let order = |first| Order::Turns { key: key.clone(), first, turns: TURNS };
        let both = tokio::try_join!(one.ask(order(true), time), two.ask(order(false), time))?;
        let (mine, theirs) = (turns(both.0)?, turns(both.1)?);
        times.extend(after(&mine.released, &theirs.held));
        times.extend(after(&theirs.released, mine.held.get(1..).unwrap_or_default()));
        trips.extend(mine.trips);
        trips.extend(theirs.trips);
    }
    let (trip, time) = (Spread::of(trips), Spread::of(times));
    let between = if place.has_processes() { "two processes" } else { "two clients of one process" };
    let ratio = time.p50_us / trip.p50_us;
    Ok(Handoff { between, trip, time, ratio })
}

fn turns(says: Says) -> Result<Turns> {
    match says {
        Says::Turns(turns) => Ok(turns),
        other => Err(unexpected(&other)),
    }
}

fn after(released: &[u64], held: &[u64]) -> Vec<u64> {
    released.iter().zip(held).map(|(released, held)| held.saturating_sub(*released)).collect()
}
