//! Who can be a member of a quorum, and how members join late.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use futures_util::future::BoxFuture;
use tenure::{
    Engine, Error, ErrorKind, Failover, Fences, Floors, Grade, Member, Modes, Op, Order, Quorum, Result, Wake,
};
use tenure_testkit::faults::Gate;

use crate::{
    bed::{millis, secs},
    quorum_bed::{Disguise, Servers, exclusive, granted, let_go, timed},
};

type Named = (String, Arc<dyn Engine>);

fn named(servers: &Servers, names: &str) -> Vec<Named> {
    let members = names.chars().zip(&servers.stores);
    members.map(|(name, store)| (name.to_string(), store.another() as Arc<dyn Engine>)).collect()
}

#[track_caller]
fn refused(servers: &Servers, members: Vec<Named>, why: &str) {
    let err = Quorum::new(members, servers.settings()).unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Invalid);
    assert!(err.to_string().contains(why), "{err}");
}

#[tokio::test]
async fn too_few_an_even_number_and_one_twice_are_refused() {
    let servers = Servers::new(5);
    refused(&servers, named(&servers, ""), "a quorum of 0");
    refused(&servers, named(&servers, "a"), "a quorum of 1 cannot lose a member; name three or five");
    refused(&servers, named(&servers, "ab"), "a quorum of 2");
    refused(&servers, named(&servers, "abcd"), "survives no more failures than one of 3; name an odd number");
    refused(&servers, named(&servers, "aba"), "two members are called `a`");
    let mut twice = named(&servers, "abc");
    twice[2].1 = servers.stores[0].another();
    refused(&servers, twice, "`c` is the same server as `a`");
}

#[tokio::test]
async fn a_quorum_and_a_group_that_fails_over_are_no_members() {
    let servers = Servers::new(3);
    let mut nested = named(&servers, "abc");
    nested[1].1 = Servers::new(3).quorum();
    refused(&servers, nested, "`b` is a quorum itself");
    let mut group = named(&servers, "abc");
    group[2].1 = Disguise::over(group[2].1.clone(), |its| its.failover = Failover::MayForget);
    refused(&servers, group, "`c` is a group of servers whose failover may forget");
}

#[tokio::test]
async fn without_floors_there_are_no_fences_and_it_must_be_said() {
    let servers = Servers::new(3);
    let mut mixed = named(&servers, "abc");
    mixed[1].1 =
        Disguise::over(mixed[1].1.clone(), |its| (its.engine, its.floors) = ("etcd", Floors::Ignored));
    refused(&servers, mixed.clone(), "`b` (etcd) cannot lift its numbers to a floor");
    let mut settings = servers.settings();
    settings.without_fences = true;
    let quorum = Quorum::new(mixed, settings).unwrap();
    assert_eq!(quorum.guarantees().grade, Grade::Advisory);
    let facts = quorum.examine().await.unwrap();
    assert!(facts.iter().any(|fact| fact.warns && fact.name == "fences"), "{facts:?}");
    let claim = exclusive();
    granted(quorum.attempt(&claim).await);
    let_go(&quorum, &claim).await;
    servers.occupy(&[0, 2]).await;
    crate::quorum_bed::busy(quorum.attempt(&exclusive()).await);
}

#[tokio::test]
async fn it_promises_the_least_of_its_members_and_what_a_quorum_adds() {
    let servers = Servers::new(3);
    let quorum = servers.dressed(|i, engine| {
        Disguise::over(engine, |its| match i {
            0 => (its.grade, its.fences) = (Grade::Advisory, Fences::Durable),
            1 => its.min_ttl = secs(2),
            _ => its.fences = Fences::ClockBound,
        })
    });
    let its = quorum.guarantees();
    assert_eq!(
        (its.engine, its.grade),
        ("quorum", Grade::Leased),
        "the quarantine covers what a restart forgets"
    );
    assert_eq!((its.order, its.wake, its.floors), (Order::Any, Wake::Poll, Floors::Ignored));
    assert_eq!(its.modes, Modes { shared: true, permits: false });
    assert_eq!((its.fences, its.min_ttl), (Fences::ClockBound, secs(2)));
}

/// A member that can be opened once the gate is open; before, it fails.
fn late(name: &str, engine: Arc<dyn Engine>, up: &Gate, opened: &Arc<AtomicUsize>) -> Member {
    let (up, opened) = (up.clone(), opened.clone());
    Member::late(name, move || -> BoxFuture<'static, Result<Arc<dyn Engine>>> {
        let (engine, up, opened) = (engine.clone(), up.clone(), opened.clone());
        Box::pin(async move {
            opened.fetch_add(1, Ordering::Relaxed);
            if format!("{up:?}").contains("open: true") {
                Ok(engine)
            } else {
                Err(Error::unavailable(Op::Connect, "connection refused"))
            }
        })
    })
}

fn members(servers: &Servers, last: Member) -> Vec<Member> {
    let mut members: Vec<_> =
        named(servers, "ab").into_iter().map(|(name, it)| Member::open(name, it)).collect();
    members.push(last);
    members
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_down_joins_when_it_is_up() {
    let servers = Servers::new(3);
    let (up, opened) = (Gate::default(), Arc::default());
    let last = late("c", servers.stores[2].another(), &up, &opened);
    let quorum = Quorum::open(members(&servers, last), servers.settings()).await.unwrap();
    assert_eq!(quorum.guarantees().fences, Fences::ClockBound);
    let facts = quorum.examine().await.unwrap();
    let fact = facts.iter().find(|fact| fact.name == "members").unwrap();
    assert!(fact.warns && fact.text.contains("c is out (connection refused)"), "{fact:?}");
    let claim = exclusive();
    granted(quorum.attempt(&claim).await);
    let_go(&quorum, &claim).await;
    assert_eq!(opened.load(Ordering::Relaxed), 1, "not asked again at once");

    up.open();
    tokio::time::sleep(millis(250)).await;
    granted(quorum.attempt(&claim).await);
    servers.come_to(&[1; 3]).await;
    assert_eq!(opened.load(Ordering::Relaxed), 2);
    let_go(&quorum, &claim).await;
    assert_eq!(servers.places().await, [0; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_late_member_that_is_another_under_a_second_name_never_counts() {
    let servers = Servers::new(3);
    let (up, opened) = (Gate::default(), Arc::default());
    let last = late("c", servers.stores[0].another(), &up, &opened);
    let quorum = Quorum::open(members(&servers, last), servers.settings()).await.unwrap();
    up.open();
    tokio::time::sleep(millis(250)).await;
    servers.occupy(&[1]).await;
    let err = quorum.attempt(&exclusive()).await;
    // One of three granted, one is busy, and the third is the first again.
    crate::quorum_bed::busy(err);
    let facts = quorum.examine().await.unwrap();
    assert!(facts.iter().any(|fact| fact.text.contains("`c` is the same server as `a`")), "{facts:?}");
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_it_does_not_open_and_says_why() {
    let servers = Servers::new(3);
    let (up, opened) = (Gate::default(), Arc::default());
    let first = Member::open("a", servers.stores[0].another());
    let down = ["b", "c"].map(|name| late(name, servers.stores[1].another(), &up, &opened));
    let members = std::iter::once(first).chain(down).collect();
    let err = Quorum::open(members, servers.settings()).await.unwrap_err();
    assert_eq!(
        err.to_string(),
        "connect on quorum: unavailable: 1 of 3 are open: a open, b connection refused, c connection refused"
    );
    let denied = Member::late("c", || {
        Box::pin(async { Err(Error::new(ErrorKind::Denied, Op::Connect, "wrong password")) })
    });
    let err = Quorum::open(self::members(&servers, denied), servers.settings()).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Denied, "{err}");
    assert!(err.to_string().contains("c wrong password"), "{err}");
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_hangs_holds_nobody_up_and_is_tried_once_at_a_time() {
    let servers = Servers::new(3);
    let (gate, opened) = (Gate::default(), Arc::new(AtomicUsize::new(0)));
    let last = {
        let (gate, opened, store) = (gate.clone(), opened.clone(), servers.stores[2].clone());
        Member::late("c", move || {
            let (gate, opened, engine) = (gate.clone(), opened.clone(), store.another());
            Box::pin(async move {
                opened.fetch_add(1, Ordering::Relaxed);
                // As long as a host takes that does not answer.
                let _ = tokio::time::timeout(secs(4), gate.reached_by(1)).await;
                Ok(engine as Arc<dyn Engine>)
            })
        })
    };
    let (quorum, took) = timed(Quorum::open(members(&servers, last), servers.settings())).await;
    let quorum = quorum.unwrap();
    assert_eq!(took, secs(1), "a majority was open, the third had its time");
    let rival = servers.occupy(&[0]).await;
    for _ in 0..2 {
        let (answer, took) = timed(quorum.attempt(&exclusive())).await;
        crate::quorum_bed::busy(answer);
        assert!(took <= secs(1), "{took:?}");
    }
    assert_eq!(opened.load(Ordering::Relaxed), 1);
    servers.vacate(&rival).await;
    tokio::time::sleep(secs(1) + millis(1)).await;
    let claim = exclusive();
    granted(quorum.attempt(&claim).await);
    servers.come_to(&[1; 3]).await;
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused() {
    let servers = Servers::new(3);
    for change in [
        (|settings| settings.max_ttl = millis(1)) as fn(&mut tenure::QuorumSettings),
        |settings| settings.max_ttl = secs(100_000),
        |settings| settings.max_skew = secs(100_000),
        |settings| settings.member_limit = millis(0),
    ] {
        let mut settings = servers.settings();
        change(&mut settings);
        assert_eq!(Quorum::new(named(&servers, "abc"), settings).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
