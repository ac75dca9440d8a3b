//! What the tests stand on: two clients whose verbs are counted, and what is done with them.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tenure::{Client, Key, Mode, Note, Seq, Ttl};
use tenure_bench::{Counter, Counting, Verbs};
use tenure_core::{Answered, Attempt, Claim, ClaimId, Engine, Held, Patience, Released};
use tokio::time::timeout;

use crate::wire::Wire;

/// No lease needs to be renewed while a test runs: nobody asks for anything in the background.
const TTL: &str = "ttl=300s";
/// How long anything may take on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_secs(30);
/// How often each operation is repeated; every time must cost the same.
const TIMES: u64 = 8;
const WARM: u32 = 3;
/// The holds of a batch.
const BATCH: usize = 100;

/// Who counts, besides the decorator that counts verbs.
#[derive(Clone)]
pub(crate) enum Meter {
    /// There is no server.
    Nobody,
    /// Round trips to this server, on the way there.
    Wire(SocketAddr),
    /// The server itself, for all its clients.
    Server(Arc<dyn Fn() -> u64 + Send + Sync>),
}

/// A client with an engine and counters of its own, as another process would have.
pub(crate) struct Party {
    client: Client,
    engine: Arc<dyn Engine>,
    counter: Counter,
    metered: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl Party {
    async fn open(url: &str, meter: &Meter) -> Self {
        let (url, metered): (_, Box<dyn Fn() -> u64 + Send + Sync>) = match meter.clone() {
            Meter::Nobody => (url.to_owned(), Box::new(|| 0)),
            Meter::Server(count) => (url.to_owned(), Box::new(move || count())),
            Meter::Wire(server) => {
                let wire = Wire::to(server);
                (wire.url(url, server), Box::new(move || wire.trips()))
            }
        };
        let and = if url.contains('?') { '&' } else { '?' };
        let (engine, settings) = tenure::open(&format!("{url}{and}{TTL}")).await.unwrap();
        let (engine, counter) = Counting::over(engine);
        let client = Client::new(engine.clone(), settings).unwrap();
        let party = Self { client, engine, counter, metered };
        // The first times, a client loads and prepares what it needs, on each of its connections.
        for _ in 0..WARM {
            uncontended(&party).await;
        }
        batch(&party).await;
        party
    }

    fn cost(&self) -> Cost {
        Cost { verbs: self.counter.verbs(), trips: (self.metered)() }
    }

    fn claim(&self, key: &str) -> Claim {
        Claim {
            key: Key::new(key).unwrap(),
            id: ClaimId::fresh(),
            mode: Mode::Exclusive,
            patience: Patience::Try,
            ttl: Ttl::new(Duration::from_secs(300)).unwrap(),
            floor: Seq::ZERO,
            note: Note::new("counts", ""),
        }
    }
}

/// What was asked up to some moment, or between two.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    pub(crate) verbs: Verbs,
    pub(crate) trips: u64,
}

impl Cost {
    fn since(self, earlier: Self) -> Self {
        Self { verbs: self.verbs.since(earlier.verbs), trips: self.trips - earlier.trips }
    }
}

/// What an operation costs each time: verbs that ask, and what the meter counts.
#[derive(Clone, Copy, Debug)]
struct Each {
    verbs: u64,
    trips: u64,
}

/// What the operations of an engine cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bill {
    acquire: Each,
    release: Each,
    /// One call for a hundred holds.
    batch: Each,
    /// From the wish of a second process, through the release of the first, to the second's hold: both together.
    handoff: Each,
}

impl Bill {
    fn all(&self) -> [Each; 4] {
        [self.acquire, self.release, self.batch, self.handoff]
    }

    /// One verb for each; and two for a hand-off: whoever waits takes its place, and is told by the release.
    pub(crate) fn has_fewest_verbs(self) -> Self {
        assert_eq!(self.all().map(|each| each.verbs), [1, 1, 1, 2], "verbs of {OPERATIONS}");
        self
    }

    /// The same without the hand-off, for an engine that tells nobody.
    pub(crate) fn has_fewest_verbs_of_one(self) -> Self {
        assert_eq!(self.all().map(|each| each.verbs)[..3], [1, 1, 1], "verbs of {OPERATIONS}");
        self
    }

    /// The meter counts no more than this. It may be less after a change: then lower it.
    pub(crate) fn is_at_most(self, most: [u64; 4]) {
        let seen = self.all().map(|each| each.trips);
        assert!(
            seen.iter().zip(&most).all(|(seen, most)| seen <= most),
            "{seen:?} of {OPERATIONS}, at most {most:?}"
        );
    }
}

const OPERATIONS: &str = "acquire, release, a batch of renewals, a hand-off";

/// Counts all operations of an engine.
pub(crate) async fn bill(url: &str, meter: Meter) -> Bill {
    bill_of_watches(url, meter, 0).await
}

/// The same for one on which whoever waits has asked so often before it will be told: if it is released before that, it is
/// looked at once more.
pub(crate) async fn bill_of_watches(url: &str, meter: Meter, asked: u64) -> Bill {
    timeout(LIMIT, async {
        let one = Party::open(url, &meter).await;
        let (acquire, release) = uncontended(&one).await;
        let batch = batch(&one).await;
        // A server that counts for all must not be read twice.
        let of_two = if matches!(meter, Meter::Server(_)) { Meter::Nobody } else { meter };
        let two = Party::open(url, &of_two).await;
        handoff(&one, &two, asked).await;
        Bill { acquire, release, batch, handoff: handoff(&one, &two, asked).await }
    })
    .await
    .expect("every operation is answered in time")
}

async fn uncontended(party: &Party) -> (Each, Each) {
    let (mut acquired, mut released) = (Cost::default(), Cost::default());
    for _ in 0..TIMES {
        let mutex = party.client.mutex("alone").unwrap();
        let before = party.cost();
        let guard = mutex.acquire().await.unwrap();
        let held = party.cost();
        guard.release().await.unwrap();
        let after = party.cost();
        acquired = sum(acquired, held.since(before));
        released = sum(released, after.since(held));
    }
    (per_time(acquired), per_time(released))
}

/// The engine's own verb: what the watchdog asks once for all holds of a process.
async fn batch(party: &Party) -> Each {
    let mut holds = Vec::new();
    for number in 0..BATCH {
        let claim = party.claim(&format!("batch/{number}"));
        let Attempt::Granted(grant) = party.engine.attempt(&claim).await.unwrap() else {
            panic!("nobody else is here")
        };
        holds.push((claim, grant.seat.seq));
    }
    let held: Vec<Held<'_>> = holds.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    let before = party.cost();
    for _ in 0..TIMES {
        assert_eq!(party.engine.renew(&held).await.unwrap().len(), BATCH);
    }
    let cost = party.cost().since(before);
    for (claim, _) in &holds {
        assert_eq!(party.engine.release(claim, Answered::All).await.unwrap(), Released::Freed);
    }
    per_time(cost)
}

async fn handoff(one: &Party, two: &Party, asked: u64) -> Each {
    let mut total = Cost::default();
    for _ in 0..TIMES {
        let mutex = |party: &Party| party.client.mutex("passed on").unwrap();
        let held = mutex(one).acquire().await.unwrap();
        let (first, second) = (one.cost(), two.cost());
        let wanted = mutex(two);
        let waiting = tokio::spawn(async move { wanted.acquire().await });
        // It waits for its turn only once it stands in the line.
        while two.cost().verbs.turns == second.verbs.turns
            || sum(one.cost().since(first), two.cost().since(second)).trips < asked
        {
            tokio::task::yield_now().await;
        }
        held.release().await.unwrap();
        let passed = waiting.await.unwrap().unwrap();
        total = sum(total, sum(one.cost().since(first), two.cost().since(second)));
        passed.release().await.unwrap();
    }
    per_time(total)
}

fn sum(a: Cost, b: Cost) -> Cost {
    Cost {
        verbs: Verbs {
            attempts: a.verbs.attempts + b.verbs.attempts,
            renewals: a.verbs.renewals + b.verbs.renewals,
            releases: a.verbs.releases + b.verbs.releases,
            others: a.verbs.others + b.verbs.others,
            ..a.verbs
        },
        trips: a.trips + b.trips,
    }
}

/// To the nearest: what an engine does beside its work now and then is not what an operation costs.
fn per_time(total: Cost) -> Each {
    let each = |count: u64| (count + TIMES / 2) / TIMES;
    Each { verbs: each(total.verbs.asked()), trips: each(total.trips) }
}
