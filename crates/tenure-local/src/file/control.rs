//! The control file: which engine this is, and what keeps its numbers rising.
//!
//! Numbers are given only below a *ceiling* that is on disk before it is used and is raised an hour at a time.
//! So no grant has to wait for the disk, and after a loss of power every number above the ceiling is new,
//! whatever the clock says and whatever of the line files reached the disk. The *floor* is where keys that have
//! no line file start.

use std::{
    fs::File,
    io,
    os::unix::fs::{FileExt, MetadataExt},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tenure_core::{EngineId, Error, Incarnation, Op, Result, Seq};
use tokio::sync::oneshot;

use super::{
    dir::{self, Dir},
    presence,
    record::{array, mix, u32_at, u64_at},
    trouble::trouble,
    wait::{self, Lockable, NotLocked},
};

pub(super) const NAME: &str = "engine";
const MAGIC: [u8; 8] = *b"tenure\0E";
const VERSION: u32 = 1;
const SIZE: usize = 80;
const EVICTIONS: u64 = 64;

/// By how much the ceiling is raised, in microseconds of the hybrid clock.
const STEP: u64 = 3_600_000_000;

/// The one changing record of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    pub(super) engine: EngineId,
    /// Which start of the machine wrote the line files.
    pub(super) boot: [u8; 16],
    /// Not below any number of a key without a line file.
    pub(super) floor: u64,
    /// Above every number ever given.
    pub(super) ceiling: u64,
    /// How many evictions there were, so that a renewal sees with one look that there was none.
    pub(super) evictions: u64,
}

impl State {
    pub(super) fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.engine.to_bytes());
        bytes[32..48].copy_from_slice(&self.boot);
        for (at, number) in [(48, self.floor), (56, self.ceiling), (64, self.evictions)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let check = checksum(&bytes);
        bytes[72..].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// The state in these bytes, or what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() < SIZE || bytes[..8] != MAGIC {
            return Err("not the beginning of a control file".to_owned());
        }
        if u32_at(bytes, 8) != VERSION {
            return Err(format!("version {} where this program knows {VERSION}", u32_at(bytes, 8)));
        }
        if u64_at(bytes, 72) != checksum(bytes) {
            return Err("a wrong checksum".to_owned());
        }
        let state = Self {
            engine: EngineId::from_bytes(array(bytes, 16)),
            boot: array(bytes, 32),
            floor: u64_at(bytes, 48),
            ceiling: u64_at(bytes, 56),
            evictions: u64_at(bytes, 64),
        };
        if state.floor > state.ceiling || state.ceiling > Seq::MAX.get() {
            return Err("impossible numbers".to_owned());
        }
        Ok(state)
    }

    fn raise_ceiling(&mut self, above: u64) {
        self.ceiling = self.ceiling.max(above.saturating_add(STEP)).min(Seq::MAX.get());
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    mix((0..72).step_by(8).map(|at| u64_at(bytes, at)))
}

#[derive(Debug)]
pub(super) struct Control {
    inner: Lockable<()>,
    shown: String,
    engine: EngineId,
    incarnation: Incarnation,
    /// What this process knows of the ceiling, which never falls.
    ceiling: Arc<AtomicU64>,
    /// The count of evictions when this process last looked.
    evictions: AtomicU64,
}

impl Control {
    /// Opens the control file and does `then` under its lock. Blocks.
    ///
    /// Line and proc files of an earlier start of the machine are removed: nobody who made them lives, and what of
    /// them reached the disk is a matter of luck.
    pub(super) fn open(
        dir: &Dir,
        wall: u64,
        boot: [u8; 16],
        then: impl FnOnce() -> Result<()>,
    ) -> Result<Self> {
        let shown = dir.path.join(NAME).display().to_string();
        let failed = |what: &str, err| trouble(Op::Connect, format!("cannot {what} {shown}"), err);
        let file = dir::open_file(&dir.root, NAME, true).map_err(|err| failed("open", err))?;
        wait::block(&file).map_err(|err| failed("lock", err))?;
        let mut bytes = [0; SIZE];
        let len = read(&file, &mut bytes).map_err(|err| failed("read", err))?;
        let fresh = len == 0;
        let mut state = if fresh {
            if !dir::names(&dir.line, 1).map_err(|err| failed("look beside", err))?.is_empty() {
                return Err(damaged(&shown, "nothing in it while there are line files beside it"));
            }
            State { engine: EngineId::fresh(), boot, floor: 0, ceiling: 0, evictions: 0 }
        } else {
            State::decode(&bytes[..len]).map_err(|what| damaged(&shown, what))?
        };
        let before = state;
        // Some containers show a boot id of their own. Whoever lives proves that the machine was not restarted.
        let restarted = state.boot != boot
            && !presence::anybody_lives(&dir.proc).map_err(|err| failed("look beside", err))?;
        if restarted {
            for part in [&dir.line, &dir.proc] {
                // In rounds, because a directory may change its order while it is emptied.
                loop {
                    let names = dir::names(part, 4096).map_err(|err| failed("look beside", err))?;
                    if names.is_empty() {
                        break;
                    }
                    for name in names {
                        dir::remove(part, &name).map_err(|err| failed("remove the files beside", err))?;
                    }
                }
            }
            state.floor = state.ceiling;
            state.boot = boot;
        }
        if state.ceiling < wall.saturating_add(STEP / 2) || state.ceiling <= state.floor {
            state.raise_ceiling(wall.max(state.floor));
        }
        if fresh || state != before {
            file.write_all_at(&state.encode(), 0).map_err(|err| failed("write", err))?;
            file.sync_all().map_err(|err| failed("sync", err))?;
            if fresh {
                dir.sync().map_err(|err| failed("sync the directory of", err))?;
            }
        }
        then()?;
        file.unlock().map_err(|err| failed("free", err))?;
        let (engine, boot) = (u128::from_be_bytes(state.engine.to_bytes()), u128::from_be_bytes(state.boot));
        Ok(Self {
            inner: Lockable::new(file, ()),
            shown,
            engine: state.engine,
            incarnation: Incarnation(mix([engine as u64, (engine >> 64) as u64, boot as u64].into_iter())),
            ceiling: Arc::new(AtomicU64::new(state.ceiling)),
            evictions: AtomicU64::new(state.evictions),
        })
    }

    pub(super) fn engine(&self) -> EngineId {
        self.engine
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Whether this number may be given without asking the disk.
    pub(super) fn allows(&self, seq: Seq) -> bool {
        seq.get() < self.ceiling.load(Ordering::Acquire)
    }

    /// Raises the ceiling above this number, and returns once it is on disk.
    pub(super) async fn allow(&self, seq: Seq, limit: Duration, op: Op) -> Result<()> {
        if seq == Seq::MAX {
            return Err(used_up(op));
        }
        let locked = self.lock(limit, op).await?;
        let (ceiling, shown) = (self.ceiling.clone(), self.shown.clone());
        let raise = move || {
            let mut state = load(&locked.file, &shown, op)?;
            if state.ceiling <= seq.get() {
                state.raise_ceiling(seq.get());
                let failed = |err| trouble(op, format!("cannot write {shown}"), err).not_applied();
                locked.file.write_all_at(&state.encode(), 0).map_err(failed)?;
                locked.file.sync_data().map_err(failed)?;
            }
            ceiling.fetch_max(state.ceiling, Ordering::AcqRel);
            Ok(())
        };
        // A disk may take its time, which is not the runtime's. It does not matter if nobody waits any more.
        let (tell, told) = oneshot::channel();
        std::thread::Builder::new()
            .name("tenure-sync".into())
            .spawn(move || {
                let _ = tell.send(raise());
            })
            .map_err(|err| trouble(op, "cannot start a thread", err).not_applied())?;
        match tokio::time::timeout(limit, told).await {
            Ok(Ok(raised)) => raised,
            _ => Err(Error::unavailable(
                op,
                format!("the disk of {} did not answer within {limit:?}", self.shown),
            )
            .not_applied()),
        }
    }

    /// Where a key without a line file starts.
    pub(super) async fn floor(&self, limit: Duration, op: Op) -> Result<Seq> {
        let locked = self.lock(limit, op).await?;
        let state = load(&locked.file, &self.shown, op)?;
        Seq::new(state.floor).ok_or_else(|| used_up(op))
    }

    /// Lifts the floor to this number before its line file goes. False if somebody is in the way, or if nobody was ever
    /// given this number.
    ///
    /// It need not reach the disk: after a loss of power the floor is the ceiling, which is above it.
    pub(super) fn try_fold(&self, last: Seq) -> Result<bool> {
        let Ok(Some(locked)) = self.inner.try_lock() else { return Ok(false) };
        self.fold_locked(&locked.file, last, Op::Connect)
    }

    /// As [`try_fold`](Self::try_fold), but waits for whoever is in the way. False if nobody was ever given this number.
    pub(super) async fn fold(&self, last: Seq, limit: Duration, op: Op) -> Result<bool> {
        let locked = self.lock(limit, op).await?;
        self.fold_locked(&locked.file, last, op)
    }

    fn fold_locked(&self, file: &File, last: Seq, op: Op) -> Result<bool> {
        let mut state = load(file, &self.shown, op)?;
        if state.ceiling <= last.get() {
            return Ok(false);
        }
        if state.floor < last.get() {
            state.floor = last.get();
            let failed = |err| trouble(op, format!("cannot write {}", self.shown), err).not_applied();
            file.write_all_at(&state.encode(), 0).map_err(failed)?;
        }
        Ok(true)
    }

    /// Counts an eviction, before it is made, so that no renewal misses it.
    pub(super) async fn count_eviction(&self, limit: Duration) -> Result<()> {
        let locked = self.lock(limit, Op::Evict).await?;
        let mut state = load(&locked.file, &self.shown, Op::Evict)?;
        state.evictions += 1;
        locked
            .file
            .write_all_at(&state.encode(), 0)
            .map_err(|err| trouble(Op::Evict, format!("cannot write {}", self.shown), err).not_applied())
    }

    /// How many evictions there were; `None` if the control file was removed, and the engine with it.
    pub(super) fn evictions(&self) -> Result<Option<u64>> {
        let failed = |err| trouble(Op::Renew, format!("cannot read {}", self.shown), err);
        if self.inner.file.metadata().map_err(failed)?.nlink() == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 8];
        self.inner.file.read_exact_at(&mut bytes, EVICTIONS).map_err(failed)?;
        let count = u64::from_le_bytes(bytes);
        self.evictions.fetch_max(count, Ordering::AcqRel);
        Ok(Some(count))
    }

    /// A count that was true at some time before now.
    pub(super) fn known_evictions(&self) -> u64 {
        self.evictions.load(Ordering::Acquire)
    }

    async fn lock(&self, limit: Duration, op: Op) -> Result<wait::Locked<()>> {
        self.inner.lock(limit).await.map_err(|why| match why {
            NotLocked::Kept => Error::unavailable(
                op,
                format!(
                    "{} could not be locked within {limit:?}: {}",
                    self.shown,
                    wait::blame(&self.inner.file)
                ),
            )
            .not_applied(),
            NotLocked::Failed(err) => trouble(op, format!("cannot lock {}", self.shown), err).not_applied(),
        })
    }
}

/// Somebody removed the directory under us: whoever comes now starts anew and knows nothing of our places.
pub(super) fn removed(op: Op, file: &str) -> Error {
    Error::new(
        tenure_core::ErrorKind::Broken,
        op,
        format!("{file} was removed while in use; locks held through it no longer exclude anybody, restart this process"),
    )
    .not_applied()
}

pub(super) fn used_up(op: Op) -> Error {
    Error::new(tenure_core::ErrorKind::Broken, op, "the numbers of this engine are used up").not_applied()
}

fn damaged(shown: &str, what: impl std::fmt::Display) -> Error {
    let message = format!(
        "the control file {shown} is damaged: it has {what}; nothing was changed. End all processes that use this \
         directory, then restore the file or remove the whole directory (numbers then go on from the clock)"
    );
    Error::new(tenure_core::ErrorKind::Broken, Op::Connect, message).not_applied()
}

fn load(file: &File, shown: &str, op: Op) -> Result<State> {
    let mut bytes = [0; SIZE];
    let len = read(file, &mut bytes)
        .map_err(|err| trouble(op, format!("cannot read {shown}"), err).not_applied())?;
    State::decode(&bytes[..len]).map_err(|what| damaged(shown, what).in_op(op))
}

fn read(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < bytes.len() {
        match file.read_at(&mut bytes[len..], len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(err) if err.kind() == io::ErrorKind::Interrupted => {}
            Err(err) => return Err(err),
        }
    }
    Ok(len)
}

/// Which start of the machine this is.
pub(super) fn boot_id() -> Result<[u8; 16]> {
    const FILE: &str = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(FILE)
        .map_err(|err| trouble(Op::Connect, format!("cannot read {FILE}"), err))?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).map(u128::to_be_bytes).map_err(|err| {
        Error::unavailable(Op::Connect, format!("{FILE} holds no id")).with_source(err).not_applied()
    })
}
