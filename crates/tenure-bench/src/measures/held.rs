//! Many locks held by one process: what each takes, and what keeping them all costs.

use std::time::Duration;

use super::Place;
use crate::{
    figures::Held,
    parts::unexpected,
    trouble::Result,
    wire::{Order, Says},
};

pub(crate) async fn measure(place: &Place, locks: u32, time: Duration) -> Result<Held> {
    // Each lease is renewed two or three times while somebody looks.
    let lease = place.lease().max(time / 2);
    let watched = lease;
    let mut part = place.part().await?;
    let order = Order::Keep { prefix: place.key("held"), locks, lease, taking: time / 2, watched };
    let says = part.ask(order, time).await?;
    let Says::Kept(kept) = says else { return Err(unexpected(&says)) };
    let seconds = kept.watched.as_secs_f64();
    Ok(Held {
        locks: kept.locks,
        lease_seconds: lease.as_secs_f64(),
        taken_seconds: kept.taken_in.as_secs_f64(),
        bytes_each: kept.bytes,
        cpu_percent: kept.cpu.as_secs_f64() / seconds * 100.0,
        renewed_per_second: kept.verbs.renewed as f64 / seconds,
        calls_per_second: kept.verbs.renewals as f64 / seconds,
        lost: kept.lost,
    })
}
