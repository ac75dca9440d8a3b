//! The server does not come back.

use tenure::{ErrorKind, Loss};
use tenure_testkit::memcached::Memcached;

use crate::bed::{client, secs, server, told, waits, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_come_back_costs_the_lock_and_tells_the_waiter() {
    for gone in [Memcached::kill, Memcached::pause] {
        let server = server(&[]);
        let ttl = secs(2);
        let (here, there) = (client(&server.url(), ttl).await, client(&server.url(), ttl).await);
        let held = here.mutex("k").unwrap().acquire().await.unwrap();
        let waiting = waits(&there, "k").await;
        gone(&server).unwrap();
        assert_eq!(told(&held, ttl).await, Loss::Expired);
        let err = within("the waiter is told", waiting).await.unwrap().unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
    }
}
