//! What the engines without a server cost, as ratios within one run: `cargo bench -p tenure`.
//!
//! Absolute times move with the machine and its neighbours; a ratio of two things measured in turns moves less. So
//! every figure here is a median over many short blocks, in which what is measured and what it is compared with
//! take turns. Nothing is asserted: the bound stands beside the figure.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark talks to people and stops when it cannot go on"
)]

#[path = "common/block.rs"]
mod block;
mod common;
#[path = "local/handoff.rs"]
mod handoff;
#[path = "local/held.rs"]
mod held;

use std::{
    fs::OpenOptions,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use tenure::{Client, Mutex};

use self::{
    block::block,
    common::{PART, child, median, report, run_wanted, runtime},
};

fn main() {
    if let Some(part) = std::env::var_os(PART) {
        return match part.to_str() {
            Some("handoff") => handoff::child(),
            Some(engine) => held::child(engine),
            None => {}
        };
    }
    run_wanted(&[
        ("memory-uncontended", memory_uncontended),
        ("memory-hot-key", memory_hot_key),
        ("file-uncontended", file_uncontended),
        ("file-handoff", handoff::measure),
        ("memory-held", || held::measure("memory")),
        ("file-held", || held::measure("file")),
    ]);
}

fn memory_uncontended() {
    const OPS: u32 = 2_000;
    runtime().block_on(async {
        let mutex = tenure::connect("memory:bench").await.unwrap().mutex("k").unwrap();
        let tokio_mutex = tokio::sync::Mutex::new(());
        let (mut released, mut dropped, mut bare) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..200 {
            bare.push(block(OPS, async || drop(tokio_mutex.lock().await)).await);
            released.push(block(OPS, async || mutex.acquire().await.unwrap().release().await.unwrap()).await);
            bare.push(block(OPS, async || drop(tokio_mutex.lock().await)).await);
            dropped.push(block(OPS, async || drop(mutex.acquire().await.unwrap())).await);
        }
        let bare = median(bare);
        report(
            "memory, uncontended acquire + release  /  tokio::sync::Mutex",
            median(released),
            bare,
            "at most 40",
        );
        report(
            "memory, uncontended acquire + drop  /  tokio::sync::Mutex",
            median(dropped),
            bare,
            "at most 40",
        );
    });
}

/// Each task gives way once while it holds the lock, so that the others really wait, however many processors there
/// are. (With nothing inside, one worker thread runs a thousand tasks one after the other, and none ever waits.)
fn memory_hot_key() {
    const TASKS: usize = 1_000;
    const EACH: usize = 20;
    runtime().block_on(async {
        let mutex = tenure::connect("memory:bench").await.unwrap().mutex("hot").unwrap();
        let tokio_mutex = Arc::new(tokio::sync::Mutex::new(()));
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            let mutex = mutex.clone();
            ours.push(
                crowd(TASKS, move || {
                    let mutex = mutex.clone();
                    async move {
                        for _ in 0..EACH {
                            let guard = mutex.acquire().await.unwrap();
                            tokio::task::yield_now().await;
                            drop(guard);
                        }
                    }
                })
                .await
                    / EACH as u32,
            );
            let tokio_mutex = tokio_mutex.clone();
            theirs.push(
                crowd(TASKS, move || {
                    let mutex = tokio_mutex.clone();
                    async move {
                        for _ in 0..EACH {
                            let guard = mutex.lock().await;
                            tokio::task::yield_now().await;
                            drop(guard);
                        }
                    }
                })
                .await
                    / EACH as u32,
            );
        }
        report(
            "memory, one hot key, 1,000 tasks, per grant  /  tokio::sync::Mutex",
            median(ours),
            median(theirs),
            "at most 5",
        );
    });
}

fn file_uncontended() {
    const OPS: u32 = 500;
    let dir = tempfile::tempdir().unwrap();
    let bare_file = dir.path().join("bare");
    runtime().block_on(async {
        let mutex = file_client(dir.path()).await.mutex("k").unwrap();
        let (mut ours, mut bare) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            bare.push(block(OPS, async || open_and_lock(&bare_file)).await);
            ours.push(cycle(OPS, &mutex).await);
        }
        report(
            "file, uncontended acquire + release  /  open + flock + unlock + close",
            median(ours),
            median(bare),
            "at most 5",
        );
    });
}

async fn cycle(ops: u32, mutex: &Mutex) -> Duration {
    block(ops, async || mutex.acquire().await.unwrap().release().await.unwrap()).await
}

fn open_and_lock(path: &Path) {
    let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).unwrap();
    file.lock().unwrap();
    file.unlock().unwrap();
}

/// A client of the file engine in a private directory below this one.
async fn file_client(dir: &Path) -> Client {
    tenure::connect(&format!("file:{}/engine", dir.display())).await.unwrap()
}

/// The time per task of so many tasks that start together.
async fn crowd<F: Future<Output = ()> + Send + 'static>(tasks: usize, work: impl Fn() -> F) -> Duration {
    let began = Instant::now();
    let all: Vec<_> = (0..tasks).map(|_| tokio::spawn(work())).collect();
    for task in all {
        task.await.unwrap();
    }
    began.elapsed() / tasks as u32
}
