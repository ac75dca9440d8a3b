//! A directory of its own for every test, and the real binary run in it.

use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Done, LIMIT, Running};

/// The real binary.
pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
/// Who holds and waits in these tests.
pub(crate) const USER: &str = "tess";

/// A job that says that it runs and goes on until it is told something, or nobody can tell it any more.
pub(crate) const HOLD: &str = "echo up; read go; exit 0";

pub(crate) struct Bed {
    root: TempDir,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The engine that all processes of this test share.
    pub(crate) fn url(&self) -> String {
        format!("file:{}", self.path("locks").display())
    }

    /// The binary with an environment that has nothing of the tester's own.
    pub(crate) fn tenure(&self, args: &[&str]) -> Command {
        let mut command = Command::new(TENURE);
        command.args(args).current_dir(self.root.path());
        self.environment(&mut command);
        command
    }

    pub(crate) fn environment(&self, command: &mut Command) {
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", self.root.path()).env("USER", USER).env("TENURE_URL", self.url());
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::start(&mut self.tenure(args))
    }

    /// Runs the binary to its end, with nothing on its standard input.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        self.start(args).end()
    }

    /// Starts a job under the lock and waits until it runs.
    pub(crate) fn hold(&self, flags: &[&str], key: &str) -> Running {
        self.job(flags, key, HOLD)
    }

    /// Starts a shell script under the lock and waits for its first line, which must be `up`.
    pub(crate) fn job(&self, flags: &[&str], key: &str, script: &str) -> Running {
        let args = [&["run"], flags, &[key, "--", "sh", "-c", script]].concat();
        let mut job = self.start(&args);
        assert_eq!(job.line(), "up");
        job
    }

    /// Starts a job that must wait, and waits until it has the nth place behind the holders.
    pub(crate) fn queue(&self, nth: usize, flags: &[&str], key: &str, script: &str) -> Running {
        let args = [&["run"], flags, &[key, "--", "sh", "-c", script]].concat();
        let waiter = self.start(&args);
        self.until(&format!("{nth} waiters"), || self.waiters(key).len() == nth);
        waiter
    }

    /// Whether the lock can be had at once.
    pub(crate) fn is_free(&self, key: &str) -> bool {
        let done = self.run(&["run", "-n", key, "--", "true"]);
        match done.status.code() {
            Some(0) => true,
            Some(75) => false,
            _ => panic!("{done:?}"),
        }
    }

    /// What `inspect --json` says of a key.
    pub(crate) fn inspect(&self, key: &str) -> Value {
        let done = self.run(&["inspect", "--json", key]).exits(0);
        serde_json::from_str(&done.out).unwrap_or_else(|err| panic!("{err} in {done:?}"))
    }

    pub(crate) fn holders(&self, key: &str) -> Vec<Value> {
        list(&self.inspect(key), "holders")
    }

    pub(crate) fn waiters(&self, key: &str) -> Vec<Value> {
        list(&self.inspect(key), "waiters")
    }

    /// The fence of the only holder.
    pub(crate) fn fence(&self, key: &str) -> u64 {
        let holders = self.holders(key);
        assert_eq!(holders.len(), 1, "{holders:?}");
        fence(&holders[0])
    }

    /// Breaks the hold that there is now.
    pub(crate) fn break_it(&self, key: &str) -> Done {
        let fence = self.fence(key).to_string();
        self.run(&["break", key, "--yes", "--if-fence", &fence]).exits(0)
    }

    /// Asks again and again, within the limit. Each question starts a process, so this does not spin.
    pub(crate) fn until(&self, what: &str, mut true_now: impl FnMut() -> bool) {
        let limit = Instant::now() + LIMIT;
        while !true_now() {
            assert!(Instant::now() < limit, "waited {LIMIT:?} for {what}");
        }
    }
}

/// A fence is a text, since most readers of JSON round numbers of its size.
pub(crate) fn fence(of: &Value) -> u64 {
    of["fence"].as_str().and_then(|fence| fence.parse().ok()).unwrap_or_else(|| panic!("no fence in {of}"))
}

fn list(of: &Value, name: &str) -> Vec<Value> {
    of[name].as_array().unwrap_or_else(|| panic!("no list `{name}` in {of}")).clone()
}

/// Asserts that something took at least so long.
#[track_caller]
pub(crate) fn took(since: Instant, at_least: Duration) {
    assert!(since.elapsed() >= at_least, "{:?} is less than {at_least:?}", since.elapsed());
}
