//! What every resource promises, one module per rule, for each resource and each driver.

use std::pin::pin;

use futures_util::poll;
use tenure::{Client, ErrorKind, Settings, fence::Why};

use crate::{
    bed::{BEFORE, LIMIT, NOW, by, fresh, orders, reader, stamp, why, within, writer},
    sites::{Site, Way},
};

/// The rules, as tests of each resource.
macro_rules! on_every_resource {
    ($($rule:ident)+) => {$(
        mod $rule {
            use crate::sites::*;

            on_every_resource! { @ $rule
                memory InMemory, file InFile, redis InRedis, etcd InEtcd, zookeeper InZookeeper,
                sqlx_mysql InRow<sqlx::MySqlConnection>, mysql_async InRow<mysql_async::Conn>,
                sqlx_postgres InRow<sqlx::PgConnection>, tokio_postgres InRow<tokio_postgres::Client>,
            }
        }
    )+};
    (@ $rule:ident $($name:ident $site:ty,)+) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            crate::bed::within("the rule is tried", super::$rule::<$site>(<$site>::new().await)).await;
        }
    )+};
}

on_every_resource! {
    the_late_write_of_a_paused_holder_is_refused
    no_order_of_steps_loses_an_update
    a_delayed_copy_is_refused_and_a_repeated_write_counts_once
    a_forgotten_claim_is_refused
    readers_shut_out_earlier_writers_and_not_each_other
    a_rival_with_the_same_fence_is_refused
    a_writer_that_became_a_reader_reads_on
    tasks_that_hand_over_claim_for_themselves
    a_holder_elsewhere_shows_the_same_stamp
}

async fn client() -> Client {
    tenure::connect("memory:").await.unwrap()
}

/// The holder is stopped past its lease; another takes the lock, claims and writes. What the first one does then is
/// refused, and changes nothing.
async fn the_late_write_of_a_paused_holder_is_refused<S: Site>(site: S) {
    let (mut old_way, mut new_way) = (site.way().await, site.way().await);
    let mutex = client().await.mutex(fresh("counter")).unwrap();
    let old = mutex.clone().fixed_lease(std::time::Duration::from_millis(100)).acquire().await.unwrap();
    let n = old_way.claim(old.stamp()).await.unwrap();
    assert_eq!(old_way.write(old.stamp(), n + 1, 1).await.unwrap(), NOW);
    let seen = old_way.read(old.stamp()).await.unwrap();
    within("the lease is over", old.lost()).await;

    let new = within("the lock is free", mutex.acquire()).await.unwrap();
    assert!(new.stamp().fence() > old.stamp().fence());
    assert_eq!(new_way.claim(new.stamp()).await.unwrap(), 0);
    let overtaken = Why::Overtaken { by: new.stamp().fence() };
    assert_eq!(why(old_way.write(old.stamp(), n + 2, seen + 1).await), overtaken);
    assert_eq!(why(old_way.read(old.stamp()).await), overtaken);
    assert_eq!(why(old_way.claim(old.stamp()).await), overtaken);
    assert_eq!(new_way.read(new.stamp()).await.unwrap(), 1, "the late write left something");
    assert_eq!(new_way.write(new.stamp(), 1, 2).await.unwrap(), NOW);
    let err = old_way.write(old.stamp(), n + 2, seen + 1).await.unwrap_err();
    assert_eq!((err.kind(), err.may_have_applied()), (ErrorKind::Refused, false));
    for number in [old.stamp().fence(), new.stamp().fence()] {
        assert!(err.to_string().contains(&number.to_string()), "{err}");
    }
    assert_eq!(new_way.peek().await, 2);
}

/// Two holders, both of which believe, each claim, read, and write one more than they read, in every order. Nothing
/// that was acknowledged is missing. The same with a check on writes alone: there, updates are lost.
async fn no_order_of_steps_loses_an_update<S: Site>(site: S) {
    let mut ways = [site.way().await, site.way().await];
    let (mut lost_when_claimed, mut lost_when_not) = (0, 0);
    let mut fence = 1;
    for order in orders(3) {
        let start = ways[0].peek().await;
        let (mut steps, mut seen, mut acknowledged) = ([0; 2], [None; 2], 0);
        for who in order {
            let (way, stamp) = (&mut ways[who], writer(fence + who as u8));
            match steps[who] {
                0 => drop(way.claim(stamp).await),
                1 => seen[who] = way.read(stamp).await.ok(),
                _ => {
                    let written = match seen[who] {
                        Some(value) => way.write(stamp, 1, value + 1).await.ok(),
                        None => None,
                    };
                    acknowledged += i64::from(written == Some(NOW));
                }
            }
            steps[who] += 1;
        }
        lost_when_claimed += acknowledged - (ways[0].peek().await - start);
        fence += 2;
    }
    for order in orders(2) {
        let start = ways[0].peek().await;
        let (mut seen, mut acknowledged) = ([None; 2], 0);
        for who in order {
            let (way, stamp) = (&mut ways[who], writer(fence + who as u8));
            let Some(value) = seen[who] else {
                seen[who] = Some(way.peek().await);
                continue;
            };
            // Claimed in the moment of the write: that is what a check on writes alone does.
            if way.claim(stamp).await.is_ok() {
                assert_eq!(way.write(stamp, 1, value + 1).await.unwrap(), NOW);
                acknowledged += 1;
            }
        }
        lost_when_not += acknowledged - (ways[0].peek().await - start);
        fence += 2;
    }
    // The two orders in which both read first and the older one writes first.
    assert_eq!((lost_when_claimed, lost_when_not), (0, 2));
}

async fn a_delayed_copy_is_refused_and_a_repeated_write_counts_once<S: Site>(site: S) {
    let (mut way, mut copy) = (site.way().await, site.way().await);
    let holder = writer(5);
    assert_eq!(way.claim(holder).await.unwrap(), 0);
    assert_eq!(way.write(holder, 1, 10).await.unwrap(), NOW);
    assert_eq!(copy.write(holder, 1, 11).await.unwrap(), BEFORE, "the reply was lost");
    assert_eq!(way.peek().await, 10);
    assert_eq!(way.write(holder, 2, 20).await.unwrap(), NOW);
    assert_eq!(why(copy.write(holder, 1, 10).await), Why::OutOfStep { n: 1 }, "a copy from before");
    assert_eq!(why(copy.write(holder, 4, 40).await), Why::OutOfStep { n: 4 }, "one was left out");
    assert_eq!(why(copy.write(holder, 0, 40).await), Why::OutOfStep { n: 0 });
    assert_eq!(why(copy.write(holder, u64::MAX, 40).await), Why::OutOfStep { n: u64::MAX });
    assert_eq!((way.peek().await, way.claim(holder).await.unwrap()), (20, 2), "claimed again, it goes on");
    assert_eq!(way.write(holder, 3, 30).await.unwrap(), NOW);
    assert_eq!((way.peek().await, way.record().await.n()), (30, 3));
}

async fn a_forgotten_claim_is_refused<S: Site>(site: S) {
    let mut way = site.way().await;
    for holder in [writer(4), writer(6)] {
        assert_eq!(why(way.write(holder, 1, 7).await), Why::NotClaimed);
        assert_eq!(why(way.read(holder).await), Why::NotClaimed);
        assert_eq!(why(way.read(reader(6)).await), Why::NotClaimed);
        way.claim(writer(5)).await.unwrap_or_default();
    }
    assert_eq!(way.peek().await, 0);
    let err = way.write(writer(6), 1, 7).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Refused);
}

async fn readers_shut_out_earlier_writers_and_not_each_other<S: Site>(site: S) {
    let (mut old, mut one, mut other) = (site.way().await, site.way().await, site.way().await);
    old.claim(writer(5)).await.unwrap();
    assert_eq!(old.write(writer(5), 1, 1).await.unwrap(), NOW);
    one.claim(reader(8)).await.unwrap();
    other.claim(reader(7)).await.unwrap();
    for _ in 0..2 {
        assert_eq!((one.read(reader(8)).await.unwrap(), other.read(reader(7)).await.unwrap()), (1, 1));
    }
    assert_eq!(why(old.write(writer(5), 2, 2).await), by(8));
    assert_eq!(why(old.claim(writer(5)).await), by(8));
    assert_eq!(old.write(reader(8), 1, 2).await.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(old.peek().await, 1);
    old.claim(writer(9)).await.unwrap();
    assert_eq!(why(one.read(reader(8)).await), by(9));
    assert_eq!(why(other.claim(reader(7)).await), by(9));
}

async fn a_rival_with_the_same_fence_is_refused<S: Site>(site: S) {
    let mut way = site.way().await;
    let rival = stamp(5, 99, tenure::Mode::Exclusive);
    way.claim(writer(5)).await.unwrap();
    assert_eq!(why(way.claim(rival).await), Why::Rival);
    assert_eq!(why(way.write(rival, 1, 7).await), Why::Rival);
    assert_eq!(way.write(writer(5), 1, 1).await.unwrap(), NOW);
    assert_eq!(way.record().await.claim_id(), writer(5).claim_id());
}

async fn a_writer_that_became_a_reader_reads_on<S: Site>(site: S) {
    let mut way = site.way().await;
    let lock = client().await.rwlock(fresh("counter")).unwrap();
    let guard = lock.write().await.unwrap();
    let before = guard.stamp();
    way.claim(before).await.unwrap();
    assert_eq!(way.write(before, 1, 1).await.unwrap(), NOW);
    let guard = guard.downgrade().await.unwrap();
    assert_eq!((guard.stamp().fence(), guard.stamp().mode()), (before.fence(), tenure::Mode::Shared));
    assert_eq!(way.read(guard.stamp()).await.unwrap(), 1);
    assert_eq!(way.write(guard.stamp(), 2, 2).await.unwrap_err().kind(), ErrorKind::Invalid);
    let other = lock.read().await.unwrap();
    way.claim(other.stamp()).await.unwrap();
    assert_eq!(way.read(guard.stamp()).await.unwrap(), 1, "shut out by another reader");
    assert_eq!(why(way.write(before, 2, 2).await), Why::Overtaken { by: other.stamp().fence() });
}

/// Tasks of one process share a place, and so a claim id. Each has a fence of its own.
async fn tasks_that_hand_over_claim_for_themselves<S: Site>(site: S) {
    let mut way = site.way().await;
    let mut settings = Settings::default();
    settings.turn_time = LIMIT; // however slow the resource is
    let client = Client::new(tenure_local::Memory::new(settings.clock.clone()), settings).unwrap();
    let mutex = client.mutex("counter").unwrap();
    let first = mutex.acquire().await.unwrap();
    // In the queue of the process, behind the first.
    let mut waiting = pin!(mutex.acquire());
    assert!(poll!(&mut waiting).is_pending());
    way.claim(first.stamp()).await.unwrap();
    let old = first.stamp();
    first.release().await.unwrap();
    let second = within("it is handed over", waiting).await.unwrap();
    assert_eq!(second.claim_id(), old.claim_id());
    way.claim(second.stamp()).await.unwrap();
    assert_eq!(why(way.write(old, 1, 1).await), Why::Overtaken { by: second.stamp().fence() });
    assert_eq!(way.write(second.stamp(), 1, 2).await.unwrap(), NOW);
}

/// A stamp is text on the way to another process, and the same there.
async fn a_holder_elsewhere_shows_the_same_stamp<S: Site>(site: S) {
    let mut way = site.way().await;
    let work = client()
        .await
        .mutex(fresh("counter"))
        .unwrap()
        .run(|held| async move { held.stamp().to_string() })
        .await;
    let stamp = work.unwrap().parse().unwrap();
    way.claim(stamp).await.unwrap();
    assert_eq!(way.write(stamp, 1, 1).await.unwrap(), NOW);
    assert_eq!(way.read(stamp).await.unwrap(), 1);
}
