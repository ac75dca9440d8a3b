//! The signals that are for this process to act on, as they come.
//!
//! They have handlers and are not blocked: handlers end with `exec`, so that the job starts with what it should
//! have, and no moment has to be found to unblock anything.

use std::{fs, future::poll_fn, io, task::Poll};

use nix::sys::signal::{SigSet, Signal, raise};
use tokio::signal::unix::{self, SignalKind};

const HEARD: [Signal; 10] = [
    Signal::SIGCHLD,
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGWINCH,
    Signal::SIGTSTP,
    Signal::SIGCONT,
];

/// Signals as they come.
#[derive(Debug)]
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Starts to listen. What was ignored when `tenure` was started, as by `nohup`, stays ignored here and in
    /// the job.
    pub(super) fn listen() -> io::Result<Self> {
        let ignored = fs::read_to_string("/proc/self/status").map_or(0, |status| ignored(&status));
        let heard =
            HEARD.into_iter().filter(|&signal| ignored & bit(signal) == 0 || signal == Signal::SIGCHLD);
        let listen = |signal| Ok((signal, unix::signal(SignalKind::from_raw(signal as i32))?));
        Ok(Self(heard.map(listen).collect::<io::Result<_>>()?))
    }

    /// The next signal.
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub(super) async fn next(&mut self) -> Heard {
        poll_fn(|cx| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(cx).is_ready() {
                    return Poll::Ready(Heard(*signal));
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Lets this process give the terminal away and write to it from the background, until it is told otherwise.
pub(super) fn mind_terminal(mind: bool) {
    let set = SigSet::from(Signal::SIGTTOU);
    let _ = if mind { set.thread_unblock() } else { set.thread_block() };
}

/// Stops this process; returns when it goes on.
pub(super) fn stop_self() {
    let _ = raise(Signal::SIGSTOP);
}

/// The bits of the signals that are ignored, from the text of `/proc/self/status`.
fn ignored(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

fn bit(signal: Signal) -> u64 {
    1 << (signal as i32 - 1)
}

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard(pub(super) Signal);

impl Heard {
    pub(super) fn number(self) -> i32 {
        self.0 as i32
    }

    /// Whether it asks for an end. While nothing runs, so does `SIGQUIT`.
    pub(super) fn stops(self) -> bool {
        matches!(self.0, Signal::SIGINT | Signal::SIGTERM | Signal::SIGHUP | Signal::SIGQUIT)
    }

    pub(super) fn suspends(self) -> bool {
        self.0 == Signal::SIGTSTP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignored_is_found() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored(status) & bit(Signal::SIGHUP), bit(Signal::SIGHUP));
        assert_eq!(ignored(status) & bit(Signal::SIGINT), 0);
        assert_eq!(ignored("nothing"), 0);
    }
}
