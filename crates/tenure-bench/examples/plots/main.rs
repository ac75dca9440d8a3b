//! Draws the plots of BENCHMARKS.md: `plots peers RESULTS DIR` from what the harness wrote, `plots growth SECONDS DIR [ENGINE]`
//! from measurements of its own on memory, files and a private Redis, or one of them. `cargo xtask peers` and `cargo xtask plots`
//! call it.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::unwrap_used,
    reason = "a chore talks to people and stops when it cannot go on"
)]

mod peers;

use std::{fs, path::Path, process::ExitCode, time::Duration};

use tenure_bench::{Options, PART_WORD, Watch, grow, part_main};
use tenure_testkit::redis::Redis;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        [word] if word == PART_WORD => return part_main(),
        ["peers", results, dir] => peers::draw(Path::new(results), Path::new(dir)),
        ["growth", seconds, dir, ref only @ ..] => {
            growth(Duration::from_secs(seconds.parse().unwrap()), Path::new(dir), only);
        }
        _ => {
            eprintln!("usage: plots peers RESULTS DIR | plots growth SECONDS DIR [ENGINE]");
            return ExitCode::from(64);
        }
    }
    ExitCode::SUCCESS
}

/// Each engine has so long. If any are named, only those.
fn growth(time: Duration, dir: &Path, only: &[&str]) {
    let redis = Redis::start(Default::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engines = [
        ("memory", Some("memory:growth".to_owned()), None),
        ("file", None, None),
        ("redis", Some(redis.url()), redis.info("process_id").unwrap().parse().ok()),
    ];
    assert!(only.iter().all(|one| engines.iter().any(|(name, ..)| name == one)), "no such engine: {only:?}");
    let wanted = engines.into_iter().filter(|(name, ..)| only.is_empty() || only.contains(name));
    for (name, on, process) in wanted {
        let mut options = Options::new(std::env::current_exe().unwrap());
        options.engine_process = process;
        (options.on, options.time, options.tasks) = (on, time, 1);
        let growth = runtime.block_on(grow(&options, &mut Say(name))).unwrap();
        for (what, plot) in growth.plots() {
            fs::write(dir.join(format!("growth-{name}-{what}.svg")), plot.svg()).unwrap();
        }
        println!("{}", tenure_bench::growth_table(&growth));
    }
}

struct Say(&'static str);

impl Watch for Say {
    fn begins(&mut self, _what: &str, _number: usize, _of: usize) {}

    fn ends(&mut self, what: &str) {
        eprintln!("{}: {what}", self.0);
    }
}
