//! Who lives: one named pipe per open engine, which is at once its presence, its letter box and its death notice.
//!
//! The kernel closes the pipe when the process ends, however it ends. Opening it for writing then fails with
//! `ENXIO`, and whoever has it open is told. A name is random and never used again, so dead is dead for ever.

use std::{
    collections::HashMap,
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileTypeExt},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec},
    fs::{FileType, Mode, OFlags},
    io::Errno,
};
use tenure_core::{ClaimId, Op, Result, Seq};
use tokio::{
    io::Interest,
    net::unix::pipe::{Receiver, Sender},
    runtime::Handle,
    task::AbortHandle,
};

use super::{
    book::Book,
    dir::{self, Dir},
    record::{Nonce, array, u64_at},
    trouble::trouble,
};

/// Above so many, peers that nobody waits for are let go.
const PEERS: usize = 128;
/// The size of a letter; far below what a pipe takes in one piece.
const LETTER: usize = 32;
/// How many dead pipes are cleared away when an engine opens.
const SWEPT: usize = 1024;

/// What one engine tells another about one of its places. A hint: it may be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Letter {
    Holds(ClaimId, Seq),
    Evicted(ClaimId, Seq),
}

impl Letter {
    fn encode(self) -> [u8; LETTER] {
        let (kind, id, seq) = match self {
            Self::Holds(id, seq) => (1, id, seq),
            Self::Evicted(id, seq) => (2, id, seq),
        };
        let mut bytes = [0; LETTER];
        bytes[0] = kind;
        bytes[8..16].copy_from_slice(&seq.get().to_le_bytes());
        bytes[16..].copy_from_slice(&id.to_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (seq, id) = (Seq::new(u64_at(bytes, 8))?, ClaimId::from_bytes(array(bytes, 16)));
        match bytes[0] {
            1 => Some(Self::Holds(id, seq)),
            2 => Some(Self::Evicted(id, seq)),
            _ => None,
        }
    }
}

/// This engine's own pipe.
#[derive(Debug)]
pub(super) struct Presence {
    dir: Arc<Dir>,
    pub(super) nonce: Nonce,
    /// Kept open besides the reader's own, so that we are alive for as long as the engine is, whatever becomes
    /// of the runtime.
    pipe: File,
}

impl Presence {
    /// Makes a pipe of our own and clears dead ones away. Under the lock of the control file: nobody else makes
    /// or clears pipes meanwhile, so one that nobody has open is dead.
    pub(super) fn open(dir: Arc<Dir>) -> Result<Self> {
        let shown = dir.path.join("proc");
        let failed = |err| trouble(Op::Connect, format!("cannot make a pipe in {}", shown.display()), err);
        for name in dir::names(&dir.proc, SWEPT).map_err(failed)? {
            if let Err(Errno::NXIO) = open_peer(&dir.proc, &name) {
                dir::remove(&dir.proc, &name).map_err(failed)?;
            }
        }
        let mut nonce = Nonce::default();
        getrandom::fill(&mut nonce).map_err(|err| failed(io::Error::other(err.to_string())))?;
        let name = name(&nonce);
        rustix::fs::mknodat(&dir.proc, &*name, FileType::Fifo, dir::OURS, 0)
            .map_err(|err| failed(err.into()))?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let pipe =
            rustix::fs::openat(&dir.proc, &*name, flags, Mode::empty()).map_err(|err| failed(err.into()))?;
        Ok(Self { dir, nonce, pipe: pipe.into() })
    }

    /// Starts reading letters into the book, until the returned handle is aborted.
    pub(super) fn receive(&self, book: Arc<Book>, runtime: &Handle) -> Result<AbortHandle> {
        let failed = |err| trouble(Op::Connect, "cannot read from the own pipe", err);
        let _runtime = runtime.enter();
        let receiver = Receiver::from_file(self.pipe.try_clone().map_err(failed)?).map_err(failed)?;
        let task = runtime.spawn(async move {
            let mut bytes = [0; 128 * LETTER];
            while receiver.readable().await.is_ok() {
                match receiver.try_read(&mut bytes) {
                    // All letters have one size and are written in one piece, so they are read whole.
                    Ok(len) => {
                        bytes[..len]
                            .chunks_exact(LETTER)
                            .filter_map(Letter::decode)
                            .for_each(|news| book.hear(news));
                    }
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                    Err(_) => return,
                }
            }
        });
        Ok(task.abort_handle())
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // Left behind, it would be cleared away by the next engine that opens.
        let _ = dir::remove(&self.dir.proc, &name(&self.nonce));
    }
}

/// The other engines, as far as this one had to do with them.
#[derive(Debug)]
pub(super) struct Peers {
    dir: Arc<Dir>,
    own: Nonce,
    runtime: Handle,
    book: Arc<Book>,
    map: Arc<Mutex<HashMap<Nonce, Peer>>>,
}

#[derive(Debug)]
struct Peer {
    pipe: Arc<Sender>,
    watch: Option<AbortHandle>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

impl Peers {
    pub(super) fn new(dir: Arc<Dir>, own: Nonce, runtime: Handle, book: Arc<Book>) -> Self {
        Self { dir, own, runtime, book, map: Arc::default() }
    }

    /// Whether the process that has this name lives, as the kernel knows it now.
    pub(super) fn is_alive(&self, nonce: &Nonce) -> io::Result<bool> {
        Ok(*nonce == self.own || self.pipe(nonce)?.is_some())
    }

    /// Writes a letter, which is dropped if the letter box is full.
    pub(super) fn tell(&self, nonce: &Nonce, letter: Letter) {
        if *nonce == self.own {
            return self.book.hear(letter);
        }
        let Ok(Some(pipe)) = self.pipe(nonce) else { return };
        if let Err(Errno::PIPE) = rustix::io::write(&*pipe, &letter.encode()) {
            self.map().remove(nonce);
        }
    }

    /// Makes the book hear of this process's death. False if it has died already.
    pub(super) fn watch(&self, nonce: &Nonce) -> io::Result<bool> {
        if *nonce == self.own {
            return Ok(true);
        }
        let Some(pipe) = self.pipe(nonce)? else { return Ok(false) };
        let mut map = self.map();
        let Some(peer) = map.get_mut(nonce) else { return Ok(false) };
        if peer.watch.is_none() {
            let (book, nonce, peers) = (self.book.clone(), *nonce, Arc::downgrade(&self.map));
            let task = self.runtime.spawn(async move {
                // A pipe that nobody reads any more is in error; nothing else is asked for. That the reactor is
                // gone is no news.
                if pipe.ready(Interest::ERROR).await.is_ok() {
                    book.hear_death(&nonce);
                    let gone = peers.upgrade().and_then(|peers| lock(&peers).remove(&nonce));
                    drop(gone);
                }
            });
            peer.watch = Some(task.abort_handle());
        }
        Ok(true)
    }

    /// The open pipe of a living process.
    fn pipe(&self, nonce: &Nonce) -> io::Result<Option<Arc<Sender>>> {
        let known = self.map().get(nonce).map(|peer| peer.pipe.clone());
        if let Some(pipe) = known {
            if !is_closed(&pipe)? {
                return Ok(Some(pipe));
            }
            let mut map = self.map();
            if map.get(nonce).is_some_and(|peer| peer.watch.is_none()) {
                map.remove(nonce); // otherwise its watch tells the book first
            }
            return Ok(None);
        }
        let file = match open_peer(&self.dir.proc, &name(nonce)) {
            Ok(file) => File::from(file),
            Err(Errno::NXIO | Errno::NOENT) => return Ok(None),
            Err(err) => return Err(err.into()),
        };
        if !file.metadata()?.file_type().is_fifo() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "something that is no pipe in its directory `proc`",
            ));
        }
        let pipe = {
            let _runtime = self.runtime.enter();
            Arc::new(Sender::from_file(file)?)
        };
        let mut map = self.map();
        if map.len() >= PEERS {
            map.retain(|nonce, _| self.book.is_awaited(nonce));
        }
        let peer = map.entry(*nonce).or_insert_with(|| Peer { pipe: pipe.clone(), watch: None });
        Ok(Some(peer.pipe.clone()))
    }

    fn map(&self) -> MutexGuard<'_, HashMap<Nonce, Peer>> {
        lock(&self.map)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_closed(pipe: &Sender) -> io::Result<bool> {
    let mut polled = [PollFd::new(pipe, PollFlags::OUT)];
    rustix::io::retry_on_intr(|| {
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
    })?;
    Ok(polled[0].revents().contains(PollFlags::ERR))
}

/// Whether the process of this name is dead, asked without keeping anything open.
pub(super) fn is_dead(proc: &OwnedFd, nonce: &Nonce) -> bool {
    matches!(open_peer(proc, &name(nonce)), Err(Errno::NXIO | Errno::NOENT))
}

/// Whether any process has its pipe open. Under the lock of the control file.
pub(super) fn anybody_lives(proc: &OwnedFd) -> io::Result<bool> {
    let lives = |name: &String| {
        let file = open_peer(proc, name).ok().map(File::from);
        file.and_then(|file| file.metadata().ok()).is_some_and(|meta| meta.file_type().is_fifo())
    };
    Ok(dir::names(proc, usize::MAX)?.iter().any(lives))
}

fn open_peer(proc: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    rustix::fs::openat(proc, name, flags, Mode::empty())
}

fn name(nonce: &Nonce) -> String {
    format!("{:032x}", u128::from_be_bytes(*nonce))
}
