//! Wrong ways on files.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use rustix::fs::{FlockOperation, fcntl_lock};
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, sleep, timeout_at},
};

use super::Mutant;
use crate::{
    history::Freed,
    locks::{Held, Locks, Look, Unanswered, Wish},
    wire::{KeySpec, Proof, Spec},
};

const POLL: Duration = Duration::from_millis(2);

struct Way {
    mutant: Mutant,
    folder: PathBuf,
    /// Tasks of one process must not come into it at once: that is another mistake.
    here: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

pub(super) fn open(mutant: Mutant, spec: &Spec) -> Result<Arc<dyn Locks>, String> {
    let folder = Path::new(spec.url.trim_start_matches("file:")).with_extension("mutants");
    fs::create_dir_all(&folder).map_err(|err| err.to_string())?;
    Ok(Arc::new(Way { mutant, folder, here: Mutex::default() }))
}

struct Hold {
    mutant: Mutant,
    file: File,
    path: PathBuf,
    _here: OwnedMutexGuard<()>,
}

#[async_trait]
impl Locks for Way {
    async fn ask(&self, key: &KeySpec, wish: &Wish) -> Result<Option<Box<dyn Held>>, Unanswered> {
        let deadline = Instant::now() + wish.patience.unwrap_or_default();
        let here = {
            let mut here = self.here.lock().unwrap_or_else(PoisonError::into_inner);
            here.entry(key.name.clone()).or_default().clone()
        };
        let Ok(here) = timeout_at(deadline, here.lock_owned()).await else { return Ok(None) };
        let path = self.folder.join(key.name.replace('/', "_"));
        let no = |err: std::io::Error| Unanswered { maybe: false, why: err.to_string() };
        let file = open_file(&path).map_err(no)?;
        loop {
            let got = match self.mutant {
                Mutant::PosixClose => fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive).is_ok(),
                _ => file.try_lock().is_ok(),
            };
            if got {
                let hold = Hold { mutant: self.mutant, file, path, _here: here };
                return Ok(Some(Box::new(hold)));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            sleep(POLL).await;
        }
    }

    async fn close(&self) {}
}

fn open_file(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)
}

#[async_trait]
impl Held for Hold {
    fn proof(&self) -> Option<Proof> {
        None
    }

    fn look(&self) -> Look {
        Look::Until(None)
    }

    async fn refresh(&self) {
        if self.mutant == Mutant::PosixClose {
            // As somebody would who only wants to read what the file says.
            drop(open_file(&self.path));
        }
    }

    async fn release(self: Box<Self>) -> Freed {
        match self.mutant {
            Mutant::PosixClose => drop(fcntl_lock(&self.file, FlockOperation::Unlock)),
            _ => drop(fs::remove_file(&self.path)),
        }
        Freed::Yes
    }
}
