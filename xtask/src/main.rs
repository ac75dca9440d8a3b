//! The project's chores: `cargo xtask test`, `ci`, `tidy`, `docs`, `sim`, `verify`, `peers` and `plots`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to people")]

mod ci;
mod docs;
mod peers;
mod pool;
mod servers;
mod sim;
mod step;
mod suite;
mod tidy;
mod verify;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
};

const USAGE: &str = "usage: cargo xtask <chore>
  test            get what the tests need, then run all of them
  check           what needs no test: format, lints, tidy, docs, dependencies
  ci              everything a change must pass: `check`, the README's main job, then `test`
  tidy            check the architecture's invariants
  docs [--check]  write the generated parts of README.md and docs/, or say whether they are up to date
  sim [options]   run simulated schedules, 1,000,000 before a release; see docs/simulator.md
  verify          `tenure verify` on every engine, cheap faults: some minutes
  verify --release [30s]  before a release: all that follows, and docs/verify.md is written from it
  verify --matrix [30s] [etcd,file]  every engine, or these, under every fault, each for so long
  verify --bars [etcd,file]  10,000 updates, 200 pauses and 50 failovers on every engine of grade Fenced, or on these
  verify --wrong-ways     the wrong ways, each of which must be refuted
  peers --harness DIR [--setup] [-- ARGS]
                  measure beside the peers: builds the driver, runs DIR/run.py with these arguments, prints the tables
                  and draws the plots; --setup builds the peers first
  plots [redis]   draw how costs grow, for BENCHMARKS.md, on memory, files and Redis, or on these";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match args[..] {
        ["test"] => ci::test(&root),
        ["check"] => ci::check(&root),
        ["ci"] => ci::all(&root),
        ["verify"] | ["verify", "--smoke"] => verify::smoke(&root),
        ["verify", ref asked @ ..] => verify::release(&root, asked),
        ["tidy"] => tidy::run(&root),
        ["docs"] => docs::write(&root),
        ["docs", "--check"] => docs::check(&root),
        ["sim", ref options @ ..] => sim::run(&root, options),
        ["peers", ref rest @ ..] => peers::run(&root, rest),
        ["plots", ref only @ ..] => peers::growth(&root, only),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the workspace: where cargo says this crate is, or else where we stand.
fn root() -> PathBuf {
    let here = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    here.as_deref().and_then(Path::parent).map_or_else(|| PathBuf::from("."), Path::to_path_buf)
}
