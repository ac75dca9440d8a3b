//! The job and its stub, as their parent sees them.

use std::{
    ffi::OsString,
    fs,
    io::{self, PipeWriter},
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use nix::sys::signal::{SigSet, SigmaskHow};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, set_child_subreaper, wait},
};
use tenure::Moment;

use super::{group::Group, report::End, signals, stub};
use crate::engine::URL_VARIABLE;

/// What to run, and what it finds in its environment.
#[derive(Debug)]
pub(super) struct Errand {
    pub(super) command: Vec<OsString>,
    pub(super) key: String,
    pub(super) fence: String,
    pub(super) engine: String,
}

/// A job in its process group, which the stub leads.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) group: Group,
    stub: Pid,
    stub_lives: bool,
    /// `None` until it was started.
    job: Option<Pid>,
    pipe: PipeWriter,
}

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// A signal stopped it.
    Stopped(i32),
    /// It goes on.
    Continued,
    /// It ended. Others of its group may live.
    Ended(End),
    /// The stub is gone, and nobody watches over the group any more.
    Unwatched,
}

impl Job {
    /// Starts the stub, in a process group of its own, with every signal blocked from its first moment.
    pub(super) fn prepare() -> io::Result<Self> {
        let (theirs, pipe) = io::pipe()?;
        // A stub that is stopped does not read, and must not stop us.
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        let spawn = |program: OsString| {
            Command::new(program)
                .arg0("tenure")
                .arg(stub::WORD)
                .env_remove(URL_VARIABLE)
                .stdin(Stdio::from(theirs.try_clone()?))
                .process_group(0)
                .spawn()
        };
        let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        // By its name, for those who look at a list of processes; but a binary that was replaced meanwhile, as by
        // an upgrade, is found only through its process.
        let own = std::env::current_exe().map(std::path::PathBuf::into_os_string);
        let stub = match own.and_then(spawn) {
            Err(err) if err.kind() == io::ErrorKind::NotFound => spawn("/proc/self/exe".into()),
            other => other,
        };
        before.thread_set_mask()?;
        let stub = pid(stub?.id())?;
        Ok(Self { group: Group(stub), stub, stub_lives: true, job: None, pipe })
    }

    /// Starts the job in the stub's group. A script that does not say what it is written in is read by the
    /// shell, as `execvp` does.
    pub(super) fn start(&mut self, errand: &Errand) -> io::Result<()> {
        // Children whose parents have ended become ours, so that we know when the last is gone.
        set_child_subreaper(Some(getpid()))?;
        let spawn = |mut command: Command| {
            signals::mind_terminal(true);
            let child = command
                .env("TENURE_KEY", &errand.key)
                .env("TENURE_FENCE", &errand.fence)
                .env("TENURE_ENGINE", &errand.engine)
                .env_remove(URL_VARIABLE)
                .process_group(self.stub.as_raw_nonzero().get())
                .spawn();
            signals::mind_terminal(false);
            child
        };
        let (program, args) = errand.command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(args);
        let child = match spawn(command) {
            Err(err) if err.raw_os_error() == Some(Errno::NOEXEC.raw_os_error()) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(&errand.command);
                spawn(shell)
            }
            other => other,
        }?;
        self.job = Some(pid(child.id())?);
        Ok(())
    }

    /// Tells the stub how long the job may live.
    pub(super) fn until(&self, deadline: Moment) {
        stub::tell(&self.pipe, deadline);
    }

    /// Buries one of the dead and says what became of the job; `None` if there is no news.
    pub(super) fn news(&mut self) -> Option<News> {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
                Ok(Some((pid, status))) => {
                    let news = self.tell(pid, status);
                    if news.is_some() {
                        return news;
                    }
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return None,
            }
        }
    }

    fn tell(&mut self, pid: Pid, status: WaitStatus) -> Option<News> {
        let ended = status.exited() || status.signaled();
        if pid == self.stub && ended {
            self.stub_lives = false;
            return Some(News::Unwatched);
        }
        if Some(pid) != self.job {
            return None;
        }
        let code = status.exit_status().map(|code| End::Exited(u8::try_from(code & 0xff).unwrap_or(u8::MAX)));
        let end = code.or(status.terminating_signal().map(End::Killed)).map(News::Ended);
        if end.is_some() {
            self.job = None;
        }
        end.or(status.stopping_signal().map(News::Stopped)).or(status.continued().then_some(News::Continued))
    }

    /// Whether nobody but the stub is left in the group.
    pub(super) fn is_alone(&self) -> bool {
        let stub = self.stub_lives.then_some(self.stub);
        // Nearly always we have no other child at all, hence no descendant, and need not look at every process.
        let only = stub.map_or(0, |stub| stub.as_raw_nonzero().get());
        if self.job.is_none()
            && children().is_some_and(|children| children.iter().all(|&child| child == only))
        {
            return true;
        }
        self.group.members(stub).is_ok_and(|members| members.is_empty())
    }

    /// Ends the stub, whose group is empty, and buries it.
    pub(super) fn end(mut self) {
        if self.stub_lives {
            let _ = kill_process(self.stub, Signal::KILL);
            while self.stub_lives {
                match wait(WaitOptions::empty()) {
                    Ok(Some((pid, status))) => drop(self.tell(pid, status)),
                    Err(Errno::INTR) => {}
                    Ok(None) | Err(_) => return,
                }
            }
        }
    }
}

fn pid(id: u32) -> io::Result<Pid> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process without a number"))
}

/// The children of this process, if the kernel tells.
fn children() -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for task in fs::read_dir("/proc/self/task").ok()? {
        match fs::read_to_string(task.ok()?.path().join("children")) {
            Ok(text) => {
                children.extend(text.split_ascii_whitespace().map_while(|pid| pid.parse::<i32>().ok()))
            }
            // A thread that ended has left its children to another, which may have been read already.
            Err(_) => return None,
        }
    }
    Some(children)
}
