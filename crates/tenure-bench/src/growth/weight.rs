//! What a held key and a waiter weigh: in the process that uses them, and in the engine's where that is known.

use std::time::{Duration, Instant};

use serde::Serialize;
use tenure::Key;
use tenure_core::{Claim, Engine, Patience};

use super::{claim, leave, stand};
use crate::{
    measures::Place,
    parts::unexpected,
    player::resident,
    trouble::Result,
    wire::{Order, Says},
};

/// So many of each, unless the time is over.
const KEYS: u32 = 10_000;
const TASKS: u32 = 10_000;
const PLACES: u32 = 2_000;

/// Memory, by what takes it.
#[derive(Clone, Debug, Serialize)]
pub struct Weight {
    /// What takes it, and where.
    pub what: &'static str,
    /// How many there were.
    pub of: u32,
    /// What the process grew by for each, in bytes.
    pub bytes: u64,
}

pub(super) async fn weigh(
    place: &Place,
    engine: &dyn Engine,
    process: Option<u32>,
    time: Duration,
) -> Result<Vec<Weight>> {
    let mut weights = Vec::new();
    // The engine first, and what is less there, before it has freed anything that it could use again.
    if let Some(process) = process {
        let key = Key::new(place.key("weighed line"))?;
        let line = (0..PLACES).map(|_| claim(&key, Patience::Queue)).collect::<Result<_>>()?;
        weights.push(grown(engine, process, "a place in a line, in the engine", line, time / 4).await?);
        let keys = (0..KEYS).map(|number| place.key(&format!("weighed/{number}")));
        let keys = keys.map(|key| claim(&Key::new(key)?, Patience::Try)).collect::<Result<_>>()?;
        weights.push(grown(engine, process, "a held key, in the engine", keys, time / 4).await?);
    }
    let lease = place.lease().max(time);
    let keep = Order::Keep {
        prefix: place.key("weighed"),
        locks: KEYS,
        lease,
        taking: time / 4,
        watched: Duration::ZERO,
    };
    let says = place.part().await?.ask(keep, time).await?;
    let Says::Kept(kept) = says else { return Err(unexpected(&says)) };
    weights.push(Weight { what: "a held key, in the client", of: kept.locks, bytes: kept.bytes });
    let says = place.part().await?.ask(Order::Wait { key: place.key("waited"), tasks: TASKS }, time).await?;
    let Says::Waited(bytes) = says else { return Err(unexpected(&says)) };
    weights.push(Weight { what: "a waiting task, in the client", of: TASKS, bytes });
    Ok(weights)
}

/// What the engine's process grows by when these stand.
async fn grown(
    engine: &dyn Engine,
    process: u32,
    what: &'static str,
    claims: Vec<Claim>,
    time: Duration,
) -> Result<Weight> {
    let before = resident(Some(process));
    let stood = stand(engine, claims, Instant::now() + time).await?;
    let of = u32::try_from(stood.len()).unwrap_or(u32::MAX);
    let bytes = resident(Some(process)).saturating_sub(before) / u64::from(of.max(1));
    leave(engine, stood).await?;
    Ok(Weight { what, of, bytes })
}
