//! What it costs to start a job under a lock: `tenure run k -- true` beside `flock f true`, in one run.
//!
//! The two are started in turn, so that whatever else the machine does slows both. Printed are the medians and
//! their ratio; at most 3 is the aim. `cargo bench -p tenure-cli --bench startup`.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and ends when it cannot go on"
)]

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Enough for a steady median, few enough for a few seconds.
const ROUNDS: usize = 300;
const WARM_UP: usize = 20;
/// Ends the benchmark on a machine that is far too slow for it.
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    let dir = tempfile::tempdir().unwrap();
    let flock = || {
        let mut command = Command::new("flock");
        command.arg(dir.path().join("f")).arg("true");
        time(&mut command)
    };
    let tenure = || time(&mut tenure(dir.path()));
    let began = Instant::now();
    let (mut flocks, mut tenures) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        let pair = (flock(), tenure());
        if round >= WARM_UP {
            flocks.push(pair.0);
            tenures.push(pair.1);
        }
        if began.elapsed() > LIMIT && !flocks.is_empty() {
            break;
        }
    }
    let (flock, tenure) = (median(&mut flocks), median(&mut tenures));
    let ratio = tenure.as_secs_f64() / flock.as_secs_f64();
    println!("flock f true           {flock:>10.1?}");
    println!("tenure run k -- true   {tenure:>10.1?}");
    println!("ratio                  {ratio:>10.2}   (medians of {}, the aim is at most 3)", flocks.len());
}

fn tenure(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["run", "--on"]).arg(format!("file:{}", dir.join("locks").display()));
    command.args(["k", "--", "true"]);
    command
}

fn time(command: &mut Command) -> Duration {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let began = Instant::now();
    let status = command.status().unwrap();
    let took = began.elapsed();
    assert!(status.success(), "{command:?}: {status}");
    took
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
