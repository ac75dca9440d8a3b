//! The stub: a small process that leads the job's process group and outlives the supervisor by nothing.
//!
//! It is this program again, started with a hidden word. Its stdin is a pipe whose other end only the supervisor
//! has. When that end closes, however the supervisor died, the stub kills its own group, the job's children and
//! their children included. The supervisor also tells it how long the lock is safe; it kills the group then even
//! if the supervisor is stopped or starved. It starts with every signal blocked, so that what the terminal or the
//! supervisor send to the group is for the job alone.

use std::{
    io::{self, Write},
    os::fd::{AsFd, OwnedFd},
    process::ExitCode,
    time::Duration,
};

use nix::sys::signal::{SigSet, Signal};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{getpgrp, getpid},
    time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime},
};
use tenure::Moment;

use super::group::Group;
use crate::{exit, out};

/// The word that makes this program a stub. Not for people.
pub(crate) const WORD: &str = "__stub";

/// Watches over the group that it leads.
pub(crate) fn main() -> ExitCode {
    if SigSet::all().thread_block().is_err() || getpgrp() != getpid() {
        out::say(&format!("`{WORD}` is how `tenure run` starts itself; it is not for people"));
        return exit::USAGE.into();
    }
    // Whatever ends the watch ends the group, and with it this process.
    let watched = watch();
    Group(getpgrp()).send(Signal::SIGKILL);
    if watched.is_ok() { ExitCode::SUCCESS } else { exit::INTERNAL.into() }
}

/// Returns when the group must end.
fn watch() -> io::Result<()> {
    let mut alarm: Option<OwnedFd> = None;
    let mut bytes = vec![0; PIPE];
    loop {
        let stdin = io::stdin();
        let mut fds = vec![PollFd::new(&stdin, PollFlags::IN)];
        fds.extend(alarm.iter().map(|alarm| PollFd::new(alarm, PollFlags::IN)));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(err) => return Err(err.into()),
        }
        let ready = |nth: usize| fds.get(nth).is_some_and(|fd| !fd.revents().is_empty());
        let (told, late) = (ready(0), ready(1));
        if told {
            // The newest word counts: if this process was stopped, there may be many.
            let len = rustix::io::retry_on_intr(|| rustix::io::read(&stdin, &mut *bytes))?;
            let Some(until) = decode(&bytes[..len]) else { return Ok(()) };
            set(&mut alarm, until)?;
        } else if late {
            return Ok(());
        }
    }
}

/// Sets the alarm, on the clock that goes on while the machine is suspended.
fn set(alarm: &mut Option<OwnedFd>, until: Duration) -> io::Result<()> {
    let timer = match alarm {
        Some(timer) => timer,
        None => alarm.insert(timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC)?),
    };
    let it_value = Timespec {
        tv_sec: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
        // A time of nothing at all would switch the alarm off.
        tv_nsec: i64::from(until.subsec_nanos().max(1)),
    };
    let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
    timerfd_settime(timer.as_fd(), TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
    Ok(())
}

/// As much as a pipe holds, so that nothing is left behind a word that is read.
const PIPE: usize = 64 * 1024;
/// The length of one word of the supervisor: until when the lock is safe, in nanoseconds.
const LEN: usize = size_of::<u64>();

/// Tells a stub until when the lock is safe. A stub that is gone has no job left; one that does not listen keeps
/// to the earlier time.
pub(super) fn tell(mut pipe: impl Write, until: Moment) {
    let nanos = u64::try_from(until.get().as_nanos()).unwrap_or(u64::MAX);
    let _ = pipe.write_all(&nanos.to_le_bytes());
}

fn decode(bytes: &[u8]) -> Option<Duration> {
    let nanos = bytes.last_chunk::<LEN>().filter(|_| bytes.len().is_multiple_of(LEN))?;
    Some(Duration::from_nanos(u64::from_le_bytes(*nanos)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_word_counts() {
        let mut bytes = Vec::new();
        assert_eq!(decode(&bytes), None, "the supervisor is gone");
        for secs in [5, 3, 9] {
            tell(&mut bytes, Moment::new(Duration::from_secs(secs)));
        }
        assert_eq!(decode(&bytes), Some(Duration::from_secs(9)));
        assert_eq!(decode(&bytes[1..]), None, "half a word is none");
    }
}
