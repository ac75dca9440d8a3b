//! A worker's connection to what the locks protect.

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use crate::wire::{Reply, Request, Spec};

/// One connection to the resources.
#[derive(Debug)]
pub(super) struct Desk {
    from: tokio::io::Lines<BufReader<OwnedReadHalf>>,
    to: OwnedWriteHalf,
}

impl Desk {
    pub(super) async fn open(spec: &Spec) -> Option<Self> {
        let (from, to) = UnixStream::connect(&spec.resource).await.ok()?.into_split();
        Some(Self { from: BufReader::new(from).lines(), to })
    }

    pub(super) async fn ask(&mut self, request: &Request) -> Option<Reply> {
        let words = serde_json::to_string(request).ok()? + "\n";
        self.to.write_all(words.as_bytes()).await.ok()?;
        serde_json::from_str(&self.from.next_line().await.ok()??).ok()
    }
}
