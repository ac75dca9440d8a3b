//! A bare client of ZooKeeper, without locks.

use std::{fmt, sync::Arc};

use tenure_core::{EngineUrl, Error, Op, Result};

use crate::{
    dial::Dial,
    link::{Failure, Link},
    mine::Mine,
    place::Paths,
    sessions::{self, Sessions},
    trouble,
    url::{OPTIONS, ZookeeperOptions},
    wire::{Access, Life, Request, code, read_data, read_multi},
};

/// A bare client of the store that the locks are in: for the data that they guard, where a program has no other.
///
/// It has one session, and another when that has ended; a call that failed is not made again by itself. Nodes that it makes
/// are the user's own if it has logged in.
pub struct ZookeeperClient {
    dial: Arc<Dial>,
    access: Access,
    sessions: Sessions,
    /// Nobody holds anything here.
    _mine: Arc<Mine>,
}

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its data.
    pub data: Vec<u8>,
    /// How often it was changed since it was made.
    pub version: i32,
}

/// A node, what it is to have, and the version that it must have until then: none if it must not be there.
#[derive(Clone, Copy, Debug)]
pub struct Put<'a> {
    /// The whole path, with no regard to that of the URL.
    pub path: &'a str,
    /// What it is to have.
    pub data: &'a [u8],
    /// What it must be before.
    pub version: Option<i32>,
}

impl ZookeeperClient {
    /// Connects to the servers of an engine's URL, `zookeeper://host1,host2`.
    ///
    /// # Errors
    /// `Invalid` for what is wrong with the URL, `Unavailable` if no server serves, `Denied` for a wrong password.
    pub async fn connect(url: &str) -> Result<Self> {
        let mut url: EngineUrl = url.parse()?;
        let options = ZookeeperOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Self::open(options).await
    }

    /// Connects to one of these servers.
    ///
    /// # Errors
    /// `Unavailable` if none serves, `Denied` for a wrong password.
    pub async fn open(options: ZookeeperOptions) -> Result<Self> {
        let graves = Paths::new(&options.root).graves;
        let access = if options.login.is_some() { Access::Creator } else { Access::Anyone };
        let dial = Arc::new(Dial::new(options).await?);
        let shortest = sessions::shortest(&dial).await?;
        let mine = Arc::<Mine>::default();
        let sessions = Sessions::new(dial.clone(), shortest, graves, mine.clone());
        sessions.some(Op::Connect).await?;
        Ok(Self { dial, access, sessions, _mine: mine })
    }

    /// Reads these nodes, in this order, one after the other, and not before whatever was changed until now by anybody.
    ///
    /// # Errors
    /// What the server says, or `Unavailable` if it says nothing.
    pub async fn get(&self, paths: &[&str]) -> Result<Vec<Option<Entry>>> {
        let session = self.sessions.some(Op::Read).await?;
        let read = async {
            let link = session.link().await?;
            // All on one connection, and so in this order.
            let sync = paths.first().map(|path| link.send(&Request::Sync { path }));
            let asked: Vec<_> =
                paths.iter().map(|path| link.send(&Request::Get { path, watch: false })).collect();
            if let Some(sync) = sync {
                sync.answer().await?;
            }
            let mut found = Vec::with_capacity(paths.len());
            for asked in asked {
                found.push(match asked.answer().await {
                    Ok(body) => {
                        let (data, stat) = read_data(&body).ok_or(Failure::Garbled)?;
                        Some(Entry { data, version: stat.version })
                    }
                    Err(Failure::Code(code::NO_NODE)) => None,
                    Err(failure) => return Err(failure),
                });
            }
            Ok(found)
        };
        read.await.map_err(|failure| trouble::of(failure, Op::Read))
    }

    /// Sets the data of a node that is there, whatever they were.
    ///
    /// # Errors
    /// As [`put_unless_changed`](Self::put_unless_changed); `Invalid` if the node is not there.
    pub async fn set(&self, path: &str, data: &[u8]) -> Result<()> {
        let session = self.sessions.some(Op::Write).await?;
        let set = async { session.link().await?.send(&Request::Set { path, data }).answer().await };
        set.await.map(drop).map_err(not_put)
    }

    /// Writes all of these nodes in one step if each has the version that is named, else none.
    ///
    /// # Errors
    /// What the server says, `Invalid` if the node above one of them is not there; `Unavailable` if it says nothing: it may
    /// have been done then.
    pub async fn put_unless_changed(&self, puts: &[Put<'_>]) -> Result<bool> {
        let session = self.sessions.some(Op::Write).await?;
        let write = async {
            let link = session.link().await?;
            self.put(&link, puts).await
        };
        write.await.map_err(not_put)
    }

    async fn put(&self, link: &Link, puts: &[Put<'_>]) -> Result<bool, Failure> {
        let requests: Vec<_> = puts
            .iter()
            .map(|&Put { path, data, version }| match version {
                Some(version) => Request::SetIf { path, data, version },
                None => Request::Create { path, data, life: Life::Persistent, access: self.access },
            })
            .collect();
        let answer = link.send(&Request::Multi(&requests)).answer().await?;
        match read_multi(&answer).ok_or(Failure::Garbled)? {
            0 => Ok(true),
            code::BAD_VERSION | code::NODE_EXISTS => Ok(false),
            // A node that is to be set has gone; one that is to be made has nothing above it.
            code::NO_NODE if puts.iter().any(|put| put.version.is_some()) => Ok(false),
            other => Err(Failure::Code(other)),
        }
    }
}

fn not_put(failure: Failure) -> Error {
    match failure {
        Failure::Code(code::NO_NODE) => {
            let message = "the node, or the one above it, is not there; make it first";
            Error::invalid(message).in_op(Op::Write).not_applied()
        }
        failure => trouble::of(failure, Op::Write),
    }
}

impl fmt::Debug for ZookeeperClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZookeeperClient").field("dial", &self.dial).finish_non_exhaustive()
    }
}
