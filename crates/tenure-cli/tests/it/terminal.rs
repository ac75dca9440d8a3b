//! A shell at a terminal.

use std::{
    fs::OpenOptions,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    },
    process::{Child, Command},
    time::Instant,
};

use rustix::{
    event::{PollFd, PollFlags},
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::{
    bed::Bed,
    process::{LIMIT, wait},
};

/// An interactive bash that has a terminal of its own, with job control. Killed when the test is over, and the
/// kernel then hangs up on what runs in its foreground.
pub(crate) struct Terminal {
    master: OwnedFd,
    shell: Child,
    seen: Vec<u8>,
    read: usize,
}

impl Terminal {
    pub(crate) fn open(bed: &Bed) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits() as i32)
            .open(std::ffi::OsStr::from_bytes(name.as_bytes()))
            .unwrap();
        // A new session with this terminal; nothing in std can make one.
        let mut command = Command::new("setsid");
        command.args(["--ctty", "bash", "--norc", "--noprofile", "--noediting", "-i"]);
        bed.environment(&mut command);
        command.env("PS1", "$ ").env("TERM", "dumb").env("tenure", crate::bed::TENURE);
        command.current_dir(bed.path(""));
        command.stdin(slave.try_clone().unwrap()).stdout(slave.try_clone().unwrap()).stderr(slave);
        let shell = command.spawn().unwrap();
        let mut terminal = Self { master, shell, seen: Vec::new(), read: 0 };
        terminal.sees("$ ");
        terminal
    }

    /// Presses keys.
    pub(crate) fn types(&mut self, keys: &str) {
        let mut left = keys.as_bytes();
        while !left.is_empty() {
            let n = rustix::io::write(&self.master, left).unwrap();
            left = &left[n..];
        }
    }

    /// Types a command and waits for its echo, so that what is seen next is its own.
    pub(crate) fn enters(&mut self, command: &str) {
        self.types(command);
        self.sees(command);
        self.types("\n");
        self.sees("\n");
    }

    /// Waits until the screen shows this after what was already seen, and returns what came before it.
    #[track_caller]
    pub(crate) fn sees(&mut self, text: &str) -> String {
        let limit = Instant::now() + LIMIT;
        loop {
            let unread = &self.seen[self.read..];
            if let Some(at) = unread.windows(text.len()).position(|part| part == text.as_bytes()) {
                let before = String::from_utf8_lossy(&unread[..at]).into_owned();
                self.read += at + text.len();
                return before;
            }
            let left = limit.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "waited {LIMIT:?} for {text:?}; the screen shows {:?}", self.screen());
            if wait(&mut [PollFd::new(&self.master.as_fd(), PollFlags::IN)], left) {
                let mut part = [0; 4096];
                let n = rustix::io::read(&self.master, &mut part)
                    .unwrap_or_else(|err| panic!("{err}; no {text:?} in {:?}", self.screen()));
                self.seen.extend_from_slice(&part[..n]);
            }
        }
    }

    /// The exit code of the last command, as the shell has it.
    #[track_caller]
    pub(crate) fn last_code(&mut self) -> i32 {
        self.enters("echo \"<$?>\"");
        self.sees("<");
        let code = self.sees(">").parse().unwrap();
        self.sees("$ ");
        code
    }

    fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}
