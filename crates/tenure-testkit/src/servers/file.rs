use std::{path::PathBuf, sync::Arc, time::Duration};

use async_trait::async_trait;
use tempfile::TempDir;
use tenure_core::{BootClock, Clock, Engine, Error, Guarantees, Op, Result};
use tenure_local::file::{FileEngine, FileOptions, NetworkFs, guarantees_on_disk};

use super::Found;
use crate::{Abilities, Lab, Site};

pub(super) fn site() -> Found {
    Found::Ready(Site {
        name: "file",
        // If the directory cannot even be opened, every trial says so.
        guarantees: declared().unwrap_or_else(|_| guarantees_on_disk()),
        abilities: Abilities { helper: true, ..Abilities::default() },
        grace: Duration::ZERO,
        build: Box::new(|_| {
            Box::pin(async {
                let dir = temp_dir()?;
                Ok(Arc::new(FileLab { dir }) as Arc<dyn Lab>)
            })
        }),
    })
}

/// What the engine declares in a temporary directory: less, if that is only in memory.
fn declared() -> Result<Guarantees> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(broken)?;
    let dir = temp_dir()?;
    runtime.block_on(async { Ok(open_in(dir.path().join("lines")).await?.guarantees()) })
}

fn temp_dir() -> Result<TempDir> {
    tempfile::tempdir().map_err(broken)
}

fn broken(error: std::io::Error) -> Error {
    Error::unavailable(Op::Connect, "no place for the lab of the file engine").with_source(error)
}

pub(super) async fn open_in(dir: PathBuf) -> Result<Arc<dyn Engine>> {
    Ok(FileEngine::open(FileOptions { dir, network_fs: NetworkFs::Refuse }).await?)
}

#[derive(Debug)]
struct FileLab {
    dir: TempDir,
}

impl FileLab {
    fn lines(&self) -> PathBuf {
        self.dir.path().join("lines")
    }
}

#[async_trait]
impl Lab for FileLab {
    /// Every engine has a pipe and a nonce of its own, so two of them are to each other as two processes.
    async fn open(&self) -> Result<Arc<dyn Engine>> {
        open_in(self.lines()).await
    }

    fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(BootClock)
    }

    fn url(&self) -> Option<String> {
        Some(format!("file:{}", self.lines().display()))
    }
}
