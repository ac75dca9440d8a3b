//! A wall clock of a server's own, which a test can set: libfaketime stands between the server and its clock.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Failure, Result, programs};

/// The name of the library, of which the package has two: this one is for programs with threads.
const LIBRARY: &str = "libfaketimeMT.so.1";

/// Where the settings of a clock are, which its server reads whenever it asks for the time.
#[derive(Clone, Debug)]
pub struct WallClock {
    library: PathBuf,
    file: PathBuf,
}

impl WallClock {
    /// Finds the library.
    ///
    /// # Errors
    /// What to install, if it is not there.
    pub fn installed() -> Result<PathBuf, String> {
        let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
        let others = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
        let mut files = multiarch.chain(others).map(|dir| dir.join("faketime").join(LIBRARY));
        files.find(|file| file.is_file()).ok_or_else(|| programs::missing("libfaketime", "libfaketime"))
    }

    /// A clock for the server in this directory, which shows the true time at first.
    ///
    /// # Errors
    /// If the library is not installed.
    pub(crate) fn new(dir: &Path) -> Result<Self> {
        let library = Self::installed().map_err(Failure::new)?;
        let clock = Self { library, file: dir.join("wall-clock") };
        clock.set(0)?;
        Ok(clock)
    }

    /// What makes a program use it, for `env`.
    pub(super) fn env(&self) -> [String; 5] {
        [
            // The C library is named too, so that its memory is used and not that of jemalloc, which asks for the time
            // while the shim asks it for memory.
            format!("LD_PRELOAD={} libc.so.6", self.library.display()),
            format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display()),
            "FAKETIME_NO_CACHE=1".into(),
            // A machine's uptime is nothing that people set.
            "FAKETIME_DONT_FAKE_MONOTONIC=1".into(),
            "NO_FAKE_STAT=1".into(),
        ]
    }

    /// Sets it ahead by so many milliseconds, or back if they are negative, from where it is.
    pub(super) fn step(&self, millis: i64) -> Result {
        let now = fs::read_to_string(&self.file)?;
        let now: f64 =
            now.trim().parse().map_err(|_| Failure::of_the_trial("the clock's file is damaged"))?;
        self.set((now * 1000.0) as i64 + millis)
    }

    fn set(&self, millis: i64) -> Result {
        // In one step: the server may read it at any moment.
        let fresh = self.file.with_extension("new");
        fs::write(&fresh, format!("{:+.3}\n", millis as f64 / 1000.0))?;
        Ok(fs::rename(fresh, &self.file)?)
    }

    /// Removes what the library leaves in shared memory when its process is killed.
    pub(super) fn sweep(pid: u32) {
        for name in [format!("faketime_shm_{pid}"), format!("sem.faketime_sem_{pid}")] {
            // A process that ended by itself has removed it.
            let _ = fs::remove_file(Path::new("/dev/shm").join(name));
        }
    }
}
