use std::collections::BTreeMap;

use serde::Serialize;

/// Buckets for each factor e: a bucket is a twentieth wide.
const FINE: f64 = 20.0;

/// The bucket of a time, so that processes can be added up.
pub(crate) fn bucket(nanos: u64) -> i32 {
    ((nanos as f64).max(1.0).ln() * FINE).floor() as i32
}

/// The middle of a bucket, in microseconds.
fn middle(bucket: i32) -> f64 {
    ((f64::from(bucket) + 0.5) / FINE).exp() / 1_000.0
}

/// How a time is spread. Everything is in microseconds.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spread {
    /// How often it was measured.
    pub count: u64,
    /// Half were shorter.
    pub p50_us: f64,
    /// Nine in ten were shorter.
    pub p90_us: f64,
    /// All but one in a hundred were shorter.
    pub p99_us: f64,
    /// The longest.
    pub max_us: f64,
    /// How many were about so long.
    pub buckets: Vec<(f64, u64)>,
}

impl Spread {
    pub(crate) fn of(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        let mut buckets = BTreeMap::new();
        for &time in &times {
            *buckets.entry(bucket(time)).or_default() += 1;
        }
        let at = |share: f64| match times.len() {
            0 => 0.0,
            count => times[((count - 1) as f64 * share) as usize] as f64 / 1_000.0,
        };
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: at(1.0),
            ..Self::counted(&buckets, 0)
        }
    }

    /// From buckets alone: exact to a twentieth.
    pub(crate) fn counted(buckets: &BTreeMap<i32, u64>, longest: u64) -> Self {
        let count: u64 = buckets.values().sum();
        let at = |share: f64| {
            let mut seen = 0;
            let found = buckets.iter().find(|(_, times)| {
                seen += *times;
                seen as f64 >= share * count as f64
            });
            found.map_or(0.0, |(bucket, _)| middle(*bucket))
        };
        Self {
            count,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            max_us: longest as f64 / 1_000.0,
            buckets: buckets.iter().map(|(bucket, count)| (middle(*bucket), *count)).collect(),
        }
    }
}

/// All that was measured.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The engine's URL, without its password.
    pub engine: String,
    /// What the round trip is that everything is compared with.
    pub round_trip: &'static str,
    /// One client, nobody else.
    pub alone: Option<Alone>,
    /// From a release to the hold of whoever waited.
    pub handoff: Option<Handoff>,
    /// Many on one key.
    pub hot: Option<Hot>,
    /// A holder is killed.
    pub crash: Option<Crash>,
    /// Many locks at once.
    pub held: Option<Held>,
    /// What could not be measured on this engine, and why.
    pub skipped: Vec<(&'static str, String)>,
}

impl Figures {
    /// Updates that were lost under the lock. More than none is a lock that does not lock.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.hot.as_ref().map_or(0, |hot| hot.lost)
    }
}

/// What acquire and release cost while nobody else wants the key.
#[derive(Clone, Debug, Serialize)]
pub struct Alone {
    /// The round trip, in between.
    pub trip: Spread,
    /// Acquire and release of one key, again and again.
    pub one_key: Spread,
    /// Of a new key each time.
    pub new_key: Spread,
    /// The first in round trips.
    pub ratio: f64,
    /// The second in round trips.
    pub new_key_ratio: f64,
}

/// What a hand-off costs.
#[derive(Clone, Debug, Serialize)]
pub struct Handoff {
    /// Between whom.
    pub between: &'static str,
    /// The round trip, in between.
    pub trip: Spread,
    /// From the call of release to the other's hold.
    pub time: Spread,
    /// That in round trips.
    pub ratio: f64,
}

/// What a hot key gives.
#[derive(Clone, Debug, Serialize)]
pub struct Hot {
    /// How many processes contended; clients of one process if the engine lives in one.
    pub processes: u32,
    /// How many tasks in each.
    pub tasks: u32,
    /// For how long.
    pub seconds: f64,
    /// The round trip, before and after.
    pub trip: Spread,
    /// Grants in a second, over all.
    pub grants_per_second: f64,
    /// The time of one grant in round trips.
    pub ratio: f64,
    /// How long each waited.
    pub wait: Spread,
    /// Jain's index over all tasks: 1 if all got the same, 1/n if one got everything.
    pub jain: f64,
    /// Verbs of the engine contract that were asked for one grant. Waiting is none.
    pub verbs_per_grant: f64,
    /// What each task got, by process.
    pub grants: Vec<Vec<u64>>,
    /// Updates of a number in a file, each a read and a write under the lock.
    pub updates: u64,
    /// How many of them are not in the number.
    pub lost: u64,
}

/// What a crash costs.
#[derive(Clone, Debug, Serialize)]
pub struct Crash {
    /// The lease, where the engine has leases.
    pub lease_seconds: Option<f64>,
    /// From the kill of the holder to the next grant, in seconds, each time.
    pub seconds: Vec<f64>,
    /// The middle one.
    pub median_seconds: f64,
    /// How much later than the lease's end the next one held, at worst; the whole time where there is no lease.
    pub late_seconds: f64,
}

/// What many held locks cost one process.
#[derive(Clone, Debug, Serialize)]
pub struct Held {
    /// How many were held. Fewer than asked for if the time was over.
    pub locks: u32,
    /// The lease.
    pub lease_seconds: f64,
    /// How long it took to take them, 64 at a time.
    pub taken_seconds: f64,
    /// Memory of the process for each.
    pub bytes_each: u64,
    /// The share of a core that keeping them takes, in hundredths.
    pub cpu_percent: f64,
    /// Leases renewed in a second.
    pub renewed_per_second: f64,
    /// Calls to the engine for that.
    pub calls_per_second: f64,
    /// How many were lost meanwhile.
    pub lost: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_times() {
        let spread = Spread::of((1..=1_000).map(|n| n * 1_000).collect());
        assert_eq!((spread.count, spread.p50_us, spread.max_us), (1_000, 500.0, 1_000.0));
        assert_eq!(spread.p99_us, 990.0);
        assert_eq!(spread.buckets.iter().map(|(_, count)| count).sum::<u64>(), 1_000);
    }

    #[test]
    fn buckets_are_exact_to_a_twentieth() {
        let mut buckets = BTreeMap::new();
        for nanos in 1..=1_000_u64 {
            *buckets.entry(bucket(nanos * 1_000)).or_default() += 1;
        }
        let spread = Spread::counted(&buckets, 1_000_000);
        assert!((spread.p50_us / 500.0 - 1.0).abs() < 0.05, "{}", spread.p50_us);
        assert!((spread.p99_us / 990.0 - 1.0).abs() < 0.05, "{}", spread.p99_us);
    }

    #[test]
    fn nothing_measured_is_nothing() {
        assert_eq!(Spread::of(Vec::new()).p99_us, 0.0);
    }
}
