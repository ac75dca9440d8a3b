//! Private server processes for tests: a directory, a log and ports of their own, gone with the test.
//!
//! Everything here blocks for as long as it says and no longer. Inside a runtime that has other work to do
//! meanwhile, call it in `spawn_blocking`.

mod port;
mod room;
mod spawn;
mod wait;
mod wall;

use std::{
    fs::OpenOptions,
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

pub use port::Port;
pub use room::Room;
pub use spawn::Launch;
pub use wait::wait_until;
pub use wall::WallClock;

use crate::{Failure, Result};

/// How long a server may take to stop, be it for good or by a pause.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// How much of a log goes into an error.
const LOG_TAIL: u64 = 2048;

/// A server process; killed and reaped when dropped, and by the kernel when the test process dies first.
#[derive(Debug)]
pub struct Server {
    launch: Launch,
    /// `None` while it is down.
    child: Mutex<Option<Child>>,
    /// Declared last: the directory is removed when nobody writes to it any more.
    room: Room,
}

impl Server {
    /// Starts the process in this directory. It need not be ready yet: see [`Server::wait_ready`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(launch: Launch, room: Room) -> Result<Self> {
        if let Some(user) = &launch.user {
            room.give_to(user)?;
        }
        let server = Self { launch, child: Mutex::new(None), room };
        server.start_again()?;
        Ok(server)
    }

    /// The directory of the server.
    pub fn dir(&self) -> &Path {
        self.room.path()
    }

    /// Whether the process runs. A paused one does.
    pub fn is_running(&self) -> bool {
        let mut child = self.child();
        child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// The number of the process, while it is not known to be gone.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child().as_ref().map(Child::id)
    }

    /// Waits until the server answers.
    ///
    /// # Errors
    /// If it ends or does not answer within the limit; the message has the end of its log.
    pub fn wait_ready(&self, limit: Duration, mut answers: impl FnMut() -> Result) -> Result {
        let program = &self.launch.program;
        let mut ended = false;
        let outcome = wait_until(&format!("`{program}` answers"), limit, || {
            let answer = answers();
            // Asked after the answer: another server on the same port must not answer for one that has ended.
            ended = !self.is_running();
            if ended { Ok(()) } else { answer }
        });
        match outcome {
            Ok(()) if ended => Err(self.failed(&format!("`{program}` ended before it answered"))),
            Ok(()) => Ok(()),
            Err(failure) => Err(self.failed(&failure.to_string())),
        }
    }

    /// Kills the process without warning and waits until it is gone. One that is down stays so.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn kill(&self) -> Result {
        let mut slot = self.child();
        if let Some(child) = slot.as_mut() {
            child.kill()?;
            child.wait()?;
            if self.launch.clock.is_some() {
                WallClock::sweep(child.id());
            }
            *slot = None;
        }
        Ok(())
    }

    /// Asks the process to end, as an operator would, and waits until it has.
    ///
    /// # Errors
    /// If it is down or does not end in time; it is killed then.
    pub fn terminate(&self) -> Result {
        self.signal(self.launch.stop)?;
        let ended = wait_until("the server ends when asked to", STOP_LIMIT, || {
            if self.is_running() { Err(Failure::of_the_trial("it still runs")) } else { Ok(()) }
        });
        self.kill()?;
        ended.map_err(|failure| self.failed(&failure.to_string()))
    }

    /// Stops the process where it is, as a frozen machine would, and waits until it has stopped.
    ///
    /// Its sockets stay open, and the kernel goes on accepting connections for it.
    ///
    /// # Errors
    /// If it is down.
    pub fn pause(&self) -> Result {
        let pid = self.signal(Signal::STOP)?;
        wait_until("the server is stopped", STOP_LIMIT, || {
            match waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG) {
                Ok(Some(_)) => Ok(()),
                Ok(None) => Err(Failure::of_the_trial("it still runs")),
                Err(error) => Err(io::Error::from(error).into()),
            }
        })
    }

    /// Lets a paused process go on.
    ///
    /// # Errors
    /// If it is down.
    pub fn resume(&self) -> Result {
        self.signal(Signal::CONT).map(drop)
    }

    /// Sets its wall clock ahead by so many milliseconds, or back if they are negative. Nobody else's moves.
    ///
    /// # Errors
    /// If it was not started with a clock of its own.
    pub fn step_clock(&self, millis: i64) -> Result {
        let clock = self.launch.clock.as_ref();
        clock.ok_or_else(|| Failure::new("it has the machine's clock"))?.step(millis)
    }

    /// Starts the process again with the same command line in the same directory; kills it first if it runs.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start_again(&self) -> Result {
        self.kill()?;
        let log = OpenOptions::new().create(true).append(true).open(self.log())?;
        let mut command = self.launch.command();
        command.current_dir(self.dir()).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let child = spawn::spawn(command).map_err(|error| {
            Failure::of_the_trial(format!("cannot start `{}`: {error}", self.launch.program))
        })?;
        *self.child() = Some(child);
        Ok(())
    }

    /// The last part of what the process wrote to its standard output and error.
    pub fn log_tail(&self) -> String {
        let read = || {
            let mut file = OpenOptions::new().read(true).open(self.log())?;
            let start = file.metadata()?.len().saturating_sub(LOG_TAIL);
            file.seek(SeekFrom::Start(start))?;
            let mut tail = Vec::new();
            file.take(LOG_TAIL).read_to_end(&mut tail)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&tail).into_owned())
        };
        read().unwrap_or_else(|error| format!("no log: {error}"))
    }

    /// A failure with the end of the log.
    pub(crate) fn failed(&self, what: &str) -> Failure {
        Failure::of_the_trial(format!("{what}; the end of its log:\n{}", self.log_tail()))
    }

    fn log(&self) -> PathBuf {
        self.dir().join("log")
    }

    /// Held for as long as the signal takes, so that the number cannot be another process's by then.
    fn signal(&self, signal: Signal) -> Result<Pid> {
        let child = self.child();
        let pid = child.as_ref().and_then(|child| Pid::from_raw(child.id().cast_signed()));
        let pid =
            pid.ok_or_else(|| Failure::of_the_trial(format!("`{}` is not running", self.launch.program)))?;
        kill_process(pid, signal).map_err(io::Error::from)?;
        Ok(pid)
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell; the kernel kills what is left when the test ends.
        let _ = self.kill();
    }
}

/// What a test does to a server that is one process, for the `impl` of a type with a field `server` and a method
/// `wait_ready`.
macro_rules! operated {
    () => {
        /// The process, for its directory and log.
        #[must_use]
        pub const fn process(&self) -> &$crate::process::Server {
            &self.server
        }

        /// Kills it without warning, and with it all connections; nothing answers until it is started again.
        ///
        /// # Errors
        /// If the signal cannot be sent.
        pub fn kill(&self) -> $crate::Result {
            self.server.kill()
        }

        /// Ends it as an operator would.
        ///
        /// # Errors
        /// If it is down or does not end in time.
        pub fn terminate(&self) -> $crate::Result {
            self.server.terminate()
        }

        /// Starts it again on the same port and data, killing it first if it runs, and waits until it answers.
        ///
        /// # Errors
        /// If it does not.
        pub fn restart(&self) -> $crate::Result {
            self.server.start_again()?;
            self.wait_ready()
        }

        /// Freezes it: it accepts connections and answers nothing.
        ///
        /// # Errors
        /// If it is down.
        pub fn pause(&self) -> $crate::Result {
            self.server.pause()
        }

        /// Lets it go on after a pause.
        ///
        /// # Errors
        /// If it is down.
        pub fn resume(&self) -> $crate::Result {
            self.server.resume()
        }
    };
}
pub(crate) use operated;
