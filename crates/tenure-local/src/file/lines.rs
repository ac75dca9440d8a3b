//! The line files: found, kept open, locked.

use std::{
    collections::HashMap,
    io,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{Error, Key, Op, Result};

use super::{
    dir::{self, Dir},
    line::{Head, Line},
    trouble::{damaged, trouble},
    wait::{self, Lockable, Locked, NotLocked},
};

/// How many line files are kept open.
const OPEN: usize = 256;
/// The longest name of a line file.
pub(super) const NAME_BYTES: usize = 200;
/// How often a file that was swept meanwhile is opened again.
const REOPENS: usize = 100;

#[derive(Debug)]
pub(super) struct Lines {
    dir: Arc<Dir>,
    open: Mutex<HashMap<Key, Arc<Lockable<Line>>>>,
}

/// Whether a key that has no line file gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Leave,
}

impl Lines {
    pub(super) fn new(dir: Arc<Dir>) -> Self {
        Self { dir, open: Mutex::default() }
    }

    /// Locks the line of a key and reads it; `None` if it has none.
    ///
    /// A file that was made but not begun is given as it is if it may be created, with [`Head::Empty`].
    pub(super) async fn lock(
        &self,
        key: &Key,
        missing: Missing,
        limit: Duration,
        op: Op,
    ) -> Result<Option<Locked<Line>>> {
        for _ in 0..REOPENS {
            let Some(line) = self.get(key, missing, op)? else { return Ok(None) };
            let mut locked = match line.lock(limit).await {
                Ok(locked) => locked,
                Err(NotLocked::Kept) => {
                    let (shown, who) = (self.shown(key), wait::blame(&line.file));
                    let message =
                        format!("the line file {shown} could not be locked within {limit:?}: {who}");
                    return Err(Error::unavailable(op, message).not_applied());
                }
                Err(NotLocked::Failed(err)) => {
                    return Err(trouble(op, format!("cannot lock {}", self.shown(key)), err).not_applied());
                }
            };
            // Somebody may have removed the file by hand. This process must not go on in a line that no other
            // finds: neither draw a number there nor call a release there a success.
            let removed = locked.file.metadata().is_ok_and(|meta| meta.nlink() == 0);
            let (file, data) = (&*locked.file, &mut *locked.data);
            match if removed { Ok(Head::Retired) } else { data.read(file, key) } {
                Ok(Head::Live) => return Ok(Some(locked)),
                Ok(Head::Empty) if missing == Missing::Create => return Ok(Some(locked)),
                Ok(Head::Empty) => return Ok(None),
                Ok(Head::Retired) => {
                    // Whoever marked it was killed before it could remove it. Under its lock the name is ours
                    // to remove, and is still this file's if the file has one.
                    if locked.file.metadata().is_ok_and(|meta| meta.nlink() > 0) {
                        dir::remove(&self.dir.line, &key.to_path_element(NAME_BYTES)).map_err(|err| {
                            trouble(op, format!("cannot remove {}", self.shown(key)), err).not_applied()
                        })?;
                    }
                    drop(locked);
                    self.forget(key, &line);
                }
                Err(err) if err.kind() == io::ErrorKind::InvalidData => {
                    return Err(damaged(op, format_args!("the line file {}", self.shown(key)), err));
                }
                Err(err) => {
                    return Err(trouble(op, format!("cannot read {}", self.shown(key)), err).not_applied());
                }
            }
        }
        Err(Error::unavailable(op, format!("the line file {} is swept again and again", self.shown(key)))
            .not_applied())
    }

    /// What to call the file of a key in a message.
    pub(super) fn shown(&self, key: &Key) -> String {
        self.dir.path.join("line").join(key.to_path_element(NAME_BYTES)).display().to_string()
    }

    fn get(&self, key: &Key, missing: Missing, op: Op) -> Result<Option<Arc<Lockable<Line>>>> {
        if let Some(line) = self.map().get(key) {
            return Ok(Some(line.clone()));
        }
        let file = match dir::open_file(
            &self.dir.line,
            &key.to_path_element(NAME_BYTES),
            missing == Missing::Create,
        ) {
            Ok(file) => file,
            // With the directory itself gone nothing can be created in it any more.
            Err(err) if err.kind() == io::ErrorKind::NotFound && missing == Missing::Create => {
                return Err(super::control::removed(op, &self.dir.path.display().to_string()));
            }
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(err) => {
                return Err(trouble(op, format!("cannot open {}", self.shown(key)), err).not_applied());
            }
        };
        let line = Arc::new(Lockable::new(file, Line::default()));
        let mut map = self.map();
        if map.len() >= OPEN {
            // Only what nobody uses. More may be open while more are in use; `flock` keeps them apart anyway.
            let idle = map.iter().find(|(_, line)| Arc::strong_count(line) == 1).map(|(key, _)| key.clone());
            idle.and_then(|key| map.remove(&key));
        }
        Ok(Some(map.entry(key.clone()).or_insert(line).clone()))
    }

    fn forget(&self, key: &Key, line: &Arc<Lockable<Line>>) {
        let mut map = self.map();
        if map.get(key).is_some_and(|kept| Arc::ptr_eq(kept, line)) {
            map.remove(key);
        }
    }

    fn map(&self) -> MutexGuard<'_, HashMap<Key, Arc<Lockable<Line>>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
