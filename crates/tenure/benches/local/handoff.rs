//! From a release in one process to the hold in another, on the file engine, beside a bare pipe ping-pong between
//! the same two processes.
//!
//! Both processes read the same monotonic clock. Whoever holds waits until the other stands in line, writes down
//! the time, and releases; the other writes down when it holds.

use std::{
    env,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use tenure::{Clock, Filter, Guard, Key, Mutex};

use crate::{file_client, median, report};

const DIR: &str = "TENURE_BENCH_DIR";
const ROUNDS: usize = 40;
const PINGS: usize = 50;
const TURNS: usize = 50;

pub(crate) fn measure() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Peer::start(dir.path());
    let runtime = runtime();
    let mutex = runtime.block_on(async { file_client(dir.path()).await.mutex("k").unwrap().fair() });
    let (mut pings, mut turns) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        child.pipe.write_all(b"p").unwrap();
        for _ in 0..PINGS {
            let began = Instant::now();
            child.pipe.write_all(b".").unwrap();
            child.read::<1>();
            pings.push(began.elapsed());
        }
        child.pipe.write_all(b"l").unwrap();
        let (released, held) = runtime.block_on(take_turns(&mutex, Part::First));
        let (their_released, their_held) = (child.read_times(), child.read_times());
        // Here first: our release leads to their hold, theirs to our next.
        turns.extend(held_after(&released, &their_held));
        turns.extend(held_after(&their_released, &held[1..]));
    }
    drop(child);
    report(
        "file, hand-off between two processes  /  pipe ping-pong",
        median(turns),
        median(pings),
        "at most 4",
    );
}

fn held_after(released: &[Duration], held: &[Duration]) -> Vec<Duration> {
    released.iter().zip(held).map(|(released, held)| held.saturating_sub(*released)).collect()
}

pub(crate) fn child() {
    let dir = PathBuf::from(env::var_os(DIR).unwrap());
    let runtime = runtime();
    let mutex = runtime.block_on(async { file_client(&dir).await.mutex("k").unwrap().fair() });
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut byte = [0];
    while input.read_exact(&mut byte).is_ok() {
        if byte == *b"p" {
            for _ in 0..PINGS {
                input.read_exact(&mut byte).unwrap();
                output.write_all(&byte).unwrap();
                output.flush().unwrap();
            }
        } else {
            let (released, held) = runtime.block_on(take_turns(&mutex, Part::Second));
            for time in released.into_iter().chain(held) {
                output.write_all(&(time.as_nanos() as u64).to_le_bytes()).unwrap();
            }
            output.flush().unwrap();
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    First,
    Second,
}

/// Holds and releases in turns with the other process; says when it released and when it held.
async fn take_turns(mutex: &Mutex, part: Part) -> (Vec<Duration>, Vec<Duration>) {
    let (mut released, mut held) = (Vec::new(), Vec::new());
    if part == Part::Second {
        in_line(mutex, 1).await;
    }
    for turn in 0..TURNS {
        let guard = mutex.acquire().await.unwrap();
        held.push(now());
        let last = part == Part::Second && turn == TURNS - 1;
        if !last {
            in_line(mutex, 2).await;
        }
        released.push(release(guard));
    }
    (released, held)
}

fn release(guard: Guard) -> Duration {
    let at = now();
    drop(guard);
    at
}

async fn in_line(mutex: &Mutex, places: usize) {
    let filter = Filter::Key(Key::from(mutex.key()));
    while mutex.client().line(&filter).await.unwrap().len() < places {
        tokio::task::yield_now().await;
    }
    // The other has taken its place; give it the time to fall asleep over it, as a waiter usually has, without
    // falling asleep here: a processor that wakes up from idle would count for the hand-off and not for the pipe.
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(100) {
        std::hint::spin_loop();
    }
}

fn now() -> Duration {
    tenure::BootClock.now().get()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

struct Peer {
    child: Child,
    pipe: std::process::ChildStdin,
    replies: std::process::ChildStdout,
}

impl Peer {
    fn start(dir: &Path) -> Self {
        let mut child = crate::child("handoff")
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (pipe, replies) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, pipe, replies }
    }

    fn read<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.replies.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn read_times(&mut self) -> Vec<Duration> {
        (0..TURNS).map(|_| Duration::from_nanos(u64::from_le_bytes(self.read()))).collect()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
