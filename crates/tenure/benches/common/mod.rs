//! What the benchmarks share: a benchmark is a program that starts itself again where it needs other processes.

use std::{process::Command, time::Duration};

/// Which part a child process of a benchmark plays.
pub(crate) const PART: &str = "TENURE_BENCH_PART";

/// This program again, in a part.
pub(crate) fn child(part: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.env(PART, part);
    child
}

/// Runs all measurements, or those whose name contains an argument: `cargo bench -p tenure -- file`.
pub(crate) fn run_wanted(all: &[(&str, fn())]) {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!("{:<70} {:>9} {:>9} {:>7}", "", "tenure", "compared", "ratio");
    for (name, measure) in all {
        if wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str())) {
            measure();
        }
    }
}

/// A runtime as most programs have it.
pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

pub(crate) fn report(what: &str, ours: Duration, compared: Duration, bound: &str) {
    let ratio = ours.as_secs_f64() / compared.as_secs_f64();
    println!("{what:<70} {:>9} {:>9} {ratio:>7.2}  ({bound})", short(ours), short(compared));
}

fn short(time: Duration) -> String {
    match time.as_nanos() {
        n if n < 10_000 => format!("{n} ns"),
        n => format!("{:.1} µs", n as f64 / 1000.0),
    }
}

/// Memory that this process has in use, in bytes.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

/// Processor time that this process has used.
pub(crate) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
