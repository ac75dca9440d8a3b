//! The fences of a quorum, its renewals, and members that cannot be believed.

use std::sync::{Arc, Mutex};

use tenure::{Claim, Engine, ErrorKind, Evicted, Eviction, Filter, Quorum, Seq, When};
use tenure_core::{Answered, Held, Renewal};
use tenure_testkit::faults::{Fault, Faulty, Nth, Verb};

use crate::{
    bed::{millis, secs},
    quorum_bed::{Disguise, Leaping, Servers, busy, exclusive, granted, key, let_go, renew, timed},
};

fn plus(seq: Seq, more: u64) -> Seq {
    Seq::new(seq.get() + more).unwrap()
}

/// Makes a store's numbers start far above the others'.
async fn lift(servers: &Servers, store: usize, by: u64) -> Seq {
    let low = servers.occupy(&[store]).await;
    let floor = plus(servers.line(store).await[0].seq, by);
    servers.vacate(&low).await;
    let high = Claim { floor, ..exclusive() };
    let seq = granted(servers.stores[store].attempt(&high).await).seat.seq;
    servers.vacate(&high).await;
    seq
}

#[tokio::test(start_paused = true)]
async fn a_later_grant_has_a_larger_fence_though_its_majority_never_gave_the_larger_number() {
    let servers = Servers::new(3);
    let high = lift(&servers, 0, 1_000_000_000).await;

    let (first, faults) = servers.faulty();
    faults[2].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let claim = exclusive();
    let fence = granted(first.attempt(&claim).await).seat.seq;
    assert!(fence > high);
    assert!(servers.line(1).await[0].seq < high, "the second member's own number is far behind");
    let_go(&first, &claim).await;

    // Another client that has seen nothing, and cannot reach the member whose numbers are ahead.
    let (second, faults) = servers.faulty();
    faults[0].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let next = granted(second.attempt(&exclusive()).await).seat.seq;
    assert!(next > fence, "{next} after {fence}");
}

#[tokio::test(start_paused = true)]
async fn a_grant_counts_only_when_a_majority_has_taken_on_its_number() {
    for fault in [Fault::DropRequest, Fault::Hold(Default::default())] {
        let servers = Servers::new(3);
        lift(&servers, 0, 1_000_000_000).await;
        let (quorum, faults) = servers.faulty();
        faults[2].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
        faults[1].on(Verb::Renew, Nth::Call(1), fault.clone());
        let claim = exclusive();
        let err = quorum.attempt(&claim).await.unwrap_err();
        assert!(err.is_retryable() && err.to_string().contains("1 of 3 granted"), "{err}");
        servers.come_to(&[0; 3]).await;
        faults[2].calm();
        granted(quorum.attempt(&claim).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_took_as_long_as_its_lease_is_none() {
    let servers = Servers::new(3);
    lift(&servers, 0, 1_000_000_000).await;
    let clock = Arc::new(Leaping { clock: servers.clock.clone(), ahead: Mutex::default() });
    let mut settings = servers.settings();
    settings.clock = clock.clone();
    let mut gates = Vec::new();
    let members = servers.stores.iter().zip(["a", "b", "c"]).map(|(store, name)| {
        let (engine, faults) = Faulty::over(store.another());
        gates.push(faults.hold(Verb::Renew, Nth::Call(1)));
        if name == "c" {
            faults.on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
        }
        (name.to_owned(), engine)
    });
    let quorum = Quorum::new(members.collect(), settings).unwrap();
    let asking = tokio::spawn({
        let quorum = quorum.clone();
        async move { quorum.attempt(&exclusive()).await }
    });
    gates[1].reached_by(1).await;
    // 5% of 8s are the margin.
    *clock.ahead.lock().unwrap() = millis(7_600);
    gates[1].open();
    let err = asking.await.unwrap().unwrap_err();
    assert!(err.is_retryable() && err.to_string().contains("too late"), "{err}");
    servers.come_to(&[0; 3]).await;
}

#[tokio::test(start_paused = true)]
async fn a_place_taken_anew_and_not_yet_lifted_is_not_the_old_one() {
    let servers = Servers::new(3);
    let (quorum, faults) = servers.faulty();
    faults[2].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let claim = exclusive();
    let first = granted(quorum.attempt(&claim).await).seat.seq;
    tokio::time::sleep(secs(8)).await;
    // The places lapsed. Those that are taken now differ, and the caller is gone before they agree.
    lift(&servers, 0, 1_000_000_000).await;
    let again = Nth::From(faults[1].count(Verb::Renew) + 1);
    faults[1].on(Verb::Renew, again, Fault::Hold(Default::default()));
    let dropped = tokio::time::timeout(millis(10), quorum.attempt(&claim)).await;
    assert!(dropped.is_err(), "{dropped:?}");
    faults[1].calm();
    let anew = granted(quorum.attempt(&claim).await).seat.seq;
    assert!(anew > first, "{anew} after {first}");
}

#[tokio::test(start_paused = true)]
async fn one_member_whose_numbers_are_ahead_leads_nobody() {
    let servers = Servers::new(3);
    let high = lift(&servers, 0, 1_000_000_000).await;
    let quorum = servers.quorum();
    let claim = exclusive();
    assert!(granted(quorum.attempt(&claim).await).seat.seq < high);
}

#[tokio::test(start_paused = true)]
async fn where_numbers_differ_the_line_shows_the_one_that_the_holder_has() {
    let servers = Servers::new(5);
    for (store, by) in [(2, 3_000_000_000), (3, 2_000_000_000), (4, 1_000_000_000)] {
        lift(&servers, store, by).await;
    }
    let (quorum, faults) = servers.faulty();
    // Those with the smallest numbers answer a little later.
    for slow in [0, 1] {
        faults[slow].on(Verb::Attempt, Nth::Call(1), Fault::Delay(millis(5)));
    }
    let claim = exclusive();
    let (grant, took) = timed(quorum.attempt(&claim)).await;
    let seq = granted(grant).seat.seq;
    assert_eq!(took, millis(5));
    let line = servers.quorum().line(&Filter::Key(key())).await.unwrap();
    assert_eq!(line[0].seq, seq);
    let_go(&quorum, &claim).await;

    // One that hangs is waited for no longer than that.
    let (quorum, faults) = servers.faulty();
    for silent in [0, 1] {
        faults[silent].on(Verb::Attempt, Nth::EVERY, Fault::Hold(Default::default()));
    }
    lift(&servers, 3, 1_000_000_000).await;
    lift(&servers, 4, 5_000_000_000).await;
    let (grant, took) = timed(quorum.attempt(&exclusive())).await;
    granted(grant);
    assert_eq!(took, millis(10));
}

#[tokio::test(start_paused = true)]
async fn after_the_first_grant_the_members_agree_in_one_trip() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let mut last = Seq::ZERO;
    for round in 0..20 {
        let claim = exclusive();
        let seq = granted(quorum.attempt(&claim).await).seat.seq;
        assert!(seq > last);
        last = seq;
        let_go(&quorum, &claim).await;
        if round > 0 {
            let renews: usize = faults.iter().map(|faults| faults.count(Verb::Renew)).sum();
            assert!(renews <= 4, "no more than the first round needed: {renews}");
        }
        tokio::time::sleep(millis(7)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_days_ahead_of_the_clock_is_not_believed() {
    let servers = Servers::new(3);
    let far = lift(&servers, 0, 2 * 24 * 3600 * 1_000_000).await;
    let (quorum, faults) = servers.faulty();
    let claim = exclusive();
    assert!(granted(quorum.attempt(&claim).await).seat.seq < far);
    assert_eq!(servers.places().await, [0, 1, 1], "its place was given back");
    let_go(&quorum, &claim).await;
    faults[1].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let err = quorum.attempt(&exclusive()).await.unwrap_err();
    assert!(err.to_string().contains("a its number"), "{err}");
    assert!(err.to_string().contains("a day ahead of the clock"), "{err}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_restarted_counts_only_when_all_it_forgot_has_ended() {
    let servers = Servers::new(3);
    let mut disguises = Vec::new();
    let mut faults = Vec::new();
    let quorum = servers.dressed(|_, engine| {
        let (engine, script) = Faulty::over(engine);
        faults.push(script);
        let disguise = Disguise::over(engine, |_| {});
        disguises.push(disguise.clone());
        disguise
    });
    faults[0].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    *disguises[1].remembers.lock().unwrap() = Some(secs(3));
    let claim = exclusive();
    let err = quorum.attempt(&claim).await.unwrap_err();
    assert!(
        err.to_string()
            .contains("1 of 3 granted: a the request was lost on purpose, b restarted 3s ago, counts in 29s"),
        "{err}"
    );
    assert!(err.is_retryable());
    servers.come_to(&[0; 3]).await;
    let facts = quorum.examine().await.unwrap();
    let members = facts.iter().find(|fact| fact.name == "members").unwrap();
    assert!(members.warns && members.text.contains("b restarted and counts in 30s"), "{members:?}");

    // 30s of the longest ttl, 1s of skew, 1s.
    *disguises[1].remembers.lock().unwrap() = Some(secs(32) - millis(1));
    assert!(quorum.attempt(&claim).await.is_err());
    *disguises[1].remembers.lock().unwrap() = Some(secs(32));
    granted(quorum.attempt(&claim).await);
    let_go(&quorum, &claim).await;

    // One that does not count is released, though the rest is enough, and never asked again in that round.
    faults[0].calm();
    *disguises[1].remembers.lock().unwrap() = Some(secs(3));
    granted(quorum.attempt(&claim).await);
    assert_eq!(servers.places().await, [1, 0, 1]);
    let asked = faults[1].count(Verb::Attempt);
    granted(quorum.attempt(&claim).await);
    assert_eq!(faults[1].count(Verb::Attempt), asked, "an id has one life");
}

#[tokio::test(start_paused = true)]
async fn a_hold_lives_while_a_majority_renews_it() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let claim = exclusive();
    let seq = granted(quorum.attempt(&claim).await).seat.seq;
    let forget = async |stores: &[usize]| {
        for &store in stores {
            let _ = servers.stores[store].release(&claim, Answered::All).await.unwrap();
        }
    };
    forget(&[0, 1]).await;
    assert_eq!(renew(&quorum, &claim, seq).await.unwrap(), Renewal::Renewed(Some(secs(8))));
    for silent in [2, 3] {
        faults[silent].on(Verb::Renew, Nth::EVERY, Fault::Hold(Default::default()));
    }
    let (err, took) = timed(renew(&quorum, &claim, seq)).await;
    let err = err.unwrap_err();
    assert_eq!((err.kind(), took), (ErrorKind::Unavailable, secs(1)));
    assert!(
        err.to_string().contains("3 of 5 answered: a answered, b answered, c no answer within 1s"),
        "{err}"
    );
    for faults in &faults {
        faults.calm();
    }
    assert_eq!(renew(&quorum, &claim, seq).await.unwrap(), Renewal::Renewed(Some(secs(8))));
    forget(&[2]).await;
    assert_eq!(renew(&quorum, &claim, seq).await.unwrap(), Renewal::Lost);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_lifts_members_that_forgot() {
    let servers = Servers::new(3);
    let ahead = lift(&servers, 0, 1_000_000_000).await;
    lift(&servers, 1, 1_000_000_000).await;
    let (quorum, faults) = servers.faulty();
    faults[2].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let claim = exclusive();
    let fence = granted(quorum.attempt(&claim).await).seat.seq;
    assert!(fence > ahead);
    let _ = renew(&quorum, &claim, fence).await.unwrap();
    let stranger = exclusive();
    assert!(granted(servers.stores[2].attempt(&stranger).await).seat.seq > fence);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_needs_a_silent_member_does_not_take_the_others_with_it() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    servers.occupy(&[0, 1]).await;
    let weak = exclusive();
    let strong = Claim { key: tenure::Key::new("other").unwrap(), ..exclusive() };
    let weak_seq = granted(quorum.attempt(&weak).await).seat.seq;
    let strong_seq = granted(quorum.attempt(&strong).await).seat.seq;
    faults[4].on(Verb::Renew, Nth::EVERY, Fault::Hold(Default::default()));
    tokio::time::sleep(secs(2)).await;
    let holds = [Held { claim: &weak, seq: weak_seq }, Held { claim: &strong, seq: strong_seq }];
    let (answers, took) = timed(quorum.renew(&holds)).await;
    // The weak one has what its attempt gave it, 2s ago.
    assert_eq!(answers.unwrap(), [Renewal::Renewed(Some(secs(6))), Renewal::Renewed(Some(secs(8)))]);
    assert_eq!(took, secs(1));
}

#[tokio::test(start_paused = true)]
async fn many_holds_are_renewed_in_one_call_per_member() {
    let servers = Servers::new(3);
    let (quorum, faults) = servers.faulty();
    let mut held = Vec::new();
    for n in 0..50 {
        let claim = Claim { key: tenure::Key::new(format!("k{n}")).unwrap(), ..exclusive() };
        let seq = granted(quorum.attempt(&claim).await).seat.seq;
        held.push((claim, seq));
    }
    let before: Vec<_> = faults.iter().map(|faults| faults.count(Verb::Renew)).collect();
    let holds: Vec<_> = held.iter().map(|(claim, seq)| Held { claim, seq: *seq }).collect();
    assert!(quorum.renew(&holds).await.unwrap().iter().all(|answer| *answer != Renewal::Lost));
    for (faults, before) in faults.iter().zip(before) {
        assert_eq!(faults.count(Verb::Renew), before + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_lost_when_fewer_than_a_majority_of_places_are_left() {
    let servers = Servers::new(5);
    let quorum = servers.quorum();
    let claim = exclusive();
    let seq = granted(quorum.attempt(&claim).await).seat.seq;
    let evict = async |store: usize| {
        let own = servers.line(store).await[0].seq;
        let eviction = Eviction { key: key(), id: claim.id, seq: own, when: When::Now };
        assert_eq!(servers.stores[store].evict(&eviction).await.unwrap(), Evicted::Freed);
    };
    evict(0).await;
    evict(1).await;
    assert!(tokio::time::timeout(secs(1), quorum.lost()).await.is_err(), "three are left");
    evict(2).await;
    assert_eq!(tokio::time::timeout(secs(1), quorum.lost()).await.unwrap(), [(claim.id, seq)]);
    evict(3).await;
    assert!(tokio::time::timeout(secs(1), quorum.lost()).await.is_err(), "told once");
    busy(
        servers
            .quorum()
            .attempt(&{
                servers.occupy(&[0, 1, 2]).await;
                exclusive()
            })
            .await,
    );
}

#[tokio::test(start_paused = true)]
async fn an_eviction_names_the_place_as_the_line_shows_it() {
    let servers = Servers::new(3);
    lift(&servers, 0, 1_000_000_000).await;
    let (owner, operator) = (servers.quorum(), servers.quorum());
    let claim = exclusive();
    let seq = granted(owner.attempt(&claim).await).seat.seq;
    let eviction = |seq| Eviction { key: key(), id: claim.id, seq, when: When::Now };
    assert_eq!(operator.evict(&eviction(plus(seq, 1))).await.unwrap(), Evicted::Gone);
    assert_eq!(servers.places().await, [1; 3]);
    assert_eq!(operator.evict(&eviction(seq)).await.unwrap(), Evicted::Freed);
    assert_eq!(servers.places().await, [0; 3]);
    assert_eq!(owner.attempt(&claim).await.unwrap_err().kind(), ErrorKind::Lost);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_reached_only_some_is_completed_by_the_next() {
    let servers = Servers::new(5);
    lift(&servers, 0, 1_000_000_000).await;
    let (quorum, faults) = servers.faulty();
    let claim = exclusive();
    let seq = granted(quorum.attempt(&claim).await).seat.seq;
    assert!(servers.line(0).await[0].seq > seq, "the first member's number is not the fence");
    faults[0].on(Verb::Evict, Nth::Call(1), Fault::DropRequest);
    let eviction = Eviction { key: key(), id: claim.id, seq, when: When::Now };
    assert_eq!(quorum.evict(&eviction).await.unwrap(), Evicted::Freed);
    assert_eq!(servers.places().await, [1, 0, 0, 0, 0]);
    assert_eq!(quorum.evict(&eviction).await.unwrap(), Evicted::Freed);
    assert_eq!(servers.places().await, [0; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_guard_outlives_two_members_and_not_three() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let client = servers.client(quorum);
    let guard = client.mutex("k").unwrap().acquire().await.unwrap();
    let down = |member: usize| faults[member].on(Verb::Renew, Nth::EVERY, Fault::Hold(Default::default()));
    down(0);
    down(1);
    assert!(tokio::time::timeout(secs(120), guard.lost()).await.is_err(), "three members are enough");
    down(2);
    let (_, took) = timed(guard.lost()).await;
    assert!(took <= secs(15), "{took:?}");
}

/// What docs/engines/quorum.md says of a clock that is set ahead.
#[tokio::test(start_paused = true)]
async fn a_hold_at_a_bare_majority_falls_with_one_place_and_the_fence_tells_the_two_apart() {
    let servers = Servers::new(5);
    let rival = servers.occupy(&[1, 2]).await;
    let (first, second) = (exclusive(), exclusive());
    let (a, b) = (servers.quorum(), servers.quorum());
    let fence = granted(a.attempt(&first).await).seat.seq;
    servers.vacate(&rival).await;
    busy(b.attempt(&second).await);
    servers.end(0, &first).await;
    assert!(granted(b.attempt(&second).await).seat.seq > fence);
    // The first is not told before its next renewal.
    assert_eq!(renew(&a, &first, fence).await.unwrap(), Renewal::Lost);
}
