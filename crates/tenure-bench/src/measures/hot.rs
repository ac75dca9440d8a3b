//! One hot key, several processes with several tasks each, and a number that would show a second holder.

use std::{collections::BTreeMap, fs, time::Duration};

use futures_util::future::try_join_all;

use super::Place;
use crate::{
    figures::{Hot, Spread},
    parts::unexpected,
    player::{nanos, now},
    trouble::{Result, Trouble},
    wire::{Order, Says},
};

/// Round trips before and after.
const TRIPS: u32 = 100;
/// All have their orders before the first begins.
const LEAD: Duration = Duration::from_millis(200);

pub(crate) async fn measure(place: &Place, processes: u32, tasks: u32, time: Duration) -> Result<Hot> {
    let trouble = |err| Trouble::internal("the shared file", err);
    let file = place.dir.path().join("number");
    fs::write(&file, 0_u64.to_le_bytes()).map_err(trouble)?;
    let mut parts = try_join_all((0..processes).map(|_| place.part())).await?;
    let mut trips = place.trips(TRIPS).await?;
    let from = now() + nanos(LEAD);
    let key = place.key("hot");
    let order = Order::Contend { key, tasks, from, until: from + nanos(time), file: file.clone() };
    let answers = parts.iter_mut().map(|part| part.ask(order.clone(), LEAD + time));
    let answers = try_join_all(answers).await?;
    trips.extend(place.trips(TRIPS).await?);
    let (mut grants, mut waits, mut longest, mut updates, mut asked) = (Vec::new(), BTreeMap::new(), 0, 0, 0);
    for says in answers {
        let Says::Contended(seen) = says else { return Err(unexpected(&says)) };
        for (bucket, count) in seen.waits {
            *waits.entry(bucket).or_default() += count;
        }
        longest = longest.max(seen.longest);
        updates += seen.updates;
        asked += seen.verbs.asked();
        grants.push(seen.grants);
    }
    let number: [u8; 8] = fs::read(&file).map_err(trouble)?.try_into().unwrap_or_default();
    let total: u64 = grants.iter().flatten().sum();
    let (trip, seconds) = (Spread::of(trips), time.as_secs_f64());
    let grants_per_second = total as f64 / seconds;
    Ok(Hot {
        processes,
        tasks,
        seconds,
        ratio: 1e6 / grants_per_second / trip.p50_us,
        trip,
        grants_per_second,
        wait: Spread::counted(&waits, longest),
        jain: jain(&grants),
        verbs_per_grant: asked as f64 / updates.max(1) as f64,
        grants,
        updates,
        lost: updates.abs_diff(u64::from_le_bytes(number)),
    })
}

fn jain(grants: &[Vec<u64>]) -> f64 {
    let all = || grants.iter().flatten().map(|&count| count as f64);
    let squares: f64 = all().map(|count| count * count).sum();
    if squares == 0.0 { 0.0 } else { all().sum::<f64>().powi(2) / (all().count() as f64 * squares) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::player::Player;

    /// Two engines that know nothing of each other give two holders, and updates are lost.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_lock_that_does_not_lock_is_seen() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), 0_u64.to_le_bytes()).unwrap();
        let (mut one, mut two) =
            (Player::open("memory:one").await.unwrap(), Player::open("memory:two").await.unwrap());
        let from = now();
        let until = from + nanos(Duration::from_secs(1));
        let key = "hot".to_owned();
        let order = Order::Contend { key, tasks: 2, from, until, file: file.path().to_owned() };
        let others = tokio::spawn({
            let order = order.clone();
            async move { one.play(order).await.unwrap() }
        });
        let both = [two.play(order).await.unwrap(), others.await.unwrap()];
        let made = both.into_iter().map(|says| match says {
            Says::Contended(seen) => seen.updates,
            other => panic!("{other:?}"),
        });
        let number = u64::from_le_bytes(fs::read(file.path()).unwrap().try_into().unwrap());
        assert!(number < made.sum::<u64>());
    }

    #[test]
    fn jains_index_is_one_for_all_alike_and_a_share_for_one_alone() {
        assert_eq!(jain(&[vec![5, 5], vec![5, 5]]), 1.0);
        assert_eq!(jain(&[vec![9, 0], vec![0, 0]]), 0.25);
        assert_eq!(jain(&[vec![0]]), 0.0);
    }
}
