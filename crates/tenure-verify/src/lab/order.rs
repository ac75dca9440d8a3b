//! What the owner of an engine orders to be done to it: a command of theirs, at the moments that matter.

use std::{
    io::{Read as _, Seek as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process_group};
use tenure_testkit::Failure;

use super::{Proof, strike::nap};

/// How long a command may take. One that takes longer is ended, with all that it started.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// How often it is looked after.
const LOOK: Duration = Duration::from_millis(5);
/// How much of what it complains of is told.
const WORDS: u64 = 300;

/// Runs a command of the shell, which does the harm and heals it. That it ended well is the proof that it hit.
pub(super) fn carry_out(command: &str, limit: Duration) -> Result<Proof, Failure> {
    let failed = |why: String| Failure::new(format!("`{command}` {why}"));
    let began = Instant::now();
    let mut said = tempfile::tempfile()?;
    let mut child = Command::new("sh")
        .args(["-c", command])
        // It may hold a password.
        .env_remove("TENURE_URL")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(said.try_clone()?)
        .process_group(0)
        .spawn()?;
    let status = loop {
        match child.try_wait()? {
            Some(status) => break status,
            None if began.elapsed() > limit => {
                end(&mut child);
                return Err(failed(format!("was ended after {limit:?}")));
            }
            None => nap(LOOK),
        }
    };
    if status.success() {
        return Ok(format!("`{command}` was done in {} ms", began.elapsed().as_millis()));
    }
    let mut words = Vec::new();
    said.rewind()?;
    said.take(WORDS).read_to_end(&mut words)?;
    Err(failed(format!("failed ({status}): {}", String::from_utf8_lossy(&words).trim())))
}

fn end(child: &mut Child) {
    if let Some(group) = Pid::from_raw(child.id().cast_signed()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_hits_if_it_ends_well_and_else_says_why_not() {
        assert!(carry_out("true", LIMIT).unwrap().starts_with("`true` was done in "));
        let why = carry_out("echo no such server >&2; exit 3", LIMIT).unwrap_err().to_string();
        assert!(why.contains("failed (exit status: 3): no such server"), "{why}");
    }

    #[test]
    fn a_command_that_hangs_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let command = format!("sleep 600 & echo $! > {}; wait", pid.display());
        let why = carry_out(&command, Duration::from_secs(1)).unwrap_err().to_string();
        assert!(why.contains("was ended after 1s"), "{why}");
        let pid: i32 = std::fs::read_to_string(pid).unwrap().trim().parse().unwrap();
        // One that was killed ends when it is next run, and whoever takes in orphans may not have looked then.
        let state = || std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let (began, is_gone) = (Instant::now(), |state: &str| state.is_empty() || state.contains(") Z "));
        while !is_gone(&state()) {
            assert!(began.elapsed() < LIMIT, "{}", state());
            nap(LOOK);
        }
    }
}
