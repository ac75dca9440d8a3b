//! What etcd itself offers: the `Lock` call of its server, which all its clients use, with a lease for each task.

use prost::Message;
use tenure_etcd::EtcdClient;
use tenure_testkit::etcd::Etcd;

pub(crate) struct Rival {
    client: EtcdClient,
    lease: i64,
    key: Vec<u8>,
}

/// `etcdserverpb.LeaseGrantRequest`
#[derive(Clone, Copy, PartialEq, Message)]
struct Grant {
    #[prost(int64, tag = "1")]
    ttl: i64,
}

/// `etcdserverpb.LeaseGrantResponse`
#[derive(Clone, Copy, PartialEq, Message)]
struct Granted {
    #[prost(int64, tag = "2")]
    id: i64,
}

/// `v3lockpb.LockRequest`
#[derive(Clone, PartialEq, Message)]
struct Lock {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(int64, tag = "2")]
    lease: i64,
}

/// `v3lockpb.LockResponse`, and with tag 1 `v3lockpb.UnlockRequest`
#[derive(Clone, PartialEq, Message)]
struct Locked {
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Free {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

impl Rival {
    pub(crate) const NAME: &str = "etcd's Lock call";
    pub(crate) const REQUESTS: &str = "revisions";

    pub(crate) async fn open(url: &str, _task: usize) -> Self {
        let options = tenure_etcd::EtcdOptions::from_url(&mut url.parse().unwrap()).unwrap();
        let client = EtcdClient::open(options).await.unwrap();
        // Longer than the measurement, so that it need not be kept alive.
        let granted: Granted =
            client.call("etcdserverpb.Lease/LeaseGrant", &Grant { ttl: 600 }).await.unwrap();
        Self { client, lease: granted.id, key: Vec::new() }
    }

    pub(crate) async fn acquire(&mut self) {
        let lock = Lock { name: b"hot".to_vec(), lease: self.lease };
        let locked: Locked = self.client.call("v3lockpb.Lock/Lock", &lock).await.unwrap();
        self.key = locked.key;
    }

    pub(crate) async fn release(&mut self) {
        let free = Free { key: std::mem::take(&mut self.key) };
        let _: crate::Done = self.client.call("v3lockpb.Lock/Unlock", &free).await.unwrap();
    }

    /// Every change of the store is a revision.
    pub(crate) fn requests(server: &Etcd) -> f64 {
        server.admin().put("counted", "").unwrap() as f64
    }
}
