//! A process that is watched while it runs: every wait has a limit, and nothing outlives the test.

use std::{
    io::Write,
    os::{fd::OwnedFd, unix::process::ExitStatusExt},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fs::{CWD, FileType, Mode, OFlags, mknodat, open},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

/// How long a test waits for anything. Only a failing test waits so long.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A process with both its outputs. Killed by its id when the test is over.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    pidfd: OwnedFd,
    status: Option<ExitStatus>,
    stdin: Option<ChildStdin>,
    out: Stream,
    err: Stream,
}

/// What a process wrote, and how much of it a test has read.
#[derive(Debug, Default)]
struct Stream {
    /// `None` once every process that could write has closed it.
    fd: Option<OwnedFd>,
    bytes: Vec<u8>,
    read: usize,
}

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        let out = Stream { fd: child.stdout.take().map(Into::into), ..Stream::default() };
        let err = Stream { fd: child.stderr.take().map(Into::into), ..Stream::default() };
        Self { stdin: child.stdin.take(), child, pidfd, status: None, out, err }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Writes to the standard input.
    pub(crate) fn say(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Ends the standard input.
    pub(crate) fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// The next line of the standard output.
    pub(crate) fn line(&mut self) -> String {
        self.pump("a line on stdout", |me| me.out.unread().contains(&b'\n'));
        let unread = self.out.unread();
        let end = unread.iter().position(|&b| b == b'\n').unwrap();
        let line = String::from_utf8(unread[..end].to_vec()).unwrap();
        self.out.read += end + 1;
        line
    }

    /// Waits until the standard error says this.
    pub(crate) fn complains(&mut self, text: &str) {
        self.pump(&format!("`{text}` on stderr"), |me| me.err.text().contains(text));
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.status = self.status.or_else(|| self.child.try_wait().unwrap());
        self.status.is_none()
    }

    /// Asserts that the process goes on for so long. For what only the passing of time can show.
    #[track_caller]
    pub(crate) fn outlives(&mut self, time: Duration) {
        let ended = wait(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], time);
        assert!(!ended, "{:?} {:?}", self.child.wait(), self.err.text());
    }

    /// Waits for the process itself to end.
    pub(crate) fn exit(&mut self) -> ExitStatus {
        self.pump("the end of the process", |me| me.status.is_some());
        self.status.unwrap()
    }

    /// Waits until no process has the standard output open any more: neither this one, nor what it started, nor
    /// what that started.
    pub(crate) fn all_gone(&mut self) {
        self.pump("the end of every process that could write to stdout", |me| me.out.fd.is_none());
    }

    /// Waits for the end of the process and of all that it started.
    pub(crate) fn end(mut self) -> Done {
        self.hang_up();
        let status = self.exit();
        self.pump("the end of both outputs", |me| me.out.fd.is_none() && me.err.fd.is_none());
        Done { status, out: self.out.text(), err: self.err.text() }
    }

    /// Reads what there is until it is enough.
    fn pump(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        let limit = Instant::now() + LIMIT;
        while !enough(self) {
            let left = limit.saturating_duration_since(Instant::now());
            assert!(
                !left.is_zero(),
                "waited {LIMIT:?} for {what}; {:?}, stdout {:?}, stderr {:?}",
                self.status,
                self.out.text(),
                self.err.text(),
            );
            let mut fds = Vec::with_capacity(3);
            fds.extend(self.out.fd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            fds.extend(self.err.fd.iter().map(|fd| PollFd::new(fd, PollFlags::IN)));
            if self.status.is_none() {
                fds.push(PollFd::new(&self.pidfd, PollFlags::IN));
            }
            assert!(
                !fds.is_empty(),
                "all is over without {what}: {:?} {:?}",
                self.out.text(),
                self.err.text()
            );
            wait(&mut fds, left);
            self.out.take();
            self.err.take();
            self.is_running();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.is_running() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Stream {
    fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// Takes what can be read now.
    fn take(&mut self) {
        while let Some(fd) = &self.fd {
            if !wait(&mut [PollFd::new(fd, PollFlags::IN)], Duration::ZERO) {
                return;
            }
            let mut part = [0; 4096];
            match rustix::io::read(fd, &mut part) {
                // A terminal says EIO when its last process has gone.
                Ok(0) | Err(rustix::io::Errno::IO) => self.fd = None,
                Ok(n) => self.bytes.extend_from_slice(&part[..n]),
                Err(err) => panic!("{err}"),
            }
        }
    }
}

/// The reading end of a pipe with a name, for jobs to hold open: it ends when the last of them has gone, whoever
/// else lives on.
#[derive(Debug)]
pub(crate) struct Lifeline(OwnedFd);

impl Lifeline {
    pub(crate) fn new(path: &Path) -> Self {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Self(open(path, flags, Mode::empty()).unwrap())
    }

    /// Whether somebody has opened it and all who did have gone.
    pub(crate) fn is_over(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        wait(&mut fds, Duration::ZERO);
        fds[0].revents().contains(PollFlags::HUP)
    }

    /// Waits for the end, at most so long.
    pub(crate) fn ends_within(&self, limit: Duration) -> bool {
        wait(&mut [PollFd::new(&self.0, PollFlags::empty())], limit)
    }
}

/// Waits for any of these, at most so long.
pub(crate) fn wait(fds: &mut [PollFd<'_>], at_most: Duration) -> bool {
    poll(fds, Some(&Timespec::try_from(at_most).unwrap())).unwrap() > 0
}

impl Done {
    /// Asserts the exit code, and gives itself back for more.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        self
    }

    /// Asserts that the process died of this signal, as its parent sees it.
    #[track_caller]
    pub(crate) fn dies_of(self, signal: Signal) -> Self {
        assert_eq!(self.status.signal(), Some(signal.as_raw()), "{self:?}");
        self
    }

    /// What a shell has in `$?`.
    pub(crate) fn shell_code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap())
    }

    /// Asserts that the standard error says all of these.
    #[track_caller]
    pub(crate) fn complains(self, texts: &[&str]) -> Self {
        for text in texts {
            assert!(self.err.contains(text), "no `{text}` in {self:?}");
        }
        self
    }

    /// Asserts what the standard output is.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert_eq!(self.out, text, "{self:?}");
        self
    }
}
