//! What the calls cost that a lock is made of, each beside a plain write of one key in the same run: how much of what a lock
//! costs above two writes is the server's own.

use prost::Message;

use crate::{
    Done, Yardstick,
    block::block,
    common::{median, report, runtime},
    server, verbs,
};

/// `etcdserverpb.PutRequest`, with a lease.
#[derive(Clone, PartialEq, Message)]
struct Kept {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
    #[prost(int64, tag = "3")]
    lease: i64,
}

/// `etcdserverpb.DeleteRangeRequest`
#[derive(Clone, PartialEq, Message)]
struct Delete {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// `etcdserverpb.RequestOp` that is a write.
#[derive(Clone, PartialEq, Message)]
struct Op {
    #[prost(message, optional, tag = "2")]
    put: Option<Kept>,
}

/// `etcdserverpb.Compare` of the revision that created a key, or all of a range, with zero.
#[derive(Clone, PartialEq, Message)]
struct Compare {
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(int64, optional, tag = "5")]
    created: Option<i64>,
    #[prost(bytes = "vec", tag = "64")]
    range_end: Vec<u8>,
}

/// `etcdserverpb.TxnRequest`
#[derive(Clone, PartialEq, Message)]
struct Txn {
    #[prost(message, repeated, tag = "1")]
    compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    success: Vec<Op>,
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

const PUT: &str = "etcdserverpb.KV/Put";

pub(crate) fn measure() {
    const OPS: u32 = 10;
    let server = server();
    runtime().block_on(async {
        let plain = Yardstick::open(&server.url()).await;
        let client = Yardstick::open(&server.url()).await.0;
        let lease = client.call::<Granted>("etcdserverpb.Lease/LeaseGrant", &Grant { ttl: 600 }).await;
        let lease = lease.unwrap().id;
        let key = |n: u32| format!("part/{n:032}").into_bytes();
        let kept = |n: u32, lease| Kept { key: key(n), value: b"x".repeat(64), lease };
        let none_in = |start: Vec<u8>, range_end: &[u8]| Compare {
            target: 1,
            key: start,
            created: Some(0),
            range_end: range_end.to_vec(),
        };
        let engine = crate::engine(&server.url()).await;
        let library = tenure::Client::new(engine.clone(), tenure::Settings::default()).unwrap();
        let mutex = library.mutex("k").unwrap();
        let [mut writes, mut deletes, mut leased, mut txns, mut verbs, mut all] = [const { Vec::new() }; 6];
        for _ in 0..100 {
            writes.push(block(OPS, async || plain.once().await).await);
            let mut n = 0;
            let mut next = || {
                n += 1;
                n
            };
            leased.push(
                block(OPS, async || {
                    let _: Done = client.call(PUT, &kept(next(), lease)).await.unwrap();
                })
                .await,
            );
            let mut n = 0;
            deletes.push(
                block(OPS, async || {
                    n += 1;
                    let delete = Delete { key: key(n) };
                    let _: Done = client.call("etcdserverpb.KV/DeleteRange", &delete).await.unwrap();
                })
                .await,
            );
            let mut n = 0;
            txns.push(
                block(OPS, async || {
                    n += 1;
                    let compare = vec![none_in(key(n), b"part0"), none_in(b"grave".to_vec(), b"")];
                    let txn = Txn { compare, success: vec![Op { put: Some(kept(n, 0)) }] };
                    let _: Done = client.call("etcdserverpb.KV/Txn", &txn).await.unwrap();
                    let delete = Delete { key: key(n) };
                    let _: Done = client.call("etcdserverpb.KV/DeleteRange", &delete).await.unwrap();
                })
                .await,
            );
            verbs.push(block(OPS, async || verbs::once(engine.as_ref()).await).await);
            all.push(block(OPS, async || mutex.acquire().await.unwrap().release().await.unwrap()).await);
        }
        let write = median(writes);
        for (what, times) in [
            ("a write of a new key that a lease keeps", leased),
            ("its deletion", deletes),
            ("a write if a range is empty, and its deletion", txns),
            ("acquire + release by the engine", verbs),
            ("acquire + release by the library", all),
        ] {
            report(&format!("etcd, {what}  /  {}", crate::COMPARED), median(times), write, "no bound");
        }
    });
}
