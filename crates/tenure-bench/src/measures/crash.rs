//! A holder is killed (SIGKILL) while another process waits.

use std::time::{Duration, Instant};

use tenure::{Crash as Noticed, Key};

use super::Place;
use crate::{
    figures::Crash,
    parts::unexpected,
    player::now,
    trouble::Result,
    wire::{Order, Says},
};

/// Where a crash is noticed at once, this many are enough.
const MOST: usize = 20;

pub(crate) async fn measure(place: &Place, time: Duration) -> Result<Crash> {
    let lease = place.lease();
    // Where a place lives with its process there is no lease to wait for.
    let leased = place.player.client.guarantees().crash != Noticed::Process;
    let began = Instant::now();
    let (mut seconds, mut late) = (Vec::new(), f64::MIN);
    let mut waiter = place.part().await?;
    while seconds.is_empty() || (began.elapsed() + lease < time && seconds.len() < MOST) {
        let key = place.key(&format!("crash/{}", seconds.len()));
        let order = Order::Acquire { key: key.clone(), lease };
        let mut holder = place.part().await?;
        let says = holder.ask(order.clone(), lease).await?;
        let Says::Holds(held) = says else { return Err(unexpected(&says)) };
        let kill = async {
            place.player.in_line(&Key::new(key)?, 2).await?;
            let killed = now();
            holder.kill().await?;
            Ok(killed)
        };
        let (says, killed) = tokio::try_join!(waiter.ask(order, lease * 3), kill)?;
        let Says::Holds(next) = says else { return Err(unexpected(&says)) };
        seconds.push(next.saturating_sub(killed) as f64 / 1e9);
        let since = next.saturating_sub(if leased { held } else { killed }) as f64 / 1e9;
        late = f64::max(late, since - if leased { lease.as_secs_f64() } else { 0.0 });
        waiter.ask(Order::Release, lease).await?;
    }
    seconds.sort_by(f64::total_cmp);
    Ok(Crash {
        lease_seconds: leased.then_some(lease.as_secs_f64()),
        median_seconds: seconds[seconds.len() / 2],
        seconds,
        late_seconds: late,
    })
}
