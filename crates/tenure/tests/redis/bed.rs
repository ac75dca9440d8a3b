//! What the tests stand on: clients, conditions with a limit, and work that notices a second holder.
//!
//! Tests run on a runtime of several threads and block their own thread while they start, kill and pause servers;
//! waiters and watchdogs go on in the others.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tenure::{Client, ErrorKind, Fence, Filter, Guard, Key, Loss, Place, Ttl, connect};
use tenure_testkit::{
    proxy::Proxy,
    redis::{Persistence, Redis, RedisOptions},
};
use tokio::{task::JoinHandle, time::timeout};

/// How long anything may take on a machine that is busy with other tests.
pub(crate) const LIMIT: Duration = secs(20);
/// How long a release in the background may take. A test with a lease that is not longer cannot tell whether the
/// release or the lease cleaned up.
pub(crate) const SOON: Duration = secs(3);
/// How much later than the clock says a task may run.
pub(crate) const LATE: Duration = millis(700);

pub(crate) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A server of the test's own, to be broken.
pub(crate) fn redis(persistence: Persistence) -> Redis {
    Redis::start(RedisOptions { persistence, ..RedisOptions::default() }).unwrap()
}

/// The same, as it comes with these arguments.
pub(crate) fn server(args: &[&str]) -> Redis {
    let args = args.iter().map(|&arg| arg.to_owned()).collect();
    Redis::start(RedisOptions { args, ..RedisOptions::default() }).unwrap()
}

/// Ends all connections of clients.
pub(crate) fn kill_all(redis: &Redis) {
    let mut admin = redis.admin().unwrap();
    for kind in ["normal", "pubsub"] {
        admin.command(&["CLIENT", "KILL", "TYPE", kind]).unwrap();
    }
}

/// Waits until who waits is also told of its turn: here it listens before it asks.
pub(crate) async fn listens(_: &Redis) {}

/// A way to a server that can be broken, and the URLs of that and of the direct way.
pub(crate) fn route() -> (Proxy, [String; 2]) {
    let redis = Redis::shared().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    let broken = format!("redis://{}", proxy.addr());
    (proxy, [broken, redis.url()])
}

/// A client with connections of its own, as another process would have.
pub(crate) async fn client(url: &str, ttl: Duration) -> Client {
    let and = if url.contains('?') { '&' } else { '?' };
    connect(&format!("{url}{and}ttl={}ms", ttl.as_millis())).await.unwrap()
}

/// Starts to wait for the lock; it is in the line or holds when this returns.
pub(crate) async fn waits(client: &Client, key: &str) -> JoinHandle<tenure::Result<Guard>> {
    let before = line(client, key).await.len();
    let mutex = client.mutex(key).unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    grows_to(client, key, before + 1).await;
    waiting
}

/// The lock that a waiter gets in the end.
pub(crate) async fn gets(waiting: JoinHandle<tenure::Result<Guard>>) -> Guard {
    within("the waiter has the lock", waiting).await.unwrap().unwrap()
}

/// The line, as soon as the client gets an answer: it may be the one to find that its connection has ended.
pub(crate) async fn line(client: &Client, key: &str) -> Vec<Place> {
    let filter = Filter::Key(Key::new(key).unwrap());
    let answer = async || client.line(&filter).await.map_err(|err| err.to_string());
    eventually("the line is shown", LIMIT, answer).await
}

pub(crate) async fn empties(client: &Client, key: &str) {
    empties_within(client, key, SOON).await;
}

pub(crate) async fn empties_within(client: &Client, key: &str, limit: Duration) {
    let nobody = async || match line(client, key).await {
        line if line.is_empty() => Ok(()),
        line => Err(format!("{line:?}")),
    };
    eventually("nobody is left in the line", limit, nobody).await;
}

pub(crate) async fn grows_to(client: &Client, key: &str, places: usize) {
    let so_many = async || match line(client, key).await {
        line if line.len() == places => Ok(()),
        line => Err(format!("{line:?}")),
    };
    eventually(&format!("{places} are in the line"), LIMIT, so_many).await;
}

/// Looks until it is so.
pub(crate) async fn eventually<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<T, String>,
) -> T {
    let began = Instant::now();
    loop {
        let last_chance = began.elapsed() >= limit;
        match look().await {
            Ok(value) => return value,
            Err(why) if last_chance => panic!("waited {limit:?} in vain until {what}: {why}"),
            Err(_) => tokio::time::sleep(millis(3)).await,
        }
    }
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {LIMIT:?} in vain until {what}"),
    }
}

/// Waits until no more than this is left of the lease, as happens when renewals do not get through.
pub(crate) async fn runs_down_to(guard: &Guard, left: Duration) {
    let low = async || match guard.remaining() {
        Some(now) if now <= left => Ok(()),
        now => Err(format!("{now:?} are left")),
    };
    eventually("the lease runs down", LIMIT, low).await;
}

/// Waits until a renewal got through that was sent after this moment; the lock stays held all the time.
pub(crate) async fn renewed_since(guard: &Guard, ttl: Duration, moment: Instant) {
    let safe = Ttl::new(ttl).unwrap().safe();
    let renewed = async || {
        // Read before what is left, so that this thread's own pauses do not look like a longer lease.
        let now = Instant::now();
        let left = guard.remaining().unwrap();
        assert!(!left.is_zero(), "the lock is lost");
        // The lease counts from when it was asked for.
        if now + left > moment + safe { Ok(()) } else { Err(format!("{left:?} are left")) }
    };
    eventually("the lease is renewed", LIMIT, renewed).await;
}

/// Why the lock was lost; told not later than a lease from now, give or take a busy machine. Renewals must not get
/// through any more.
pub(crate) async fn told(guard: &Guard, ttl: Duration) -> Loss {
    match timeout(ttl + LATE, guard.lost()).await {
        Ok(loss) => loss,
        Err(_) => panic!("the holder is not told; remaining: {:?}", guard.remaining()),
    }
}

/// What the lock protects: a count that a second holder would spoil, and the fences it has seen.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    inside: AtomicUsize,
    count: AtomicU64,
    fences: Mutex<Vec<Fence>>,
}

impl Ledger {
    pub(crate) async fn enter(&self, fence: Fence) {
        assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0, "two hold the lock");
        let count = self.count.load(Ordering::SeqCst);
        tokio::task::yield_now().await; // a second holder would read the same here
        self.count.store(count + 1, Ordering::SeqCst);
        self.fences.lock().unwrap().push(fence);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn check(&self, entries: u64) {
        let fences = self.fences.lock().unwrap();
        assert_eq!((self.count(), fences.len() as u64), (entries, entries));
        assert!(fences.is_sorted_by(|a, b| a < b), "a fence was repeated or went back: {fences:?}");
    }
}

/// Takes the lock so many times. A release may fail; it then goes on in the background.
pub(crate) async fn contend(client: &Client, key: &str, rounds: usize, ledger: &Ledger) {
    let mutex = client.mutex(key).unwrap();
    for _ in 0..rounds {
        let guard = within("the lock is free", mutex.acquire()).await.unwrap();
        ledger.enter(guard.fence()).await;
        match guard.release().await {
            Ok(()) => {}
            Err(err) => assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}"),
        }
    }
}

/// Clients that contend for one lock, each as a task of its own.
#[derive(Debug)]
pub(crate) struct Work {
    ledger: Arc<Ledger>,
    workers: Vec<JoinHandle<()>>,
    entries: u64,
}

impl Work {
    /// Each of them begins to take the lock so many times.
    pub(crate) fn start(clients: impl IntoIterator<Item = Client>, key: &'static str, rounds: usize) -> Self {
        let ledger = Arc::new(Ledger::default());
        let start = |client| {
            let ledger = ledger.clone();
            tokio::spawn(async move { contend(&client, key, rounds, &ledger).await })
        };
        let workers: Vec<_> = clients.into_iter().map(start).collect();
        let entries = (workers.len() * rounds) as u64;
        Self { ledger, workers, entries }
    }

    /// Disturbs them after every so many entries, so that each time something is under way and work goes on in between.
    pub(crate) async fn disturbed(&self, every: usize, disturb: impl Fn()) {
        for goal in (5..self.entries).step_by(every) {
            let progress = async || match self.ledger.count() {
                count if count >= goal => Ok(()),
                _ => Err(format!("{:?}", self.ledger)),
            };
            eventually("work goes on", LIMIT, progress).await;
            disturb();
        }
    }

    /// All of them are done, and no two were inside at once.
    pub(crate) async fn done(self) {
        for worker in self.workers {
            within("all work is done", worker).await.unwrap();
        }
        self.ledger.check(self.entries);
    }
}

/// A lock that is held and waited for on a server which then forgets everything: the holder is told at its next renewal,
/// the waiters go on, one at a time, and fences rise.
pub(crate) async fn forgets(url: &str, ttl: Duration, forget: impl FnOnce()) {
    let clients = [client(url, ttl).await, client(url, ttl).await, client(url, ttl).await];
    let held = clients[0].mutex("k").unwrap().acquire().await.unwrap();
    let ledger = Arc::new(Ledger::default());
    ledger.enter(held.fence()).await;
    let mut waiters = Vec::new();
    for client in &clients[1..] {
        waiters.push(waits(client, "k").await);
    }
    forget();
    let forgotten = Instant::now();
    // Whoever comes first, the two exclude each other, and both have larger fences than the one before.
    let workers: Vec<_> = waiters
        .into_iter()
        .map(|waiting| {
            let ledger = ledger.clone();
            tokio::spawn(async move {
                let guard = gets(waiting).await;
                ledger.enter(guard.fence()).await;
                guard.release().await.unwrap();
            })
        })
        .collect();
    assert_eq!(told(&held, ttl).await, Loss::Gone, "the server said so, not the clock");
    assert!(forgotten.elapsed() < ttl / 2, "at the next renewal, not after {:?}", forgotten.elapsed());
    for worker in workers {
        within("the waiters go on", worker).await.unwrap();
    }
    assert_eq!(held.release().await.unwrap_err().kind(), ErrorKind::Lost);
    ledger.check(3);
    empties(&clients[0], "k").await;
}
