//! A lock that nobody else wants, taken and given back, in turns with what the benchmark compares with.

use std::time::{Duration, Instant};

use tenure::Mutex;
use tokio::runtime::Builder;

use crate::{
    COMPARED,
    common::{median, report, runtime},
    open,
};

/// Rounds of so many locks each.
pub(crate) fn measure(url: &str, name: &'static str, rounds: usize, ops: u32, bound: &'static str) {
    everywhere(|place| {
        let url = url.to_owned();
        async move {
            let (client, yardstick) = open(&url).await;
            let mutex = client.mutex("k").unwrap();
            let (mut ours, mut compared) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let began = Instant::now();
                for _ in 0..ops {
                    yardstick.once().await;
                }
                compared.push(began.elapsed() / ops);
                ours.push(locks(ops, &mutex).await);
            }
            let what = format!("{name}, {place}: acquire + release  /  {COMPARED}");
            report(&what, median(ours), median(compared), bound);
        }
    });
}

/// Runs this in every place where a program may use locks: in a task of its own, as what a service does for a request;
/// in the task that a runtime of several threads was started with, which has a thread to itself, so that every answer
/// wakes two; on a runtime of one thread.
pub(crate) fn everywhere<F>(measure: impl Fn(&'static str) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let workers = runtime();
    workers.block_on(workers.spawn(measure("a task"))).unwrap();
    runtime().block_on(measure("the first task"));
    Builder::new_current_thread().enable_all().build().unwrap().block_on(measure("one thread"));
}

/// The time of one lock in a block of so many.
pub(crate) async fn locks(ops: u32, mutex: &Mutex) -> Duration {
    let began = Instant::now();
    for _ in 0..ops {
        mutex.acquire().await.unwrap().release().await.unwrap();
    }
    began.elapsed() / ops
}
