//! A short bench, and what it said.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");

/// Small enough for a test: two processes with two tasks each, a hundred locks.
pub(crate) const SMALL: [&str; 6] = ["--processes", "2", "--tasks", "2", "--locks", "100"];

pub(crate) fn bench(args: &[&str]) -> Output {
    let mut command = Command::new(TENURE);
    command.arg("bench").args(args).stdin(Stdio::null());
    // An engine of the tester's own is not measured unless it is named.
    command.env("TENURE_URL", "redis://127.0.0.1:1");
    command.output().unwrap()
}

/// What `--json` said of a bench that went well.
pub(crate) fn figures(args: &[&str]) -> Value {
    let all = [&["--json"], &SMALL[..], args].concat();
    let output = bench(&all);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn number(figures: &Value, path: &str) -> f64 {
    figures.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path} in {figures}"))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
