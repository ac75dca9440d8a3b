use std::{
    env, fs,
    fs::File,
    io::Error,
    path::{Path, PathBuf},
    process::Command,
    sync::Once,
};

use crate::Result;

/// What the names of all rooms begin with.
const PREFIX: &str = "tenure-lab-";

/// A directory for one server, removed when dropped.
///
/// It is in memory where there is such a place, so that `fsync` costs nothing. A process that is killed, or that
/// keeps a server until its end, cannot remove it; so every room is locked by its process, and the first room that
/// a later process makes sweeps away those that nobody locks any more.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    _lock: File,
}

impl Room {
    /// Makes a room.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn new() -> Result<Self> {
        static SWEPT: Once = Once::new();
        let base = base();
        SWEPT.call_once(|| sweep(&base));
        Self::within(&base)
    }

    /// Makes a room where temporary files are, which is on a disk as a rule: to measure what `fsync` costs.
    ///
    /// # Errors
    /// If there is no place for it.
    pub fn on_disk() -> Result<Self> {
        static SWEPT: Once = Once::new();
        let base = env::temp_dir();
        SWEPT.call_once(|| sweep(&base));
        Self::within(&base)
    }

    fn within(base: &Path) -> Result<Self> {
        // A room has its lock before it has the name that a sweep looks for.
        let fresh = tempfile::Builder::new().prefix("tenure-new-").tempdir_in(base)?;
        let lock = File::open(fresh.path())?;
        lock.try_lock().map_err(Error::from)?;
        let name = fresh.path().file_name().unwrap_or_default().to_string_lossy();
        let path = base.join(name.replacen("tenure-new-", PREFIX, 1));
        fs::rename(fresh.path(), &path)?;
        let _ = fresh.keep();
        Ok(Self { path, _lock: lock })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it, with all that is in it, to a user whom a server must run as.
    ///
    /// # Errors
    /// If this process may not, or there is no such user.
    pub fn give_to(&self, user: &str) -> Result {
        let output = Command::new("chown").args(["-R", &format!("{user}:")]).arg(&self.path).output()?;
        if output.status.success() {
            return Ok(());
        }
        Err(Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()).into())
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // What cannot be removed now is swept by the next process.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn base() -> PathBuf {
    let shm = Path::new("/dev/shm");
    let writable = tempfile::tempfile_in(shm).is_ok();
    if writable { shm.to_owned() } else { env::temp_dir() }
}

fn sweep(base: &Path) {
    let entries = fs::read_dir(base).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // Another user's room cannot be opened, and one in use cannot be locked.
        let Ok(room) = File::open(entry.path()) else { continue };
        if room.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_leaves_rooms_in_use_and_takes_what_a_dead_process_left() {
        let live = Room::new().unwrap();
        fs::write(live.path().join("data"), "x").unwrap();
        let left = base().join(format!("{PREFIX}left-by-{}", std::process::id()));
        fs::create_dir(&left).unwrap();
        fs::write(left.join("data"), "x").unwrap();
        sweep(&base());
        assert!(live.path().join("data").exists());
        assert!(!left.exists());
        let path = live.path().to_owned();
        drop(live);
        assert!(!path.exists());
    }
}
