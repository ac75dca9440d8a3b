//! Measures beside other lock libraries, with a harness that has them: what `BENCHMARKS.md` is made of.
//!
//! The harness is not part of this project: whoever has it says where. Its `run.py` starts the engines and the drivers of the
//! peers; ours joins by a file that it reads.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::step::{Call, Outcome, step};

/// The engines of the harness, and ours on each. Not the memory engine: it lives in one process, and the harness takes several.
const ENGINES: [(&str, &str, &str); 7] = [
    ("tenure", "redis", "redis"),
    ("tenure", "zk", "zk"),
    ("tenure", "etcd", "etcd"),
    ("tenure", "mysql", "mysql"),
    ("tenure", "postgres", "postgres"),
    ("tenure", "memcached", "memcached"),
    ("tenure-file", "local", "file"),
];
/// Where the plots are.
const PLOTS: &str = "docs/plots";
/// How long the growth of one engine is measured.
const GROWTH: &str = "60";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    harness: PathBuf,
    setup: bool,
    args: Vec<String>,
}

/// `peers --harness DIR [--setup] [-- ARGS]`
pub(crate) fn run(root: &Path, words: &[&str]) -> Outcome {
    let asked = parse(words)?;
    let runs = env::var_os("PEERS_RUN").map_or_else(|| env::temp_dir().join("peers-run"), PathBuf::from);
    fs::create_dir_all(&runs).map_err(|err| format!("{}: {err}", runs.display()))?;
    Call::new("cargo build --release --package tenure-bench --examples").step("driver", root)?;
    if asked.setup {
        step("peers", "cargo xtask peers --setup", || wait(command(&asked, &runs, "sh", &["setup.sh"])))?;
    }
    let extra = runs.join("extra.json");
    fs::write(&extra, joins(&driver(root, "peer"))).map_err(|err| format!("{}: {err}", extra.display()))?;
    let python = runs.join("venv/bin/python").display().to_string();
    let results = runs.join("results.jsonl").display().to_string();
    let mut args = vec!["run.py", "--out", &results];
    args.extend(asked.args.iter().map(String::as_str));
    step("measure", "cargo xtask peers", || wait(command(&asked, &runs, &python, &args)))?;
    wait(command(&asked, &runs, &python, &["table.py", &results]))?;
    let mut plots = Command::new(driver(root, "plots"));
    plots.args(["peers", &results, PLOTS]).current_dir(root);
    wait(plots)
}

/// Draws how costs grow: `plots [ENGINE]`
pub(crate) fn growth(root: &Path, only: &[&str]) -> Outcome {
    Call::new("cargo build --release --package tenure-bench --examples").step("build", root)?;
    let mut plots = Command::new(driver(root, "plots"));
    plots.args(["growth", GROWTH, PLOTS]).args(only).current_dir(root);
    step("growth", "cargo xtask plots", || wait(plots))
}

fn parse(words: &[&str]) -> Result<Asked, String> {
    let usage = || "usage: cargo xtask peers --harness DIR [--setup] [-- ARGS of run.py]".to_owned();
    let mut asked = Asked { harness: PathBuf::new(), setup: false, args: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--harness" => asked.harness = words.next().ok_or_else(usage)?.into(),
            "--setup" => asked.setup = true,
            "--" => asked.args = words.by_ref().map(|word| (*word).to_owned()).collect(),
            _ => return Err(usage()),
        }
    }
    if asked.harness.as_os_str().is_empty() { Err(usage()) } else { Ok(asked) }
}

/// What the harness reads to let us in.
fn joins(driver: &Path) -> String {
    let one = |(name, engine, ours): &(&str, &str, &str)| {
        format!(
            r#"{{"name":"{name}","engine":"{engine}","lang":"rs","renews":true,"argv":[{:?},"{ours}"]}}"#,
            driver.display().to_string()
        )
    };
    format!("[{}]\n", ENGINES.iter().map(one).collect::<Vec<_>>().join(",\n"))
}

fn driver(root: &Path, name: &str) -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    target.join("release/examples").join(name)
}

fn command(asked: &Asked, runs: &Path, program: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(args).current_dir(&asked.harness);
    command.env("PEERS_RUN", runs).env("PEERS_EXTRA", runs.join("extra.json"));
    for (name, usual) in [("PEERS_BIN", runs.join("bin")), ("NODE_DEPS", runs.join("node"))] {
        command.env(name, env::var_os(name).map_or(usual, PathBuf::from));
    }
    for (name, usual) in [("JAVA_LIB", "/usr/share/java"), ("GO_LIB", "/usr/share/gocode")] {
        command.env(name, env::var_os(name).unwrap_or_else(|| usual.into()));
    }
    command
}

fn wait(mut command: Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(status.to_string()),
        Err(err) => Err(format!("cannot start {:?}: {err}", command.get_program())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_strictly() {
        let asked = parse(&["--harness", "h", "--setup", "--", "--engines", "redis"]).unwrap();
        let args = vec!["--engines".to_owned(), "redis".to_owned()];
        assert_eq!(asked, Asked { harness: "h".into(), setup: true, args });
        assert!(parse(&[]).is_err() && parse(&["--harness"]).is_err() && parse(&["h"]).is_err());
    }

    #[test]
    fn ours_joins_on_every_engine() {
        let joins = joins(Path::new("/d/peer"));
        assert_eq!(joins.matches(r#""argv":["/d/peer","#).count(), ENGINES.len());
    }
}
