use async_trait::async_trait;
use tenure_core::{Record, Result, Stamp};
use tenure_zookeeper::{Entry, Put, ZookeeperClient};

use super::{
    Written,
    pair::{self, Look, Pair},
};

/// A node of ZooKeeper that only those may change who have not been overtaken.
///
/// The record is a node beside it, `<path>.fence`; the node above both must be there. Each change requires that neither has changed
/// since it was seen, so that a claim is two round trips and so is a write.
///
/// # Examples
/// ```no_run
/// # async fn doc(guard: tenure::Guard) -> tenure::Result<()> {
/// use tenure::fence::{Zookeeper, ZookeeperClient, Written};
///
/// let client = ZookeeperClient::connect("zookeeper://localhost").await?;
/// let (stock, stamp) = (Zookeeper::new("/shop/stock-4711"), guard.stamp());
/// let n = stock.claim(&client, stamp).await?; // before the first read
/// let left = stock.read(&client, stamp).await?;
/// assert_eq!(stock.write(&client, stamp, n + 1, b"99").await?, Written::Now);
/// # let _ = left;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Zookeeper {
    path: String,
    record: String,
}

impl Zookeeper {
    /// The node at this path, as a whole and with no regard to that of a URL, with its record beside it.
    pub fn new(path: impl Into<String>) -> Self {
        let path = path.into();
        let record = format!("{path}.fence");
        Self { path, record }
    }

    /// Shuts out every earlier holder, and says the number of this holder's last write: 0 if it has not written.
    ///
    /// # Errors
    /// `Refused` if a later holder was here; `Invalid` if the node above is not there; `Unavailable` if ZooKeeper does not
    /// answer.
    /// # Cancel safety
    /// The claim may have been done. Claim again.
    pub async fn claim(&self, on: &ZookeeperClient, stamp: Stamp) -> Result<u64> {
        pair::claim(&self.on(on), stamp).await
    }

    /// The data of the node; `None` if it is not there.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, or this one has not claimed; `Unavailable` as [`claim`](Self::claim).
    pub async fn read(&self, on: &ZookeeperClient, stamp: Stamp) -> Result<Option<Vec<u8>>> {
        pair::read(&self.on(on), stamp).await
    }

    /// Sets the data of the node, which is made if need be, as the `n`th write of this holder.
    ///
    /// # Errors
    /// `Refused` if a later holder was here, this one has not claimed, or this is not its next write; `Invalid` for a
    /// shared hold; `Unavailable` as [`claim`](Self::claim), and then it may have been done: write the same again, under
    /// the same number.
    /// # Cancel safety
    /// The write may have been done. Write the same again, under the same number.
    pub async fn write(&self, on: &ZookeeperClient, stamp: Stamp, n: u64, data: &[u8]) -> Result<Written> {
        pair::write(&self.on(on), stamp, n, data).await
    }

    /// What the node has seen, for people.
    ///
    /// # Errors
    /// `Unavailable` as [`claim`](Self::claim).
    pub async fn record(&self, on: &ZookeeperClient) -> Result<Record> {
        pair::record(&self.on(on)).await
    }

    fn on<'a>(&'a self, client: &'a ZookeeperClient) -> On<'a> {
        On { node: self, client }
    }
}

struct On<'a> {
    node: &'a Zookeeper,
    client: &'a ZookeeperClient,
}

#[async_trait]
impl Pair for On<'_> {
    /// The versions of the record and of the data; none of what is not there.
    type Seen = (Option<i32>, Option<i32>);

    async fn look(&self) -> Result<Look<Self::Seen>> {
        // The data first: a record that is still ours afterwards says that they were.
        let mut found = self.client.get(&[&self.node.path, &self.node.record]).await?.into_iter();
        let (value, record) = (found.next().flatten(), found.next().flatten());
        let version = |entry: &Option<Entry>| entry.as_ref().map(|entry| entry.version);
        Ok(Look {
            seen: (version(&record), version(&value)),
            record: record.map(|entry| entry.data),
            value: value.map(|entry| entry.data),
        })
    }

    async fn change(&self, seen: Self::Seen, record: String, value: Option<&[u8]>) -> Result<bool> {
        let mut puts = vec![Put { path: &self.node.record, data: record.as_bytes(), version: seen.0 }];
        puts.extend(value.map(|data| Put { path: &self.node.path, data, version: seen.1 }));
        self.client.put_unless_changed(&puts).await
    }
}
