//! Rounds of a quorum: won and lost as soon as it is certain, with nothing left behind.

use tenure::{Engine, ErrorKind, Filter, Mode, Released, Standing, Ttl};
use tenure_core::Answered;
use tenure_testkit::{
    cancel::drop_at_every_poll,
    faults::{Fault, Faulty, Nth, Verb, Yielding},
};

use crate::{
    bed::{millis, others_run, secs},
    quorum_bed::{Disguise, Servers, busy, claim, exclusive, granted, key, let_go, renew, timed},
};

const NOTHING: std::time::Duration = std::time::Duration::ZERO;

#[tokio::test(start_paused = true)]
async fn two_of_five_may_hang_refuse_or_be_slow_and_nobody_waits_for_them() {
    for fault in
        [Fault::Hold(Default::default()), Fault::DropRequest, Fault::DropReply, Fault::Delay(secs(60))]
    {
        let servers = Servers::new(5);
        let (quorum, faults) = servers.faulty();
        for verb in [Verb::Attempt, Verb::Renew, Verb::Release] {
            faults[1].on(verb, Nth::EVERY, fault.clone());
            faults[4].on(verb, Nth::EVERY, fault.clone());
        }
        let claim = exclusive();
        let (grant, took) = timed(quorum.attempt(&claim)).await;
        assert_eq!(took, NOTHING, "{fault:?}");
        let seq = granted(grant).seat.seq;
        let (renewed, took) = timed(renew(&quorum, &claim, seq)).await;
        assert!(matches!(renewed, Ok(tenure_core::Renewal::Renewed(_))), "{fault:?}: {renewed:?}");
        assert_eq!(took, NOTHING, "{fault:?}");
        let (released, took) = timed(quorum.release(&claim, Answered::All)).await;
        assert_eq!((released.unwrap(), took), (Released::Freed, NOTHING), "{fault:?}");
        assert_eq!(quorum.claims(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_needs_a_silent_member_waits_one_limit_for_it_and_no_longer() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    servers.occupy(&[0]).await;
    for silent in [3, 4] {
        faults[silent].on(Verb::Attempt, Nth::EVERY, Fault::Hold(Default::default()));
    }
    let (answer, took) = timed(quorum.attempt(&exclusive())).await;
    busy(answer);
    assert_eq!(took, secs(1), "an eighth of 8s");
    servers.come_to(&[1, 0, 0, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn the_error_says_what_every_member_said() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    servers.occupy(&[2]).await;
    for member in [0, 3] {
        faults[member].on(Verb::Attempt, Nth::EVERY, Fault::Hold(Default::default()));
    }
    faults[4].on(Verb::Attempt, Nth::EVERY, Fault::DropRequest);
    let (answer, took) = timed(quorum.attempt(&exclusive())).await;
    let err = answer.unwrap_err();
    assert_eq!(
        err.to_string(),
        "attempt `k`: unavailable: 1 of 5 granted: a no answer within 1s, b granted, c busy, d no answer within 1s, \
         e the request was lost on purpose"
    );
    assert!(err.is_retryable() && err.may_have_applied());
    assert_eq!(took, secs(1));
    servers.come_to(&[0, 0, 1, 0, 0]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_round_is_known_at_once_and_late_winners_are_released() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let rival = servers.occupy(&[0, 1, 2]).await;
    faults[4].on(Verb::Attempt, Nth::Call(1), Fault::Delay(millis(500)));
    let claim = exclusive();
    let (answer, took) = timed(quorum.attempt(&claim)).await;
    busy(answer);
    assert_eq!(took, NOTHING, "three said no");
    assert_eq!(servers.places().await, [1, 1, 1, 0, 0], "the fourth was released on the spot");
    tokio::time::sleep(millis(499)).await;
    assert_eq!(faults[4].count(Verb::Release), 0, "a release would overtake the attempt");
    tokio::time::sleep(millis(2)).await;
    servers.come_to(&[1, 1, 1, 0, 0]).await;
    assert_eq!(faults[4].count(Verb::Release), 1, "the fifth granted, and was released");

    servers.vacate(&rival).await;
    granted(quorum.attempt(&claim).await);
    assert_ne!(servers.line(0).await[0].id, claim.id, "an id that was released is never asked for again");
    let_go(&quorum, &claim).await;
    servers.come_to(&[0; 5]).await;
    assert_eq!(quorum.claims(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_nobody_gave_back_is_asked_for_again() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    servers.occupy(&[0, 1, 2]).await;
    faults[3].on(Verb::Release, Nth::Call(1), Fault::DropRequest);
    faults[3].on(Verb::Release, Nth::Call(2), Fault::DropRequest);
    busy(quorum.attempt(&exclusive()).await);
    assert_eq!(servers.places().await, [1, 1, 1, 1, 0]);
    tokio::time::sleep(secs(2)).await;
    assert_eq!(servers.places().await, [1, 1, 1, 0, 0]);
    assert_eq!(faults[3].count(Verb::Release), 3);
}

#[tokio::test(start_paused = true)]
async fn who_was_busy_everywhere_keeps_its_id_and_leaves_no_record() {
    let servers = Servers::new(5);
    let quorum = servers.quorum();
    let rival = servers.occupy(&[0, 1, 2, 3, 4]).await;
    let claim = exclusive();
    for _ in 0..3 {
        busy(quorum.attempt(&claim).await);
    }
    assert_eq!(quorum.claims(), 0);
    servers.vacate(&rival).await;
    granted(quorum.attempt(&claim).await);
    assert_eq!(servers.line(0).await[0].id, claim.id);
}

#[tokio::test(start_paused = true)]
async fn slow_members_take_part_in_what_was_won() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    for slow in [3, 4] {
        faults[slow].on(Verb::Attempt, Nth::Call(1), Fault::Delay(millis(500)));
    }
    let claim = exclusive();
    granted(quorum.attempt(&claim).await);
    assert_eq!(servers.places().await, [1, 1, 1, 0, 0]);
    tokio::time::sleep(millis(501)).await;
    assert_eq!(servers.places().await, [1; 5]);
    let_go(&quorum, &claim).await;
    assert_eq!(servers.places().await, [0; 5]);
}

#[tokio::test(start_paused = true)]
async fn a_release_calls_back_the_attempts_that_nobody_waited_for() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let gate = faults[4].hold(Verb::Attempt, Nth::Call(1));
    let claim = exclusive();
    granted(quorum.attempt(&claim).await);
    gate.reached_by(1).await;
    let_go(&quorum, &claim).await;
    gate.open();
    others_run().await;
    assert_eq!(servers.places().await, [0; 5], "the attempt must not arrive after its release");
}

/// Whoever listens to the members that were not waited for must end with them.
#[tokio::test(start_paused = true)]
async fn locks_one_after_the_other_leave_no_task_behind() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let tasks = tokio::runtime::Handle::current().metrics();
    for call in 1..=20 {
        let gate = faults[4].hold(Verb::Attempt, Nth::Call(call));
        let claim = exclusive();
        granted(quorum.attempt(&claim).await);
        gate.reached_by(1).await;
        let_go(&quorum, &claim).await;
    }
    others_run().await;
    assert!(tasks.num_alive_tasks() <= 1, "{} tasks are left", tasks.num_alive_tasks());
    drop(quorum);
    others_run().await;
    assert_eq!(tasks.num_alive_tasks(), 0, "the task for all ends with its quorum");
}

#[tokio::test(start_paused = true)]
async fn asked_again_it_is_the_same_grant() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let claim = exclusive();
    for slow in [0, 1] {
        faults[slow].on(Verb::Attempt, Nth::Call(1), Fault::Delay(millis(500)));
    }
    let first = granted(quorum.attempt(&claim).await);
    tokio::time::sleep(secs(1)).await;
    for _ in 0..3 {
        assert_eq!(granted(quorum.attempt(&claim).await), first);
    }
    // Those that took part later answer first now; the others are waited for.
    for slow in [2, 3, 4] {
        let next = Nth::Call(faults[slow].count(Verb::Attempt) + 1);
        faults[slow].on(Verb::Attempt, next, Fault::Delay(millis(100)));
    }
    assert_eq!(granted(quorum.attempt(&claim).await), first);
    // A majority that stood at the fence is gone: what is taken anew has another, larger one.
    for store in [2, 3, 4] {
        let _ = servers.stores[store].release(&claim, Answered::All).await.unwrap();
    }
    let anew = granted(quorum.attempt(&claim).await);
    assert!(anew.seat.seq > first.seat.seq);
    assert_eq!(renew(&quorum, &claim, first.seat.seq).await.unwrap(), tenure_core::Renewal::Lost);
    let_go(&quorum, &claim).await;
}

#[tokio::test(start_paused = true)]
async fn an_attempt_dropped_anywhere_is_undone_by_one_release() {
    for rivals in [vec![], vec![0], vec![0, 1, 2]] {
        let servers = Servers::new(5);
        let quorum = servers.yielding();
        servers.occupy(&rivals).await;
        let left: Vec<_> = (0..5).map(|store| usize::from(rivals.contains(&store))).collect();
        let claims: Vec<_> = (0..64).map(|_| exclusive()).collect();
        let polls = drop_at_every_poll(
            |n| quorum.attempt(&claims[n]),
            |n, output| {
                drop(output);
                let (quorum, servers, claims, left) = (&quorum, &servers, &claims, &left);
                async move {
                    let _ = quorum.release(&claims[n], Answered::InDoubt).await.unwrap();
                    servers.come_to(left).await;
                    assert_eq!(quorum.claims(), 0);
                }
            },
        )
        .await;
        assert!(polls >= 2, "there are points to drop at");
    }
}

#[tokio::test(start_paused = true)]
async fn acquisitions_and_releases_dropped_anywhere_leave_nothing() {
    let servers = Servers::new(3);
    let client = servers.client(servers.yielding());
    let mutex = client.mutex("k").unwrap();
    drop_at_every_poll(
        |_| mutex.acquire(),
        |_, guard| {
            drop(guard);
            servers.come_to(&[0; 3])
        },
    )
    .await;
    drop_at_every_poll(
        |_| async { mutex.acquire().await.unwrap().release().await.unwrap() },
        |_, _| servers.come_to(&[0; 3]),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_release_asks_only_those_again_that_have_not_answered() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let claim = exclusive();
    granted(quorum.attempt(&claim).await);
    for broken in [2, 3, 4] {
        faults[broken].on(Verb::Release, Nth::Call(1), Fault::DropReply);
    }
    let err = quorum.release(&claim, Answered::All).await.unwrap_err();
    assert!(err.is_retryable(), "{err}");
    assert!(err.to_string().contains("2 of 5 answered: a freed, b freed, c the reply was lost"), "{err}");
    assert_eq!(quorum.claims(), 1);
    // The first release did free them, but nobody knows; a majority says that there was no place.
    assert_eq!(quorum.release(&claim, Answered::All).await.unwrap(), Released::NotHeld);
    let counts: Vec<_> = faults.iter().map(|faults| faults.count(Verb::Release)).collect();
    assert_eq!(counts, [1, 1, 2, 2, 2]);
    assert_eq!(quorum.claims(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_released_place_that_a_majority_lost_was_not_held() {
    for (lost, released) in [(2, Released::Freed), (3, Released::NotHeld)] {
        let servers = Servers::new(5);
        let quorum = servers.quorum();
        let claim = exclusive();
        granted(quorum.attempt(&claim).await);
        for store in &servers.stores[..lost] {
            let _ = store.release(&claim, Answered::All).await.unwrap();
        }
        assert_eq!(quorum.release(&claim, Answered::All).await.unwrap(), released, "{lost} of 5 lost it");
    }
}

#[tokio::test(start_paused = true)]
async fn split_votes_resolve() {
    let servers = Servers::new(5);
    let mut tasks = tokio::task::JoinSet::new();
    // Each is nearest to other members, so that the first round gives nobody a majority.
    for (n, near) in [vec![0, 1], vec![2, 3], vec![4]].into_iter().enumerate() {
        let quorum = servers.dressed(|member, engine| {
            let (engine, faults) = Faulty::over(Disguise::slow(engine, millis(10)));
            let trip = if near.contains(&member) { 1 } else { 5 };
            faults.on(Verb::Attempt, Nth::EVERY, Fault::Delay(millis(trip)));
            engine
        });
        let first = exclusive();
        let client = servers.client(quorum.clone());
        tasks.spawn(async move {
            busy(quorum.attempt(&first).await);
            let mutex = client.mutex("k").unwrap();
            for _ in 0..10 {
                mutex.acquire().await.unwrap().release().await.unwrap();
            }
            (n, client)
        });
    }
    let (clients, took) = timed(tasks.join_all()).await;
    assert_eq!(clients.len(), 3);
    assert!(took < secs(30), "30 acquisitions took {took:?}");
    servers.come_to(&[0; 5]).await;
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_process_tell_each_other() {
    let servers = Servers::new(3);
    let quorum = servers.quorum();
    let (holder, waiter) = (exclusive(), exclusive());
    granted(quorum.attempt(&holder).await);
    busy(quorum.attempt(&waiter).await);
    // Between the attempt and the wait, where a release could be missed.
    let_go(&quorum, &holder).await;
    let (_, took) = timed(tokio::time::timeout(secs(5), quorum.turn(&waiter))).await;
    assert_eq!(took, NOTHING);
    granted(quorum.attempt(&waiter).await);
}

#[tokio::test(start_paused = true)]
async fn the_line_shows_who_holds_at_a_majority_and_who_is_in_the_way() {
    let servers = Servers::new(5);
    let (quorum, faults) = servers.faulty();
    let ghost = servers.occupy(&[1]).await;
    let holder = exclusive();
    let seq = granted(quorum.attempt(&holder).await).seat.seq;
    let filter = Filter::Key(key());
    let line = quorum.line(&filter).await.unwrap();
    let shown: Vec<_> = line.iter().map(|place| (place.id, place.standing)).collect();
    assert_eq!(shown, [(holder.id, Standing::Holds), (ghost.id, Standing::Waits)]);
    assert_eq!(line[0].seq, seq);
    // What stands at a minority holds nothing, also if nobody else does.
    let_go(&quorum, &holder).await;
    let line = quorum.line(&filter).await.unwrap();
    assert_eq!((line.len(), line[0].id, line[0].standing), (1, ghost.id, Standing::Waits));
    let holder = exclusive();
    granted(quorum.attempt(&holder).await);
    // With two members silent it still may hold, as far as can be seen: the ghost has fewer.
    for silent in [0, 2] {
        faults[silent].on(Verb::Line, Nth::EVERY, Fault::Hold(Default::default()));
    }
    let (line, took) = timed(quorum.line(&filter)).await;
    assert_eq!((line.unwrap()[0].id, took), (holder.id, secs(1)));
    faults[3].on(Verb::Line, Nth::EVERY, Fault::DropRequest);
    assert_eq!(quorum.line(&filter).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn the_line_shows_the_mode_of_a_majority() {
    let servers = Servers::new(3);
    let (quorum, faults) = servers.faulty();
    // The first member hears of the claim only when it is repeated, with another mode.
    faults[0].on(Verb::Attempt, Nth::Call(1), Fault::DropRequest);
    let writer = exclusive();
    granted(quorum.attempt(&writer).await);
    let _ = quorum.attempt(&tenure::Claim { mode: Mode::Shared, ..writer.clone() }).await;
    assert_eq!(servers.line(0).await[0].mode, Mode::Shared);
    let line = quorum.line(&Filter::Key(key())).await.unwrap();
    let shown: Vec<_> = line.iter().map(|place| (place.id, place.mode)).collect();
    assert_eq!(shown, [(writer.id, Mode::Exclusive)]);
}

#[tokio::test(start_paused = true)]
async fn a_downgraded_writer_lets_readers_in() {
    let servers = Servers::new(3);
    let quorum = servers.dressed(|_, engine| Yielding::over(engine));
    let (writer, reader) = (exclusive(), claim(Mode::Shared));
    let seq = granted(quorum.attempt(&writer).await).seat.seq;
    busy(quorum.attempt(&reader).await);
    let held = tenure_core::Held { claim: &writer, seq };
    assert!(matches!(quorum.downgrade(held).await.unwrap(), tenure_core::Renewal::Renewed(_)));
    granted(quorum.attempt(&reader).await);
    let_go(&quorum, &writer).await;
    let_go(&quorum, &reader).await;
}

#[tokio::test(start_paused = true)]
async fn a_writers_attempt_that_nobody_waited_for_does_not_come_after_its_downgrade() {
    let servers = Servers::new(3);
    let (quorum, faults) = servers.faulty();
    let gate = faults[2].hold(Verb::Attempt, Nth::Call(1));
    let writer = exclusive();
    let seq = granted(quorum.attempt(&writer).await).seat.seq;
    gate.reached_by(1).await;
    let held = tenure_core::Held { claim: &writer, seq };
    assert!(matches!(quorum.downgrade(held).await.unwrap(), tenure_core::Renewal::Renewed(_)));
    gate.open();
    others_run().await;
    assert_eq!(servers.places().await, [1, 1, 0]);
    let_go(&quorum, &writer).await;
}

#[tokio::test(start_paused = true)]
async fn records_of_claims_that_never_come_back_go_when_their_leases_have_ended() {
    let servers = Servers::new(3);
    let quorum = servers.quorum();
    servers.occupy(&[0, 1]).await;
    for _ in 0..3_000 {
        tokio::time::sleep(millis(100)).await;
        let rival = servers.line(0).await.first().map(|place| place.id);
        if rival.is_none() {
            servers.occupy(&[0, 1]).await;
        }
        busy(quorum.attempt(&exclusive()).await);
    }
    assert!(quorum.claims() <= 2 * 2 * 160, "{} records of 16s", quorum.claims());
}

#[tokio::test(start_paused = true)]
async fn a_longer_ttl_than_everybody_agreed_on_is_refused_before_anybody_is_asked() {
    let servers = Servers::new(3);
    let (quorum, faults) = servers.faulty();
    let long = tenure::Claim { ttl: Ttl::new(secs(31)).unwrap(), ..exclusive() };
    let err = quorum.attempt(&long).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Invalid);
    assert!(err.to_string().contains("`max_ttl`"), "{err}");
    assert_eq!(faults[0].count(Verb::Attempt), 0);
}
