use std::{sync::Arc, time::Duration};

use tenure_core::{
    Answered, Applied, Attempt, Claim, ClaimId, Engine, ErrorKind, Key, Mode, Note, Patience, Released, Seq,
    Ttl,
};
use tenure_local::Memory;
use tokio::time::{Instant, timeout};

use super::{Fault, Faulty, Nth, Silent, Verb, Yielding};
use crate::{TokioClock, cancel::poll_times, steps::places};

fn memory() -> Arc<dyn Engine> {
    Memory::new(Arc::new(TokioClock::start()))
}

fn claim() -> Claim {
    Claim {
        key: Key::new("k").unwrap(),
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::default(),
        floor: Seq::ZERO,
        note: Note::new("t", ""),
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_request_has_no_effect_and_a_lost_reply_has_one() {
    let honest = memory();
    for (fault, effect) in [(Fault::DropRequest, 0), (Fault::DropReply, 1)] {
        let (engine, faults) = Faulty::over(honest.clone());
        faults.on(Verb::Attempt, Nth::Call(2), fault);
        let (first, second) = (claim(), claim());
        assert!(engine.attempt(&first).await.is_ok(), "only the second call is disturbed");
        let error = engine.attempt(&second).await.unwrap_err();
        assert_eq!((error.kind(), error.applied()), (ErrorKind::Unavailable, Applied::Maybe));
        assert_eq!(places(&honest, &second).await.unwrap(), effect);
        assert!(engine.attempt(&second).await.is_ok());
        assert_eq!(faults.count(Verb::Attempt), 3);
        assert_eq!(faults.count(Verb::Release), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_doubled_verb_is_applied_twice() {
    let (engine, faults) = Faulty::over(memory());
    faults.on(Verb::Release, Nth::EVERY, Fault::Duplicate);
    let it = claim();
    let _ = engine.attempt(&it).await.unwrap();
    assert_eq!(engine.release(&it, Answered::All).await.unwrap(), Released::NotHeld);
    faults.calm();
    let it = claim();
    let _ = engine.attempt(&it).await.unwrap();
    assert_eq!(engine.release(&it, Answered::All).await.unwrap(), Released::Freed);
}

#[tokio::test(start_paused = true)]
async fn a_delay_takes_its_time() {
    let (engine, faults) = Faulty::over(memory());
    faults.on(Verb::Attempt, Nth::From(2), Fault::Delay(Duration::from_secs(7)));
    let start = Instant::now();
    for waited in [0, 7, 14] {
        let _ = engine.attempt(&claim()).await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_secs(waited));
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_holds_one_call_back_and_no_other() {
    let (engine, faults) = Faulty::over(memory());
    let gate = faults.hold(Verb::Attempt, Nth::Call(1));
    let (first, second) = (claim(), claim());
    let held = tokio::spawn({
        let (engine, first) = (engine.clone(), first.clone());
        async move { engine.attempt(&first).await }
    });
    gate.reached_by(1).await;
    assert!(matches!(engine.attempt(&second).await.unwrap(), Attempt::Granted(_)));
    gate.open();
    assert!(matches!(held.await.unwrap().unwrap(), Attempt::Busy(_)));
}

#[tokio::test(start_paused = true)]
async fn silence_is_all_that_comes_from_a_silent_engine() {
    let honest = memory();
    let silent = Silent::over(honest.clone());
    let (first, second) = (claim(), claim());
    let _ = silent.attempt(&first).await.unwrap();
    let _ = silent.attempt(&second).await.unwrap();
    let _ = silent.release(&first, Answered::All).await.unwrap();
    assert!(timeout(Duration::from_secs(999), silent.turn(&second)).await.is_err());
    assert!(timeout(Duration::from_secs(1), honest.turn(&second)).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_yielding_engine_waits_before_and_after_the_effect() {
    let honest = memory();
    let engine = Yielding::over(honest.clone());
    for (polls, effect, done) in [(1, 0, false), (2, 1, false), (3, 1, true)] {
        let it = claim();
        assert_eq!(poll_times(engine.attempt(&it), polls).await.is_some(), done);
        assert_eq!(places(&honest, &it).await.unwrap(), effect, "after {polls} polls");
    }
}
