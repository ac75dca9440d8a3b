//! One run at a time, with a limit, and what it said.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
/// How long a run may take. Only a failing one does.
const LIMIT: Duration = Duration::from_secs(180);

static MACHINE: Mutex<()> = Mutex::new(());

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs `tenure verify` to its end, alone.
pub(crate) fn verify(args: &[&str]) -> Run {
    verify_until(args, "")
}

/// The same, and interrupts it when it says a line that starts so; never if that is empty.
pub(crate) fn verify_until(args: &[&str], line: &str) -> Run {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = Command::new(TENURE);
    command.arg("verify").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // An engine of the tester's own is not to be struck.
    command.env("TENURE_URL", "redis://127.0.0.1:1");
    let mut child = command.spawn().unwrap();
    let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (tell, told) = mpsc::channel();
    let words = tell.clone();
    let (pid, line) = (Pid::from_child(&child), line.to_owned());
    thread::spawn(move || {
        let mut text = String::new();
        let mut lines = BufReader::new(out);
        while lines.read_line(&mut text).unwrap() > 0 {
            let last = text.trim_end().lines().last().unwrap_or_default();
            if !line.is_empty() && last.starts_with(&line) {
                kill_process(pid, Signal::INT).unwrap();
            }
        }
        words.send((true, text))
    });
    thread::spawn(move || tell.send((false, read(&mut err))));
    let mut said = [String::new(), String::new()];
    for _ in 0..2 {
        let Ok((is_out, text)) = told.recv_timeout(LIMIT) else {
            child.kill().unwrap();
            panic!("a run took longer than {LIMIT:?}");
        };
        said[usize::from(!is_out)] = text;
    }
    let [out, err] = said;
    Run { status: child.wait().unwrap(), out, err }
}

fn read(from: &mut impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

impl Run {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// What `--json` said of the whole run.
    pub(crate) fn run(&self) -> Value {
        let last: Value = serde_json::from_str(self.out.lines().last().unwrap()).unwrap();
        assert_eq!(last["event"], "run", "{last}");
        last["run"].clone()
    }
}
