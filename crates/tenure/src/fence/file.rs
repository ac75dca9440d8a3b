mod slots;

use std::{
    ffi::OsString,
    fs, io,
    io::Write,
    path::{Path, PathBuf},
    time::Duration,
};

use tenure_core::{Error, ErrorKind, Op, Record, Refusal, Result, Stamp};

use self::slots::Slots;
use super::Written;
use crate::acquire::jitter;

/// How long the file may be in somebody else's hands: each has it for a write to the disk.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(4);

/// A file that only those may change who have not been overtaken.
///
/// It is an ordinary file: others may read it at any time, and see it before or after a write, never between. The
/// record is in a second file beside it, `<name>.fence`, which must not be removed while the first one is in use. What
/// was written or claimed is on disk when the call returns.
///
/// For the processes of one machine: the locks of network file systems are not relied on.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tenure::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("state.json");
/// use tenure::fence::{File, Written};
///
/// let client = tenure::connect("memory:").await?;
/// let guard = client.mutex("state")?.acquire().await?;
/// let (state, stamp) = (File::new(&path), guard.stamp());
/// let n = state.claim(stamp).await?;
/// assert_eq!(state.read(stamp).await?, None); // not there yet
/// assert_eq!(state.write(stamp, n + 1, "{}").await?, Written::Now);
/// # assert_eq!(std::fs::read(&path).unwrap(), b"{}");
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
}

/// What is done to the file while nobody else has it.
type Job<T> = Box<dyn FnOnce(&mut Slots, &Path) -> Result<T> + Send>;

impl File {
    /// The file at this path, which need not exist; its directory must. A symbolic link is followed.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Shuts out every earlier holder, and says the number of this holder's last write: 0 if it has not written.
    ///
    /// # Errors
    /// `Refused` if a later holder was here. `Unavailable` if the disk failed, or another process kept the file to
    /// itself for ten seconds.
    /// # Cancel safety
    /// The claim may have been done. Claim again.
    pub async fn claim(&self, stamp: Stamp) -> Result<u64> {
        self.with(Op::Claim, move |slots, _| {
            let record = slots.record();
            let next = record.claim(&stamp).map_err(|refusal| refusal.into_error(Op::Claim))?;
            if next != record {
                slots.store(&next).map_err(|err| failed(Op::Claim, err))?;
            }
            Ok(next.n())
        })
        .await
    }

    /// What is in the file; `None` if there is none.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, or this one has not claimed; `Unavailable` as [`claim`](Self::claim).
    pub async fn read(&self, stamp: Stamp) -> Result<Option<Vec<u8>>> {
        self.with(Op::Read, move |slots, path| {
            slots.record().read(&stamp).map_err(|refusal| refusal.into_error(Op::Read))?;
            match fs::read(path) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(None),
                Err(err) => Err(failed(Op::Read, err)),
            }
        })
        .await
    }

    /// Replaces what is in the file, as the `n`th write of this holder.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, this one has not claimed, or this is not its next write; `Invalid` for a
    /// shared hold; `Unavailable` as [`claim`](Self::claim), and then it may have been done: write the same again,
    /// under the same number.
    /// # Cancel safety
    /// The write may have been done. Write the same again, under the same number.
    pub async fn write(&self, stamp: Stamp, n: u64, bytes: impl Into<Vec<u8>>) -> Result<Written> {
        let bytes = bytes.into();
        self.with(Op::Write, move |slots, path| {
            let refused = |refusal: Refusal| refusal.into_error(Op::Write);
            let Some(next) = slots.record().write(&stamp, n).map_err(refused)? else {
                return Ok(Written::Before);
            };
            // The data first: if the machine stops between the two, the same write is done again under its number.
            replace(path, &bytes).and_then(|()| slots.store(&next)).map_err(|err| failed(Op::Write, err))?;
            Ok(Written::Now)
        })
        .await
    }

    /// What the file has seen, for people.
    ///
    /// # Errors
    /// `Unavailable` as [`claim`](Self::claim).
    pub async fn record(&self) -> Result<Record> {
        self.with(Op::Read, |slots, _| Ok(slots.record())).await
    }

    /// Does this while nobody else has the file, on a thread that may wait for the disk.
    async fn with<T: Send + 'static>(
        &self,
        op: Op,
        job: impl FnOnce(&mut Slots, &Path) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let mut job: Job<T> = Box::new(job);
        let until = tokio::time::Instant::now() + PATIENCE;
        loop {
            let path = self.path.clone();
            let try_once = tokio::task::spawn_blocking(move || once(op, &path, job));
            match try_once.await {
                Ok(Ok(done)) => return done,
                Ok(Err(again)) => job = again,
                Err(err) => return Err(Error::unavailable(op, "the runtime shuts down").with_source(err)),
            }
            if tokio::time::Instant::now() >= until {
                let message = format!(
                    "`{}.fence` was locked for {PATIENCE:?}; is a process stopped in it?",
                    self.path.display()
                );
                return Err(Error::unavailable(op, message).not_applied());
            }
            tokio::time::sleep(jitter(PAUSE)).await;
        }
    }
}

/// Does the job, or gives it back if somebody else has the file.
fn once<T>(op: Op, path: &Path, job: Job<T>) -> Result<Result<T>, Job<T>> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    match Slots::open(&beside(&path, ".fence")) {
        Ok(None) => Err(job),
        Ok(Some(mut slots)) => Ok(job(&mut slots, &path)),
        Err(err) if err.kind() == io::ErrorKind::InvalidData => {
            let message = format!("`{}.fence` is damaged; somebody else wrote there", path.display());
            Ok(Err(Error::new(ErrorKind::Broken, op, message).not_applied()))
        }
        Err(err) => Ok(Err(failed(op, err).not_applied())),
    }
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().map(OsString::from).unwrap_or_default();
    name.push(ending);
    path.with_file_name(name)
}

/// Puts a whole new file in the place of the old one, with the same permissions, and waits for the disk.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = beside(path, ".fence-new");
    let mut file = fs::File::create(&fresh)?;
    match fs::metadata(path) {
        Ok(old) => file.set_permissions(old.permissions())?,
        Err(err) if err.kind() == io::ErrorKind::NotFound => {}
        Err(err) => return Err(err),
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    sync_directory(path)
}

/// Waits until the names in a file's directory are on disk.
fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn failed(op: Op, err: io::Error) -> Error {
    Error::unavailable(op, "the file could not be used").with_source(err)
}
