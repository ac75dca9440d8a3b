//! From a release in one process to the hold in another, beside what the benchmark compares with.
//!
//! Both processes read the same monotonic clock. Whoever holds waits until the other stands in line, does a few times
//! what is compared with, writes down the time, and releases; the other writes down when it holds.

use std::{
    env,
    io::{Read, Write},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use tenure::{Clock, Filter, Key, Mutex};

use crate::{
    COMPARED, NAME, URL, Yardstick,
    common::{self, median, report},
    open, server,
};

const TURNS: usize = 2_000;
const COMPARISONS: usize = 3;

pub(crate) fn measure(bound: &str) {
    let server = server();
    let mut child = Peer::start(&server.url());
    let runtime = runtime();
    let (mutex, yardstick) = runtime.block_on(connect(&server.url()));
    let mine = runtime.block_on(take_turns(&mutex, &yardstick, Part::First));
    let theirs = [0, 1, 2].map(|_| child.read_times());
    let mut turns = after(&mine.released, &theirs[1]);
    turns.extend(after(&theirs[0], &mine.held[1..]));
    let mut compared = mine.compared;
    compared.extend(&theirs[2]);
    let what = format!("{NAME}, hand-off between two processes  /  {COMPARED}");
    report(&what, median(turns), median(compared), bound);
}

fn after(released: &[Duration], held: &[Duration]) -> Vec<Duration> {
    released.iter().zip(held).map(|(released, held)| held.saturating_sub(*released)).collect()
}

pub(crate) fn child() {
    let runtime = runtime();
    let (mutex, yardstick) = runtime.block_on(connect(&env::var(URL).unwrap()));
    let times = runtime.block_on(take_turns(&mutex, &yardstick, Part::Second));
    let mut output = std::io::stdout().lock();
    for times in [times.released, times.held, times.compared] {
        output.write_all(&times.len().to_le_bytes()).unwrap();
        for time in times {
            output.write_all(&(time.as_nanos() as u64).to_le_bytes()).unwrap();
        }
    }
    output.flush().unwrap();
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Second,
}

#[derive(Default)]
struct Times {
    released: Vec<Duration>,
    held: Vec<Duration>,
    compared: Vec<Duration>,
}

async fn take_turns(mutex: &Mutex, yardstick: &Yardstick, part: Part) -> Times {
    let mut times = Times::default();
    if part == Part::Second {
        in_line(mutex, 1).await;
    }
    for turn in 0..TURNS {
        let guard = mutex.acquire().await.unwrap();
        times.held.push(now());
        if part == Part::First || turn < TURNS - 1 {
            in_line(mutex, 2).await;
        }
        for _ in 0..COMPARISONS {
            let began = Instant::now();
            yardstick.once().await;
            times.compared.push(began.elapsed());
        }
        times.released.push(now());
        guard.release().await.unwrap();
    }
    times
}

async fn in_line(mutex: &Mutex, places: usize) {
    let filter = Filter::Key(Key::from(mutex.key()));
    while mutex.client().line(&filter).await.unwrap().len() < places {
        tokio::task::yield_now().await;
    }
}

async fn connect(url: &str) -> (Mutex, Yardstick) {
    let (client, yardstick) = open(url).await;
    (client.mutex("k").unwrap().fair(), yardstick)
}

fn now() -> Duration {
    tenure::BootClock.now().get()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

struct Peer {
    child: Child,
    replies: std::process::ChildStdout,
}

impl Peer {
    fn start(url: &str) -> Self {
        let mut child = common::child("handoff").env(URL, url).stdout(Stdio::piped()).spawn().unwrap();
        let replies = child.stdout.take().unwrap();
        Self { child, replies }
    }

    fn number(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.replies.read_exact(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn read_times(&mut self) -> Vec<Duration> {
        let count = self.number();
        (0..count).map(|_| Duration::from_nanos(self.number())).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
