//! Locks between the processes of one machine, with no server: lines in a directory.
//!
//! A key's line is a small file, changed under `flock`. A place lives while its process does: the kernel tells
//! the others when it ends, however it ends, so a crash frees its locks at once and a paused holder goes on
//! holding. Whoever leaves the line writes to the pipe of the next, which then holds without looking.
//!
//! - Numbers rise over restarts, loss of power and any step of the clock. In a directory that is only in memory
//!   (`tmpfs`, as `/run` usually is) a restart forgets them, and they rise if the clock was not set back.
//! - All processes must run on one kernel; containers that share the directory are fine. Network file systems are
//!   refused, because other machines would not know who lives.
//! - A child that was forked without `exec` keeps its parent's places alive.
//! - Telling a process that has just died raises `SIGPIPE`, which Rust programs ignore unless told otherwise.
//!   Leave it ignored.

mod book;
mod control;
mod dir;
mod disk;
mod engine;
mod facts;
mod former;
mod line;
mod lines;
mod presence;
mod record;
mod ring;
mod show;
mod sweep;
mod trouble;
mod url;
mod verbs;
mod wait;

#[cfg(test)]
mod tests;

use std::{
    fmt,
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use tenure_core::{
    Crash, Error, Failover, Fences, Floors, Grade, Guarantees, Modes, Op, Order, Reach, Result, Ttl, Wake,
};
use tokio::{runtime::Handle, sync::oneshot, task::AbortHandle};

pub use self::url::OPTIONS;
use self::{
    book::Book,
    control::Control,
    dir::Dir,
    lines::Lines,
    presence::{Peers, Presence},
    sweep::Broom,
};
use crate::wall::wall_micros;

const ENGINE: &str = "file";
/// How long opening may take.
const OPEN_LIMIT: Duration = Duration::from_secs(5);
/// How long a line file must have been left alone before it is swept.
const IDLE: Duration = Duration::from_secs(600);
/// How many files one sweep looks into.
const SWEPT: usize = 256;
/// After so many releases there is another sweep.
const SWEEP_EVERY: u64 = 16 * 1024;

/// What a file engine needs to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOptions {
    /// The directory, for this engine alone. Made if it is missing; only its owner may enter it.
    pub dir: PathBuf,
    /// What if the directory is on a network file system?
    pub network_fs: NetworkFs,
}

/// Whether a directory on a network file system is good enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum NetworkFs {
    /// It is not: other machines would not know who lives.
    #[default]
    Refuse,
    /// It is, because no other machine uses it.
    Allow,
}

/// Locks between the processes of one machine. See the [module](self).
pub struct FileEngine {
    dir: Arc<Dir>,
    control: Arc<Control>,
    lines: Lines,
    book: Arc<Book>,
    peers: Peers,
    presence: Presence,
    reader: AbortHandle,
    wall: Wall,
    pid: u32,
    releases: AtomicU64,
    sweeping: Arc<AtomicBool>,
}

/// The wall clock in microseconds.
type Wall = Arc<dyn Fn() -> u64 + Send + Sync>;
type Prepared = Result<(Arc<Dir>, Arc<Control>, Presence)>;

/// What every file engine on a real disk promises. In a directory that is only in memory, numbers survive a
/// restart only if the clock was not set back.
#[must_use]
pub fn guarantees_on_disk() -> Guarantees {
    Guarantees {
        engine: ENGINE,
        grade: Grade::Fenced,
        reach: Reach::Machine,
        modes: Modes::ALL,
        order: Order::Fifo,
        crash: Crash::Process,
        wake: Wake::Push,
        fences: Fences::Durable,
        floors: Floors::Kept,
        failover: Failover::None,
        min_ttl: Ttl::MIN,
    }
}

impl FileEngine {
    /// Opens the directory, making it if it is missing. Inside a tokio runtime with I/O and time.
    ///
    /// # Errors
    /// `Denied` or `Invalid` if the directory is not fit, and says what to do; `Broken` if it is damaged.
    pub async fn open(options: FileOptions) -> Result<Arc<Self>> {
        Self::open_with(options, Arc::new(wall_micros)).await.map_err(|err| err.with_engine(ENGINE))
    }

    async fn open_with(options: FileOptions, wall: Wall) -> Result<Arc<Self>> {
        if !options.dir.is_absolute() {
            let dir = options.dir.display();
            return Err(Error::invalid(format!("the directory `{dir}` is relative; give an absolute path"))
                .in_op(Op::Connect));
        }
        let runtime = Handle::try_current().map_err(|_| {
            Error::invalid("the file engine is opened inside a tokio runtime").in_op(Op::Connect)
        })?;
        let sweeping = Arc::new(AtomicBool::new(true));
        let (tell, told) = oneshot::channel();
        let (wall_there, sweeping_there) = (wall.clone(), sweeping.clone());
        // On threads of its own: it waits for a lock and for the disk, by the machine's time and not the runtime's,
        // which a test may have stopped.
        let prepare = move || {
            let control_file = options.dir.join(control::NAME);
            let (done, prepared) = mpsc::sync_channel(1);
            let work = move || Self::prepare_and_sweep(&options, &wall_there, &sweeping_there, &done);
            let prepared = match thread("tenure-prepare", work) {
                Ok(()) => prepared.recv_timeout(OPEN_LIMIT).unwrap_or_else(|_| Err(stuck(&control_file))),
                Err(err) => Err(err),
            };
            let _ = tell.send(prepared);
        };
        thread("tenure-open", prepare)?;
        let prepared = told.await.map_err(|_| Error::unavailable(Op::Connect, "the opening thread died"))?;
        let (dir, control, presence) = prepared?;
        let book = Arc::new(Book::default());
        let reader = presence.receive(book.clone(), &runtime)?;
        Ok(Arc::new(Self {
            lines: Lines::new(dir.clone(), control.clone()),
            peers: Peers::new(dir.clone(), presence.nonce, runtime, book.clone()),
            dir,
            control,
            book,
            presence,
            reader,
            wall,
            pid: std::process::id(),
            releases: AtomicU64::new(0),
            sweeping,
        }))
    }

    fn prepare_and_sweep(
        options: &FileOptions,
        wall: &Wall,
        sweeping: &AtomicBool,
        done: &mpsc::SyncSender<Prepared>,
    ) {
        let prepared = Self::prepare(options, wall);
        let beside = prepared.as_ref().ok().map(|(dir, control, presence)| {
            let start = usize::from(presence.nonce[0]) << 8 | usize::from(presence.nonce[1]);
            (dir.clone(), control.clone(), Broom { idle: IDLE, most: SWEPT, start })
        });
        if let (Ok(()), Some((dir, control, broom))) = (done.send(prepared), beside) {
            // A sweep is a chore; what stands in its way will show itself to those who need it.
            let _ = sweep::sweep(&dir, &control, wall(), broom);
        }
        sweeping.store(false, Ordering::Release);
    }

    fn prepare(options: &FileOptions, wall: &Wall) -> Prepared {
        let dir = Arc::new(Dir::open(&options.dir, options.network_fs)?);
        let mut presence = None;
        let control = Control::open(&dir, wall(), control::boot_id()?, || {
            presence = Some(Presence::open(dir.clone())?);
            Ok(())
        })?;
        let presence = presence.ok_or_else(|| Error::unavailable(Op::Connect, "no pipe was made"))?;
        Ok((dir, Arc::new(control), presence))
    }

    /// Sweeps once in many releases, beside whatever else goes on.
    fn count_release(&self) {
        let count = self.releases.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(SWEEP_EVERY) && !self.sweeping.swap(true, Ordering::AcqRel) {
            let (dir, control, wall) = (self.dir.clone(), self.control.clone(), self.wall.clone());
            let sweeping = self.sweeping.clone();
            let start = (count / SWEEP_EVERY) as usize * SWEPT;
            let chore = move || {
                let _ = sweep::sweep(&dir, &control, wall(), Broom { idle: IDLE, most: SWEPT, start });
                sweeping.store(false, Ordering::Release);
            };
            // Without a thread there is no sweep; the next engine that opens does it.
            let _ = thread("tenure-sweep", chore);
        }
    }
}

fn thread(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(|err| trouble::trouble(Op::Connect, "cannot start a thread", err).not_applied())
}

fn stuck(control_file: &Path) -> Error {
    let who =
        File::open(control_file).map_or_else(|_| "is the disk stuck?".to_owned(), |file| wait::blame(&file));
    let message = format!("{} could not be locked within {OPEN_LIMIT:?}: {who}", control_file.display());
    Error::unavailable(Op::Connect, message).not_applied()
}

impl Drop for FileEngine {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl fmt::Debug for FileEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileEngine").field("dir", &self.dir.path).finish_non_exhaustive()
    }
}
