use async_trait::async_trait;
use tenure_core::{Record, Result, Stamp};
use tenure_etcd::EtcdClient;

use super::{
    Written,
    pair::{self, Look, Pair},
};

/// A key of etcd that only those may change who have not been overtaken.
///
/// The record is a key beside it, `<key>:fence`. Each change is one transaction that requires the record to be as it was seen, so that
/// a claim is two round trips and so is a write.
///
/// # Examples
/// ```no_run
/// # async fn doc(guard: tenure::Guard) -> tenure::Result<()> {
/// use tenure::fence::{Etcd, EtcdClient, Written};
///
/// let client = EtcdClient::connect("etcd://localhost").await?;
/// let (stock, stamp) = (Etcd::new("stock/4711"), guard.stamp());
/// let n = stock.claim(&client, stamp).await?; // before the first read
/// let left = stock.read(&client, stamp).await?;
/// assert_eq!(stock.write(&client, stamp, n + 1, b"99").await?, Written::Now);
/// # let _ = left;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Etcd {
    key: Vec<u8>,
    record: Vec<u8>,
}

impl Etcd {
    /// The key of this name, with its record beside it.
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        let key = key.into();
        let record = [&key[..], b":fence"].concat();
        Self { key, record }
    }

    /// Shuts out every earlier holder, and says the number of this holder's last write: 0 if it has not written.
    ///
    /// # Errors
    /// `Refused` if a later holder was here; `Unavailable` if etcd does not answer.
    /// # Cancel safety
    /// The claim may have been done. Claim again.
    pub async fn claim(&self, on: &EtcdClient, stamp: Stamp) -> Result<u64> {
        pair::claim(&self.on(on), stamp).await
    }

    /// The value of the key; `None` if it is not there.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, or this one has not claimed; `Unavailable` as [`claim`](Self::claim).
    pub async fn read(&self, on: &EtcdClient, stamp: Stamp) -> Result<Option<Vec<u8>>> {
        pair::read(&self.on(on), stamp).await
    }

    /// Sets the key to this value, as the `n`th write of this holder.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, this one has not claimed, or this is not its next write; `Invalid` for a
    /// shared hold; `Unavailable` as [`claim`](Self::claim), and then it may have been done: write the same again, under
    /// the same number.
    /// # Cancel safety
    /// The write may have been done. Write the same again, under the same number.
    pub async fn write(&self, on: &EtcdClient, stamp: Stamp, n: u64, value: &[u8]) -> Result<Written> {
        pair::write(&self.on(on), stamp, n, value).await
    }

    /// What the key has seen, for people.
    ///
    /// # Errors
    /// `Unavailable` as [`claim`](Self::claim).
    pub async fn record(&self, on: &EtcdClient) -> Result<Record> {
        pair::record(&self.on(on)).await
    }

    fn on<'a>(&'a self, client: &'a EtcdClient) -> On<'a> {
        On { etcd: self, client }
    }
}

struct On<'a> {
    etcd: &'a Etcd,
    client: &'a EtcdClient,
}

#[async_trait]
impl Pair for On<'_> {
    /// When the record was last written.
    type Seen = i64;

    async fn look(&self) -> Result<Look<i64>> {
        let mut found = self.client.get(&[&self.etcd.record, &self.etcd.key]).await?.into_iter();
        let (record, value) = (found.next().flatten(), found.next().flatten());
        Ok(Look {
            seen: record.as_ref().map_or(0, |entry| entry.mod_revision),
            record: record.map(|entry| entry.value),
            value: value.map(|entry| entry.value),
        })
    }

    async fn change(&self, seen: i64, record: String, value: Option<&[u8]>) -> Result<bool> {
        let mut writes = vec![(&self.etcd.record[..], record.as_bytes())];
        writes.extend(value.map(|value| (&self.etcd.key[..], value)));
        self.client.put_unless_changed(&self.etcd.record, seen, &writes).await
    }
}
