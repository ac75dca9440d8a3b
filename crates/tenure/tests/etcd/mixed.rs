//! A quorum of three engines that have nothing in common: Redis, etcd and PostgreSQL.

use std::sync::Arc;

use tenure::{Client, Engine, ErrorKind, Grade, Quorum, QuorumSettings, Settings};
use tenure_testkit::{
    etcd::{Etcd, EtcdOptions},
    postgres::{Postgres, PostgresOptions},
    redis::{Persistence, Redis, RedisOptions},
};

use crate::bed::{Ledger, contend, secs, within};

struct Three {
    redis: Redis,
    etcd: Etcd,
    postgres: Postgres,
}

impl Three {
    fn start() -> Self {
        // One that may forget is not counted at first.
        let kept = RedisOptions { persistence: Persistence::AofAlways, ..RedisOptions::default() };
        Self {
            redis: Redis::start(kept).unwrap(),
            etcd: Etcd::start(EtcdOptions::default()).unwrap(),
            postgres: Postgres::start(PostgresOptions::default()).unwrap(),
        }
    }

    /// Connections of their own, as another process would have.
    async fn members(&self) -> Vec<(String, Arc<dyn Engine>)> {
        let mut members = Vec::new();
        for url in [self.redis.url(), self.etcd.url(), self.postgres.url()] {
            let (engine, _) = tenure::open(&url).await.unwrap();
            members.push((engine.guarantees().engine.to_owned(), engine));
        }
        members
    }

    async fn client(&self) -> Client {
        let mut agreed = QuorumSettings::default();
        agreed.without_fences = true;
        let quorum = Quorum::new(self.members().await, agreed).unwrap();
        assert_eq!(quorum.guarantees().grade, Grade::Advisory);
        let mut settings = Settings::default();
        settings.ttl = secs(4);
        Client::new(quorum, settings).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_one_of_three_different_engines_may_go_and_no_two() {
    const ROUNDS: usize = 10;
    let three = Three::start();
    // Their numbers have nothing to do with each other.
    let err = Quorum::new(three.members().await, QuorumSettings::default()).unwrap_err();
    assert!(err.kind() == ErrorKind::Invalid && err.to_string().contains("cannot lift its numbers"), "{err}");

    let (one, two) = (three.client().await, three.client().await);
    let ledger = Ledger::default();
    let both = || async {
        tokio::join!(contend(&one, "k", ROUNDS, &ledger), contend(&two, "k", ROUNDS, &ledger));
    };
    both().await;
    three.redis.kill().unwrap();
    both().await;
    three.redis.restart().unwrap();
    three.etcd.kill().unwrap();
    both().await;
    assert_eq!(ledger.count(), 6 * ROUNDS as u64);

    let guard = one.mutex("k").unwrap().acquire().await.unwrap();
    three.postgres.kill().unwrap();
    let err = two.mutex("new").unwrap().try_acquire().await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
    within("the guard is told", guard.lost()).await;
}
