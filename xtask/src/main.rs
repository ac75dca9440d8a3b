//! The project's chores: `cargo xtask test`, `ci`, `tidy`, `docs`, `verify` and `sim`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to people")]

mod ci;
mod docs;
mod servers;
mod sim;
mod step;
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
  verify          `tenure verify` on every engine, cheap faults: some minutes
  verify --release [30s]  on every engine, under every fault, each for so long; writes docs/verify.md
  sim [options]   run simulated schedules, 1,000,000 before a release; see docs/simulator.md";

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let outcome = match args[..] {
        ["test"] => ci::test(&root),
        ["check"] => ci::check(&root),
        ["ci"] => ci::all(&root),
        ["verify"] | ["verify", "--smoke"] => verify::smoke(&root),
        ["verify", "--release"] => verify::release(&root, "30s"),
        ["verify", "--release", time] => verify::release(&root, time),
        ["tidy"] => tidy::run(&root),
        ["docs"] => docs::write(&root),
        ["docs", "--check"] => docs::check(&root),
        ["sim", ref options @ ..] => sim::run(&root, options),
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
