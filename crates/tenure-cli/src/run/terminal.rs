//! The terminal: handed to the job, taken back when it stops or ends.

use std::{
    io::{self, IsTerminal, Stdin},
    os::fd::AsFd,
};

use rustix::{
    fs::{FileType, fstat},
    process::{Pid, getpgrp, getpid},
    termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp},
};

use super::group::Group;

/// Our stdin, if it is a terminal.
#[derive(Debug)]
pub(super) struct Terminal {
    tty: Option<Stdin>,
    /// Whether the job should have the terminal whenever we do.
    wanted: bool,
    given: Option<Given>,
}

#[derive(Debug)]
struct Given {
    to: Pid,
    before: Option<Termios>,
}

impl Terminal {
    /// Finds the terminal. The job gets it at once if an interactive shell started us for itself alone: in a
    /// pipeline or a script the others of our group need it too, so the job gets it only when it asks.
    pub(super) fn find() -> Self {
        let tty = Some(io::stdin()).filter(Stdin::is_terminal);
        let leads = getpgrp() == getpid();
        let piped = fstat(io::stdout().as_fd())
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        Self { wanted: tty.is_some() && leads && !piped, tty, given: None }
    }

    /// Whether the job has it.
    pub(super) fn is_given(&self) -> bool {
        self.given.is_some()
    }

    /// From now on the job should have it: it tried to use it.
    pub(super) fn want(&mut self) {
        self.wanted = self.tty.is_some();
    }

    /// Whether the terminal listens to our group.
    pub(super) fn is_ours(&self) -> bool {
        self.tty.as_ref().is_some_and(|tty| tcgetpgrp(tty).is_ok_and(|group| group == getpgrp()))
    }

    /// Hands it to the job, if it is ours to give and the job should have it.
    pub(super) fn give(&mut self, group: Group) {
        if let Some(tty) = self.tty.as_ref().filter(|_| self.wanted && self.given.is_none())
            && self.is_ours()
        {
            let before = tcgetattr(tty).ok();
            if tcsetpgrp(tty, group.0).is_ok() {
                self.given = Some(Given { to: group.0, before });
            }
        }
    }

    /// Takes it back, unless somebody else has it by now.
    pub(super) fn take(&mut self, mood: Mood) {
        let (Some(tty), Some(given)) = (&self.tty, self.given.take()) else { return };
        if tcgetpgrp(tty).is_ok_and(|group| group != given.to) {
            return;
        }
        let _ = tcsetpgrp(tty, getpgrp());
        if let (Mood::Restore, Some(before)) = (mood, &given.before) {
            let _ = tcsetattr(tty, OptionalActions::Now, before);
        }
    }
}

/// What to do with the terminal's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mood {
    /// The job left them as it wished.
    Keep,
    /// The job was killed and could not clean up after itself.
    Restore,
}
