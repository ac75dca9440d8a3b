//! The host processes, as the organiser sees them.

use std::{path::Path, process::Stdio};

use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::mpsc,
};

use crate::{
    organiser::signal,
    trouble::{Result, Trouble},
    wire::{HOST_WORD, Says, Spec},
};

/// What is heard of a host.
#[derive(Debug)]
pub(crate) enum Heard {
    Says(Says),
    /// Its process has ended, or at least its words have.
    Ended,
}

/// A host process. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Host {
    child: Child,
    pid: u32,
    stdin: Option<ChildStdin>,
    pub(crate) port: Option<u16>,
    pub(crate) ended: bool,
}

impl Host {
    pub(crate) async fn start(
        program: &Path,
        spec: &Spec,
        tell: mpsc::Sender<(usize, Heard)>,
    ) -> Result<Self> {
        let cannot = |err: std::io::Error| Trouble::internal("cannot start a host", err);
        let mut command = Command::new(program);
        command.arg(HOST_WORD).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(cannot)?;
        let parts = (child.id(), child.stdin.take(), child.stdout.take());
        let (Some(pid), Some(mut stdin), Some(stdout)) = parts else {
            return Err(Trouble::Internal("a host ended at once".into()));
        };
        let number = spec.host as usize;
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(says) = serde_json::from_str(&line) else { continue };
                if tell.send((number, Heard::Says(says))).await.is_err() {
                    return;
                }
            }
            let _ = tell.send((number, Heard::Ended)).await;
        });
        let words = serde_json::to_string(spec).map_err(|err| Trouble::internal("a host's orders", err))?;
        stdin.write_all(format!("{words}\n").as_bytes()).await.map_err(cannot)?;
        Ok(Self { child, pid, stdin: Some(stdin), port: None, ended: false })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets its buyers in.
    pub(crate) async fn go(&mut self) -> Result<()> {
        match &mut self.stdin {
            Some(stdin) => stdin
                .write_all(b"go\n")
                .await
                .map_err(|err| Trouble::internal("a host ended before the sale began", err)),
            None => Ok(()),
        }
    }

    /// Ends its stop.
    pub(crate) fn go_on(&self) {
        if !self.ended {
            signal(self.pid, Signal::CONT);
        }
    }

    /// Ends it for good, and waits for that.
    pub(crate) async fn kill(&mut self) {
        let _ = self.child.kill().await;
    }
}
