use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use tenure::{
    Claim, ClaimId, Client, Engine, ErrorKind, Evicted, Eviction, Fact, Filter, Guarantees, Key, Mode, Note,
    Place, Released, Result, Seq, Ttl,
};
use tenure_core::{Answered, Attempt, EngineId, Grant, Held, Incarnation, Patience, Renewal, Seat, Turn};
use tenure_testkit::faults::{Fault, Nth, Silent, Verb};
use tokio::time::Instant;

use crate::bed::{Bed, millis, others_run, secs};

#[tokio::test(start_paused = true)]
async fn a_lost_request_or_reply_is_asked_again_and_takes_one_place() {
    for fault in [Fault::DropRequest, Fault::DropReply, Fault::Duplicate] {
        let bed = Bed::new();
        let (client, faults) = bed.faulty();
        faults.on(Verb::Attempt, Nth::Call(1), fault.clone());
        for mutex in [client.mutex("k").unwrap(), client.mutex("k").unwrap().fair()] {
            let guard = mutex.acquire().await.unwrap();
            assert_eq!(bed.line("k").await.len(), 1, "{fault:?}");
            guard.release().await.unwrap();
            assert_eq!(bed.line("k").await.len(), 0, "{fault:?}");
        }
        let guard = client.mutex("k").unwrap().try_acquire().await.unwrap().expect("free");
        drop(guard);
        bed.empties("k").await;
    }
}

#[tokio::test(start_paused = true)]
async fn try_acquire_asks_again_after_a_lost_reply() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    faults.on(Verb::Attempt, Nth::Call(1), Fault::DropReply);
    assert!(client.mutex("k").unwrap().try_acquire().await.unwrap().is_some());
    bed.empties("k").await;
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_stays_silent_is_reported_after_a_ttl() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let _never = faults.hold(Verb::Attempt, Nth::EVERY);
    for mutex in [client.mutex("k").unwrap().ttl(secs(3)), client.mutex("k").unwrap().ttl(secs(3)).fair()] {
        let began = Instant::now();
        let err = mutex.acquire().await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Unavailable, "{err}");
        assert!((secs(3)..secs(6)).contains(&began.elapsed()), "{:?}", began.elapsed());
        assert_eq!(err.key().map(Key::as_str), Some("k"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_timed_wait_on_a_silent_engine_still_ends() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let _never = faults.hold(Verb::Attempt, Nth::EVERY);
    let mutex = client.mutex("k").unwrap().ttl(secs(3)).fair();
    let began = Instant::now();
    mutex.acquire_within(secs(1)).await.unwrap_err();
    assert!(began.elapsed() <= secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn without_wake_ups_a_waiter_looks_again_within_a_third_of_the_ttl() {
    let bed = Bed::new();
    let silent = Client::new(Silent::over(bed.memory.another()), bed.settings()).unwrap();
    let guard = bed.client().mutex("k").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move { silent.mutex("k").unwrap().acquire().await.unwrap() });
    bed.grows_to("k", 2).await;
    tokio::time::sleep(secs(20)).await;
    let freed = Instant::now();
    guard.release().await.unwrap();
    drop(waiting.await.unwrap());
    assert!(freed.elapsed() <= secs(5) + millis(10), "{:?}", freed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_next_one_gets_in_when_a_dead_holders_lease_ends() {
    let bed = Bed::new();
    let dead = claim("k", secs(7));
    let _ = bed.memory.attempt(&dead).await.unwrap();
    let client = bed.client();
    let began = Instant::now();
    let _guard = client.mutex("k").unwrap().acquire().await.unwrap();
    assert!((secs(7)..secs(7) + millis(50)).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_waiters_place_does_not_lapse_while_it_waits() {
    let bed = Bed::new();
    let (first, second, third) = (bed.client(), bed.client(), bed.client());
    let holder = first.mutex("k").unwrap().acquire().await.unwrap();
    let waiting =
        tokio::spawn(async move { second.mutex("k").unwrap().ttl(secs(3)).acquire().await.unwrap() });
    bed.grows_to("k", 2).await;
    let id = bed.line("k").await[1].id;
    tokio::time::sleep(secs(60)).await;
    assert_eq!(bed.line("k").await[1].id, id);
    holder.release().await.unwrap();
    assert!(third.mutex("k").unwrap().try_acquire().await.unwrap().is_none(), "the place came first");
    drop(waiting.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_place_was_taken_leaves_nothing() {
    let bed = Bed::new();
    let _holder = bed.client().mutex("k").unwrap().acquire().await.unwrap();
    let engine = Arc::new(Wayward::over(bed.memory.another(), Whim::RefuseFrom(2)));
    let client = Client::new(engine.clone(), bed.settings()).unwrap();
    // The place is refreshed every 5 s, so it is refused once before the wait ends, and would live for 15.
    let err = client.mutex("k").unwrap().fair().acquire_within(secs(6)).await.unwrap_err();
    assert_eq!(err.kind(), ErrorKind::Unavailable);
    assert!(engine.attempts.load(Ordering::SeqCst) >= 2);
    bed.grows_to("k", 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_push_for_another_seat_or_life_is_only_a_hint() {
    for whim in [Whim::PushOtherSeq, Whim::PushOtherLife] {
        let bed = Bed::new();
        let guard = bed.client().mutex("k").unwrap().acquire().await.unwrap();
        let engine = Arc::new(Wayward::over(bed.memory.another(), whim));
        let client = Client::new(engine.clone(), bed.settings()).unwrap();
        let waiting =
            tokio::spawn(async move { client.mutex("k").unwrap().acquire().await.unwrap().fence() });
        bed.grows_to("k", 2).await;
        others_run().await;
        assert!(!waiting.is_finished(), "{whim:?} was believed");
        assert!(engine.attempts.load(Ordering::SeqCst) >= 2, "it was worth another attempt");
        let first = guard.fence();
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap() > first);
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_counts_from_the_attempt_it_answers() {
    let bed = Bed::new();
    let (here, there) = (bed.client(), bed.client());
    let guard = here.mutex("k").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn(async move { there.mutex("k").unwrap().acquire().await.unwrap() });
    bed.grows_to("k", 2).await;
    tokio::time::sleep(secs(4)).await;
    guard.release().await.unwrap();
    let next = waiting.await.unwrap();
    let remaining = next.remaining().unwrap();
    // The attempt was 4 s ago: 15 s less the margin less that.
    assert!((millis(10_000)..=millis(10_250)).contains(&remaining), "{remaining:?}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_kept_even_if_the_engine_says_nothing() {
    let bed = Bed::new();
    let (client, faults) = bed.faulty();
    let _never = faults.hold(Verb::Attempt, Nth::EVERY);
    let mutex = client.mutex("k").unwrap().ttl(secs(3600));
    for mutex in [mutex.clone(), mutex.fair()] {
        let began = Instant::now();
        let err = mutex.acquire_within(millis(300)).await.unwrap_err();
        assert_eq!(err.kind(), ErrorKind::Timeout, "{err}");
        assert!((millis(300)..millis(310)).contains(&began.elapsed()), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_says_that_an_attempt_was_never_answered() {
    let bed = Bed::new();
    for (patience, kept) in [("try", false), ("queue", true), ("fair", true), ("dropped", true)] {
        let engine = Arc::new(Wayward::over(bed.memory.another(), Whim::LoseReply(1)));
        let client = Client::new(engine.clone(), bed.settings()).unwrap();
        let mutex = client.mutex(patience).unwrap();
        let rival = bed.client().mutex(patience).unwrap().acquire().await.unwrap();
        if kept {
            drop(rival);
            let mutex = if patience == "queue" { mutex } else { mutex.fair() };
            let guard = mutex.acquire().await.unwrap();
            if patience == "dropped" { drop(guard) } else { guard.release().await.unwrap() }
        } else {
            // Asked twice: the first attempt may still be on its way, and find the key free when it arrives.
            assert!(mutex.try_acquire().await.unwrap().is_none());
        }
        client.close().await;
        let released = engine.released.lock().unwrap().clone();
        assert_eq!(released, [Answered::InDoubt], "{patience}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_grants_less_than_was_asked_for_is_renewed_in_time_and_shared() {
    let bed = Bed::new();
    let engine = Arc::new(Wayward::over(bed.memory.another(), Whim::GrantShort(secs(1))));
    let client = Client::new(engine.clone(), bed.settings()).unwrap();
    let mutex = client.mutex("k").unwrap().ttl(secs(60));
    let first = mutex.acquire().await.unwrap();
    let second = tokio::spawn(async move { mutex.acquire().await.unwrap() });
    tokio::time::sleep(secs(10)).await;
    first.check().expect("renewed before the second that it was granted was over");
    drop(first);
    let second = tokio::time::timeout(secs(5), second).await.expect("the waiter gets its turn").unwrap();
    second.check().unwrap();
    assert!(engine.attempts.load(Ordering::SeqCst) < 5, "{:?}", engine.attempts);
}

/// A claim of a process that takes no further step.
pub(crate) fn claim(key: &str, ttl: Duration) -> Claim {
    Claim {
        key: Key::new(key).unwrap(),
        id: ClaimId::fresh(),
        mode: Mode::Exclusive,
        patience: Patience::Queue,
        ttl: Ttl::new(ttl).unwrap(),
        floor: Seq::ZERO,
        note: Note::new("dead", ""),
    }
}

/// An engine that misbehaves in one way.
#[derive(Debug)]
struct Wayward {
    inner: Arc<dyn Engine>,
    whim: Whim,
    attempts: AtomicUsize,
    turns: AtomicUsize,
    released: Mutex<Vec<Answered>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whim {
    /// Says from this attempt on that it certainly did nothing.
    RefuseFrom(usize),
    /// Pushes the news of another place, once.
    PushOtherSeq,
    /// Pushes news of another life of the engine, once.
    PushOtherLife,
    /// Does not answer this attempt, nor does what it asks for.
    LoseReply(usize),
    /// Lets a place live for no longer than this, whatever was asked for.
    GrantShort(Duration),
}

impl Wayward {
    fn over(inner: Arc<dyn Engine>, whim: Whim) -> Self {
        Self {
            inner,
            whim,
            attempts: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
            released: Mutex::default(),
        }
    }
}

#[async_trait]
impl Engine for Wayward {
    fn guarantees(&self) -> Guarantees {
        self.inner.guarantees()
    }
    fn identity(&self) -> EngineId {
        self.inner.identity()
    }
    async fn attempt(&self, claim: &Claim) -> Result<Attempt> {
        let nth = self.attempts.fetch_add(1, Ordering::SeqCst) + 1;
        match self.whim {
            Whim::RefuseFrom(from) if nth >= from => {
                Err(tenure::Error::unavailable(tenure::Op::Attempt, "not now").not_applied())
            }
            Whim::LoseReply(lost) if nth == lost => {
                Err(tenure::Error::unavailable(tenure::Op::Attempt, "no answer"))
            }
            Whim::GrantShort(most) => Ok(match self.inner.attempt(claim).await? {
                Attempt::Granted(grant) => {
                    Attempt::Granted(Grant { ttl: grant.ttl.map(|ttl| ttl.min(most)), ..grant })
                }
                busy @ Attempt::Busy(_) => busy,
            }),
            _ => self.inner.attempt(claim).await,
        }
    }
    async fn turn(&self, claim: &Claim) -> Turn {
        let first = self.turns.fetch_add(1, Ordering::SeqCst) == 0;
        let line = self.inner.line(&Filter::Key(claim.key.clone())).await.unwrap();
        let mine = line.iter().find(|place| place.id == claim.id).map(|place| place.seq);
        match (self.whim, mine) {
            (Whim::PushOtherSeq, Some(seq)) if first => {
                let seq = Seq::new(seq.get() + 1).unwrap();
                Turn::Holds(Seat { seq, incarnation: Incarnation(0) })
            }
            (Whim::PushOtherLife, Some(seq)) if first => {
                Turn::Holds(Seat { seq, incarnation: Incarnation(99) })
            }
            _ => self.inner.turn(claim).await,
        }
    }
    async fn renew(&self, holds: &[Held<'_>]) -> Result<Vec<Renewal>> {
        let renewals = self.inner.renew(holds).await?;
        let Whim::GrantShort(most) = self.whim else { return Ok(renewals) };
        Ok(renewals
            .into_iter()
            .map(|renewal| match renewal {
                Renewal::Renewed(ttl) => Renewal::Renewed(ttl.map(|ttl| ttl.min(most))),
                Renewal::Lost => Renewal::Lost,
            })
            .collect())
    }
    async fn downgrade(&self, hold: Held<'_>) -> Result<Renewal> {
        self.inner.downgrade(hold).await
    }
    async fn release(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        self.released.lock().unwrap().push(answered);
        self.inner.release(claim, answered).await
    }
    async fn lost(&self) -> Vec<(ClaimId, Seq)> {
        self.inner.lost().await
    }
    async fn line(&self, filter: &Filter) -> Result<Vec<Place>> {
        self.inner.line(filter).await
    }
    async fn evict(&self, eviction: &Eviction) -> Result<Evicted> {
        self.inner.evict(eviction).await
    }
    async fn examine(&self) -> Result<Vec<Fact>> {
        self.inner.examine().await
    }
}
