//! `flock` without blocking the runtime.

use std::{
    fs::{File, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    sync::Arc,
    time::Duration,
};

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

/// A file that is changed only under its lock, between processes by `flock` and inside this one by a gate.
///
/// The gate is needed because `flock` belongs to the open file, which all tasks of the process share.
#[derive(Debug)]
pub(super) struct Lockable<T> {
    pub(super) file: Arc<File>,
    gate: Arc<Mutex<T>>,
}

/// The lock on a [`Lockable`], freed when dropped.
#[derive(Debug)]
pub(super) struct Locked<T> {
    pub(super) file: Arc<File>,
    pub(super) data: OwnedMutexGuard<T>,
}

/// Why there is no lock.
#[derive(Debug)]
pub(super) enum NotLocked {
    /// Somebody kept it all the time.
    Kept,
    /// The operating system refused.
    Failed(io::Error),
}

/// How often a lock that somebody has is tried again before a thread waits for it, and after how many times the
/// processor is given up in between. Nobody keeps it for longer than a few small reads and writes, unless the
/// processor was taken from them; and where many want it, giving it up may take a while itself, so: seldom.
const SPINS: usize = 24;
const BUSY_SPINS: usize = 16;

impl<T: Send + 'static> Lockable<T> {
    pub(super) fn new(file: File, data: T) -> Self {
        Self { file: Arc::new(file), gate: Arc::new(Mutex::new(data)) }
    }

    /// Takes the lock, waiting at most `limit`.
    ///
    /// Dropping the future gives the wait up: whoever waits gets the lock itself handed over, and changes
    /// nothing before it was. So a verb that was given up never takes effect later.
    pub(super) async fn lock(&self, limit: Duration) -> Result<Locked<T>, NotLocked> {
        if let Some(locked) = self.try_lock()? {
            return Ok(locked);
        }
        let wait = async {
            let data = self.gate.clone().lock_owned().await;
            match spin(&self.file) {
                Ok(true) => return Ok(Locked { file: self.file.clone(), data }),
                Ok(false) => {}
                Err(err) => return Err(NotLocked::Failed(err)),
            }
            let (tell, told) = oneshot::channel();
            let file = self.file.clone();
            // The thread owns the gate meanwhile, so there is one per file at most. It is detached and not from
            // the runtime's pool: a process that is stopped inside the lock must not hang our shutdown.
            let spawned = std::thread::Builder::new().name("tenure-flock".into()).spawn(move || {
                let locked = block(&file).map(|()| Locked { file, data });
                let _ = tell.send(locked); // nobody wants it any more: dropped, and so freed
            });
            spawned.map_err(NotLocked::Failed)?;
            match told.await {
                Ok(Ok(locked)) => Ok(locked),
                Ok(Err(err)) => Err(NotLocked::Failed(err)),
                Err(_) => Err(NotLocked::Failed(io::Error::other("the waiting thread died"))),
            }
        };
        tokio::time::timeout(limit, wait).await.unwrap_or(Err(NotLocked::Kept))
    }

    /// Takes the lock if nobody has it, or gives it back in a moment.
    pub(super) fn try_lock(&self) -> Result<Option<Locked<T>>, NotLocked> {
        let Ok(data) = self.gate.clone().try_lock_owned() else { return Ok(None) };
        match spin(&self.file) {
            Ok(true) => Ok(Some(Locked { file: self.file.clone(), data })),
            Ok(false) => Ok(None),
            Err(err) => Err(NotLocked::Failed(err)),
        }
    }
}

impl<T> Drop for Locked<T> {
    fn drop(&mut self) {
        // It cannot fail on an open file. If it did, closing the file or the end of the process would free it.
        let _ = self.file.unlock();
    }
}

/// Takes the file's lock, waiting as long as it takes. Never on a thread of the runtime.
pub(super) fn block(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

fn spin(file: &File) -> io::Result<bool> {
    for nth in 0..SPINS {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if nth < BUSY_SPINS => std::hint::spin_loop(),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Error(err)) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(err)) => return Err(err),
        }
    }
    Ok(false)
}

/// Says who keeps the file's lock and what to do about it, as far as the kernel tells.
pub(super) fn blame(file: &File) -> String {
    // The kernel hands the list out in pieces and leaves some out when locks come and go in between, so it is read a
    // few times before nobody is blamed.
    let keeper = file.metadata().ok().and_then(|file| {
        let look = |_| keeper(&std::fs::read_to_string("/proc/locks").ok()?, file.dev(), file.ino());
        (0..8).find_map(look)
    });
    match keeper {
        Some(pid) if is_stopped(pid) => {
            format!("pid {pid} keeps it locked and is stopped; `kill -CONT {pid}` or `kill -KILL {pid}`")
        }
        Some(pid) => format!("pid {pid} keeps it locked; is it stopped, or the disk stuck?"),
        None => "another process keeps it locked; is one stopped, or the disk stuck?".to_owned(),
    }
}

/// Finds the process that has the `flock` on a file in the text of `/proc/locks`.
fn keeper(locks: &str, dev: u64, ino: u64) -> Option<u32> {
    let dev = format!("{:02x}:{:02x}:", rustix::fs::major(dev), rustix::fs::minor(dev));
    let held = locks.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        // Those who wait have an arrow here.
        (words.next()? == "FLOCK").then_some(())?;
        let pid = words.nth(2)?.parse::<u32>().ok().filter(|&pid| pid > 0)?;
        let file = words.next()?;
        file.ends_with(&format!(":{ino}")).then(|| (file.starts_with(&dev), pid))
    });
    // Some file systems show another device here than to `stat`, so the number alone has to do then.
    held.max_by_key(|&(same_dev, _)| same_dev).map(|(_, pid)| pid)
}

fn is_stopped(pid: u32) -> bool {
    // The state follows the program's name, which stands in parentheses and may hold any.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['T', 't'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_keeper_is_found_and_those_who_wait_are_not_blamed() {
        let locks = "1: POSIX  ADVISORY  WRITE 700 fe:00:41 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 812 fe:00:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 813 fe:00:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 900 fd:01:43 0 EOF\n";
        let dev = rustix::fs::makedev(0xfe, 0);
        assert_eq!(keeper(locks, dev, 42), Some(812));
        assert_eq!(keeper(locks, dev, 41), None);
        assert_eq!(keeper(locks, dev, 43), Some(900));
        assert_eq!(keeper("garbage\n\n1:", dev, 2), None);
    }
}
