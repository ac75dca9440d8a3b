//! What a part does.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use futures_util::{StreamExt, stream};
use rustix::time::{ClockId, clock_gettime};
use tenure::{Client, Filter, Guard, Key, Mutex};
use tokio::time::{sleep, timeout};

use crate::{
    counting::{Counter, Counting},
    figures::bucket,
    trouble::{Result, Trouble},
    wire::{Contended, Kept, Order, Says, Turns},
};

/// Round trips between two turns.
const TRIPS: u32 = 3;
/// Locks of [`Order::Keep`] that are asked for at once.
const AT_ONCE: usize = 64;
/// How long whoever waits for the other's turn may wait.
const TURN: Duration = Duration::from_secs(30);

/// A client whose verbs are counted, and the lock it keeps.
pub(crate) struct Player {
    pub(crate) client: Client,
    pub(crate) counter: Counter,
    kept: Option<Guard>,
}

impl Player {
    pub(crate) async fn open(url: &str) -> Result<Self> {
        let (engine, settings) = tenure::open(url).await?;
        let (engine, counter) = Counting::over(engine);
        let client = Client::new(engine, settings)?;
        // The first time a client loads and prepares what it needs.
        client.mutex("tenure-bench/warm")?.acquire().await?.release().await?;
        Ok(Self { client, counter, kept: None })
    }

    pub(crate) async fn play(&mut self, order: Order) -> Result<Says> {
        Ok(match order {
            Order::Open { .. } => Says::Ready,
            Order::Turns { key, first, turns } => {
                let mutex = self.client.mutex(key)?.fair();
                let turns = self.take_turns(&mutex, first, turns);
                Says::Turns(
                    timeout(TURN, turns).await.map_err(|_| {
                        Trouble::Unavailable(format!("a turn did not come within {TURN:?}"))
                    })??,
                )
            }
            Order::Contend { key, tasks, from, until, file } => {
                let file = OpenOptions::new().read(true).write(true).open(file);
                let file = Arc::new(file.map_err(|err| Trouble::internal("the shared file", err))?);
                Says::Contended(self.contend(&self.client.mutex(key)?, tasks, [from, until], &file).await?)
            }
            Order::Acquire { key, lease } => {
                let guard = self.client.mutex(key)?.ttl(lease).acquire().await?;
                let held = now();
                self.kept = Some(guard);
                Says::Holds(held)
            }
            Order::Release => {
                if let Some(guard) = self.kept.take() {
                    guard.release().await?;
                }
                Says::Released
            }
            Order::Keep { prefix, locks, lease, taking, watched } => {
                Says::Kept(self.keep(&prefix, locks, lease, [taking, watched]).await?)
            }
            Order::Wait { key, tasks } => Says::Waited(self.wait(&key, tasks).await?),
        })
    }

    /// One round trip: reads the line of a key that nobody wants.
    pub(crate) async fn trip(&self) -> Result<u64> {
        let nobody = Filter::Key(Key::new("tenure-bench/nobody")?);
        let began = Instant::now();
        self.client.line(&nobody).await?;
        Ok(nanos(began.elapsed()))
    }

    /// Whoever holds waits until the other stands in line, makes a few round trips, notes the time and lets go.
    async fn take_turns(&self, mutex: &Mutex, first: bool, count: u32) -> Result<Turns> {
        let mut turns = Turns::default();
        if !first {
            self.in_line(mutex.key(), 1).await?;
        }
        for turn in 0..count {
            let guard = mutex.acquire().await?;
            turns.held.push(now());
            if first || turn < count - 1 {
                self.in_line(mutex.key(), 2).await?;
            }
            for _ in 0..TRIPS {
                turns.trips.push(self.trip().await?);
            }
            turns.released.push(now());
            guard.release().await?;
        }
        Ok(turns)
    }

    /// Looks until so many stand in the line.
    pub(crate) async fn in_line(&self, key: &Key, places: usize) -> Result<()> {
        let filter = Filter::Key(key.clone());
        while self.client.line(&filter).await?.len() < places {
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn contend(
        &self,
        mutex: &Mutex,
        tasks: u32,
        [from, until]: [u64; 2],
        file: &Arc<File>,
    ) -> Result<Contended> {
        let before = self.counter.verbs();
        let tasks: Vec<_> =
            (0..tasks).map(|_| tokio::spawn(want(mutex.clone(), from, until, file.clone()))).collect();
        let mut all = Contended::default();
        for task in tasks {
            let one = task.await.map_err(|err| Trouble::internal("a task", err))??;
            all.grants.extend(one.grants);
            all.updates += one.updates;
            all.longest = all.longest.max(one.longest);
            for (bucket, count) in one.waits {
                *all.waits.entry(bucket).or_default() += count;
            }
        }
        all.verbs = self.counter.verbs().since(before);
        Ok(all)
    }

    async fn keep(
        &self,
        prefix: &str,
        locks: u32,
        lease: Duration,
        [taking, watched]: [Duration; 2],
    ) -> Result<Kept> {
        let (before, began) = (resident(None), Instant::now());
        let take = async |number: u32| -> Result<Option<Guard>> {
            if began.elapsed() >= taking {
                return Ok(None);
            }
            Ok(Some(self.client.mutex(format!("{prefix}/{number}"))?.ttl(lease).acquire().await?))
        };
        let mut taken = stream::iter(0..locks).map(take).buffer_unordered(AT_ONCE);
        let mut guards = Vec::new();
        while let Some(guard) = taken.next().await {
            guards.extend(guard?);
        }
        drop(taken);
        let taken_in = began.elapsed();
        let bytes = resident(None).saturating_sub(before) / (guards.len().max(1) as u64);
        let (cpu, verbs, began) = (cpu_time(), self.counter.verbs(), Instant::now());
        sleep(watched).await;
        let kept = Kept {
            locks: u32::try_from(guards.len()).unwrap_or(u32::MAX),
            taken_in,
            bytes,
            cpu: cpu_time().saturating_sub(cpu),
            watched: began.elapsed(),
            verbs: self.counter.verbs().since(verbs),
            lost: u32::try_from(guards.iter().filter(|guard| guard.is_lost()).count()).unwrap_or(u32::MAX),
        };
        drop(guards);
        // The places go before this is said, so that nothing is left behind by a process that is killed then.
        self.client.close().await;
        Ok(kept)
    }

    /// What a task takes that waits for a lock: its future, and its place in the process's own line.
    async fn wait(&self, key: &str, tasks: u32) -> Result<u64> {
        let mutex = self.client.mutex(key)?;
        let held = mutex.acquire().await?;
        let before = resident(None);
        let mut waiting = Vec::new();
        for _ in 0..tasks {
            let mut acquire = Box::pin(mutex.acquire());
            // The first poll puts it in line; it cannot be granted while the lock is held.
            if let Poll::Ready(granted) = futures_util::poll!(&mut acquire) {
                drop(granted?);
                return Err(Trouble::Internal("a lock that is held was granted".into()));
            }
            waiting.push(acquire);
        }
        let bytes = resident(None).saturating_sub(before) / u64::from(tasks.max(1));
        drop(waiting);
        held.release().await?;
        Ok(bytes)
    }
}

/// One task: takes the lock, updates the number, lets go, until the time is over.
async fn want(mutex: Mutex, from: u64, until: u64, file: Arc<File>) -> Result<Contended> {
    let mut seen = Contended { grants: vec![0], ..Contended::default() };
    sleep(Duration::from_nanos(from.saturating_sub(now()))).await;
    loop {
        let asked = now();
        if asked >= until {
            return Ok(seen);
        }
        let guard = mutex.acquire().await?;
        let held = now();
        *seen.waits.entry(bucket(held - asked)).or_default() += 1;
        seen.longest = seen.longest.max(held - asked);
        update(&file).map_err(|err| Trouble::internal("the shared file", err))?;
        seen.updates += 1;
        seen.grants[0] += u64::from(held < until);
        guard.release().await?;
    }
}

/// Reads a number and writes the next one, in two steps: two holders at once would lose an update.
fn update(file: &File) -> std::io::Result<()> {
    let mut number = [0; 8];
    file.read_exact_at(&mut number, 0)?;
    file.write_all_at(&(u64::from_le_bytes(number) + 1).to_le_bytes(), 0)
}

/// Nanoseconds by the clock that all processes of a machine share and nobody sets.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or_default() * 1_000_000_000 + nanos.unwrap_or_default()
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Memory that a process has in use, or this one, in bytes.
pub(crate) fn resident(process: Option<u32>) -> u64 {
    let process = process.map_or_else(|| "self".to_owned(), |process| process.to_string());
    let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * rustix::param::page_size() as u64
}

/// Processor time that this process has used.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
