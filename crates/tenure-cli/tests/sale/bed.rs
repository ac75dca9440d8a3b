//! One sale at a time, with a limit, and what it said.

use std::{
    io::Read,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, MutexGuard, PoisonError, mpsc},
    thread,
    time::Duration,
};

use serde_json::Value;

pub(crate) const TENURE: &str = env!("CARGO_BIN_EXE_tenure");
/// How long a sale may take. Only a failing one does.
const LIMIT: Duration = Duration::from_secs(240);

static MACHINE: Mutex<()> = Mutex::new(());

/// A sale that has ended.
#[derive(Debug)]
pub(crate) struct Sale {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The machine, for one test alone.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(TENURE);
    command.arg("sale").args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // An engine of the tester's own is not for sale.
    command.env("TENURE_URL", "redis://127.0.0.1:1");
    command
}

/// Runs a sale to its end.
pub(crate) fn sale(args: &[&str]) -> Sale {
    let _alone = alone();
    end(command(args).spawn().unwrap())
}

pub(crate) fn end(mut child: Child) -> Sale {
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (tell, told) = mpsc::channel();
    let words = tell.clone();
    thread::spawn(move || words.send((true, read(&mut out))));
    thread::spawn(move || tell.send((false, read(&mut err))));
    let mut said = [String::new(), String::new()];
    for _ in 0..2 {
        let Ok((is_out, text)) = told.recv_timeout(LIMIT) else {
            child.kill().unwrap();
            panic!("a sale took longer than {LIMIT:?}");
        };
        said[usize::from(!is_out)] = text;
    }
    let [out, err] = said;
    Sale { status: child.wait().unwrap(), out, err }
}

fn read(from: &mut impl Read) -> String {
    let mut text = String::new();
    from.read_to_string(&mut text).unwrap();
    text
}

impl Sale {
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{}\n{}", self.out, self.err);
        self
    }

    /// What `--json` said of each lane.
    pub(crate) fn lanes(&self) -> Vec<Value> {
        let last = self.out.lines().last().unwrap();
        let sale: Value = serde_json::from_str(last).unwrap();
        assert_eq!(sale["event"], "sale", "{last}");
        sale["sale"]["lanes"].as_array().unwrap().clone()
    }
}

/// Sold exactly what there was, to as many buyers, and nothing went wrong.
#[track_caller]
pub(crate) fn sold_out(lane: &Value, stock: u64) {
    let count = |name: &str| lane[name].as_u64().unwrap();
    assert_eq!(count("sold"), stock, "{lane}");
    for wrong in ["oversold", "double_orders", "lost_orders", "unsold", "torn_prices"] {
        assert_eq!(count(wrong), 0, "{wrong}: {lane}");
    }
    assert_eq!(lane["verdict"]["as"], "expected", "{lane}");
}
