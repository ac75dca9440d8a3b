//! The line files: found, kept open, locked.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tenure_core::{Error, Key, Op, Result};

use super::{
    control::Control,
    dir::{self, Dir},
    former::Former,
    line::{self, Head, Line, invalid},
    presence,
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
    control: Arc<Control>,
    open: Mutex<HashMap<Key, Arc<Lockable<Line>>>>,
}

/// Whether a key that has no line file gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Create,
    Leave,
}

impl Lines {
    pub(super) fn new(dir: Arc<Dir>, control: Arc<Control>) -> Self {
        Self { dir, control, open: Mutex::default() }
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
            let head = if removed { Ok(Head::Retired) } else { data.read(file, key) };
            match head.map_err(|err| self.unreadable(key, op, err))? {
                Head::Live => return Ok(Some(locked)),
                Head::Empty if missing == Missing::Create => return Ok(Some(locked)),
                Head::Empty => return Ok(None),
                head @ (Head::Former | Head::Retired) => {
                    if head == Head::Former {
                        // In a box: it is rare, and would make the future of every verb larger.
                        Box::pin(self.retire_former(file, key, limit, op)).await?;
                    }
                    // We marked it, or somebody who was killed before it could remove it. Under its lock the name is
                    // ours to remove, and is still this file's if the file has one.
                    if locked.file.metadata().is_ok_and(|meta| meta.nlink() > 0) {
                        dir::remove(&self.dir.line, &key.to_path_element(NAME_BYTES)).map_err(|err| {
                            trouble(op, format!("cannot remove {}", self.shown(key)), err).not_applied()
                        })?;
                    }
                    drop(locked);
                    self.forget(key, &line);
                }
            }
        }
        Err(Error::unavailable(op, format!("the line file {} is swept again and again", self.shown(key)))
            .not_applied())
    }

    /// Marks a file of version 1 as retired, under its lock, with its last number in the floor. Nothing is changed if
    /// somebody who lives stands in it.
    async fn retire_former(&self, file: &File, key: &Key, limit: Duration, op: Op) -> Result<()> {
        let unreadable = |err| self.unreadable(key, op, err);
        let former = Former::read(file).map_err(unreadable)?;
        let mut places = former.places.iter().map(|(place, _)| place);
        if let Some(place) = places.find(|place| !presence::is_dead(&self.dir.proc, &place.nonce)) {
            let (shown, pid) = (self.shown(key), place.pid);
            let message = format!(
                "the line file {shown} was written by an older tenure and is in use by pid {pid}; let all who use it \
                 end, or start them again with this version, then try again"
            );
            return Err(Error::unavailable(op, message).not_applied());
        }
        if !self.control.fold(former.last, limit, op).await? {
            return Err(unreadable(invalid("a number that nobody was given")));
        }
        line::retire(file)
            .map_err(|err| trouble(op, format!("cannot write {}", self.shown(key)), err).not_applied())
    }

    fn unreadable(&self, key: &Key, op: Op, err: io::Error) -> Error {
        let shown = self.shown(key);
        match err.kind() {
            io::ErrorKind::InvalidData => damaged(op, format_args!("the line file {shown}"), err),
            _ => trouble(op, format!("cannot read {shown}"), err).not_applied(),
        }
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
