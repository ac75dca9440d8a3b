//! A worker: a process of its own that goes for the locks, on which faults strike.
//!
//! It says what it does *before* it does it, and what it was told right after, each in one write of its own: a kill loses
//! nothing of it.

mod desk;
mod orders;
mod pulse;
mod work;

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::Arc,
    thread,
    time::Duration,
};

use futures_util::future::join_all;
use tokio::{runtime::Builder, sync::mpsc, time::timeout};

pub(crate) use self::orders::Orders;
use self::work::Worker;
use crate::{
    history::WorkerId,
    locks::{Locks, Tenure},
    mutants,
    wire::{Says, Spec},
};

/// Runs this process as a worker: its orders come over stdin, its story goes to stdout.
#[must_use]
pub fn main() -> ExitCode {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(err) => return failed(&err),
    };
    let code = match runtime.block_on(run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => failed(&why),
    };
    // What is still on its way belongs to nobody.
    runtime.shutdown_background();
    code
}

fn failed(why: &dyn std::fmt::Display) -> ExitCode {
    say(&Says::Failed { why: why.to_string() });
    ExitCode::FAILURE
}

/// One line in one write.
pub(crate) fn say(says: &Says) {
    let line = serde_json::to_string(says).unwrap_or_default() + "\n";
    let mut out = io::stdout().lock();
    // An organiser that went away hears nothing more, and stdin ends us.
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

async fn run() -> Result<(), String> {
    let mut lines = stdin();
    let gone = || "the organiser has gone".to_owned();
    let spec: Spec = serde_json::from_str(&lines.recv().await.ok_or_else(gone)?)
        .map_err(|err| format!("the organiser's words: {err}"))?;
    let orders = Arc::new(Orders::default());
    let locks = open(&spec, &orders).await?;
    say(&Says::Ready);
    pulse::start();
    let listener = {
        let orders = orders.clone();
        async move {
            while let Some(line) = lines.recv().await {
                if let Ok(order) = serde_json::from_str(&line) {
                    orders.take(order);
                }
            }
        }
    };
    let work = async {
        orders.go.notified().await;
        let spec = &spec;
        let one = |&id: &WorkerId| {
            let seed = spec.seed ^ (u64::from(id) << 20);
            let (locks, orders) = (locks.as_ref(), orders.as_ref());
            let rng = fastrand::Rng::with_seed(seed);
            async move { Worker { id, spec, locks, orders, rng, desk: None, ops: 0, jumps: 0 }.work().await }
        };
        join_all(spec.workers.iter().map(one)).await;
        // A worker that has finished lets go; one that cannot reach its engine does not wait for it for ever.
        let _ = timeout(spec.ttl * 2 + Duration::from_secs(2), locks.close()).await;
    };
    tokio::select! {
        () = listener => {}
        () = work => {}
    }
    say(&Says::Done);
    Ok(())
}

async fn open(spec: &Spec, orders: &Arc<Orders>) -> Result<Arc<dyn Locks>, String> {
    if let Some(name) = &spec.mutant {
        return mutants::open(name, spec, orders.clone()).await;
    }
    let clock = spec.sleepy.then(|| orders.clock.clone());
    let locks = Tenure::connect(&spec.url, spec.ttl, clock).await.map_err(|err| err.to_string())?;
    Ok(Arc::new(locks))
}

/// The lines of stdin. When it ends, so does this process: nobody is left to tell.
fn stdin() -> mpsc::UnboundedReceiver<String> {
    let (lines, orders) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
        std::process::exit(1);
    });
    orders
}
