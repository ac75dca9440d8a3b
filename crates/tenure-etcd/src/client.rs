//! A bare client of etcd, without locks.

use std::fmt;

use prost::Message;
use tenure_core::{EngineUrl, Op, Result};

use crate::{
    links::Links,
    pb,
    sessions::txn,
    tls::Trust,
    url::{EtcdOptions, OPTIONS},
};

/// A bare client of the store that the locks are in: for the data that they guard, where a program has no other.
///
/// It asks one server at a time and goes to another when that fails, like the engine; a call that failed is not made
/// again by itself.
pub struct EtcdClient {
    links: Links,
}

impl EtcdClient {
    /// Connects to the servers of an engine's URL, `etcd://host1,host2`.
    ///
    /// # Errors
    /// `Invalid` for what is wrong with the URL, else as [`open`](Self::open).
    pub async fn connect(url: &str) -> Result<Self> {
        let mut url: EngineUrl = url.parse()?;
        let options = EtcdOptions::from_url(&mut url)?;
        url.no_more_options(OPTIONS)?;
        Self::open(options).await
    }

    /// Connects to the first server that answers and knows a leader.
    ///
    /// # Errors
    /// `Unavailable` if none does, `Denied` for a wrong password.
    pub async fn open(options: EtcdOptions) -> Result<Self> {
        let trust = match &options.tls {
            Some(tls) => Some(Trust::load(tls).await?),
            None => None,
        };
        let links = Links::new(options, trust);
        links.at(Op::Connect).await?;
        Ok(Self { links })
    }

    /// Reads these keys, all at one revision.
    ///
    /// # Errors
    /// What the server says, or `Unavailable` if it says nothing.
    pub async fn get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Entry>>> {
        let look = |key: &&[u8]| {
            pb::Request::Range(pb::RangeRequest { key: key.to_vec(), ..Default::default() }).into()
        };
        let success = keys.iter().map(look).collect();
        let link = self.links.at(Op::Read).await?;
        let found = txn(&link, Op::Read, pb::TxnRequest { success, ..Default::default() }).await?;
        let entry = |kv: pb::KeyValue| Entry { value: kv.value, mod_revision: kv.mod_revision };
        Ok(found.ranges().into_iter().map(|kvs| kvs.into_iter().next().map(entry)).collect())
    }

    /// Writes all of these, unless `key` was changed after this revision; zero stands for a key that is not there.
    ///
    /// # Errors
    /// What the server says, or `Unavailable` if it says nothing: it may have been done then.
    pub async fn put_unless_changed(
        &self,
        key: &[u8],
        mod_revision: i64,
        writes: &[(&[u8], &[u8])],
    ) -> Result<bool> {
        let put = |&(key, value): &(&[u8], &[u8])| {
            pb::Request::Put(pb::PutRequest { key: key.to_vec(), value: value.to_vec(), lease: 0 }).into()
        };
        let request = pb::TxnRequest {
            compare: vec![pb::Compare::written_at(key.to_vec(), mod_revision)],
            success: writes.iter().map(put).collect(),
            failure: Vec::new(),
        };
        let link = self.links.at(Op::Write).await?;
        Ok(txn(&link, Op::Write, request).await?.succeeded)
    }

    /// Calls a method that takes one message and gives one: `etcdserverpb.KV/Put`. The messages are those of etcd's
    /// protocol, in `prost`'s form.
    ///
    /// # Errors
    /// What the server says, or `Unavailable` if it says nothing.
    pub async fn call<R: Message + Default>(
        &self,
        method: &'static str,
        message: &impl Message,
    ) -> Result<R> {
        self.links.at(Op::Run).await?.call(Op::Run, method, message).await
    }
}

/// What a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its value.
    pub value: Vec<u8>,
    /// When it was last written.
    pub mod_revision: i64,
}

impl fmt::Debug for EtcdClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdClient").field("options", &self.links.options).finish_non_exhaustive()
    }
}
