//! Renews all leases of a client, many in one call, and says when one is lost.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use slab::Slab;
use tenure_core::{ClaimId, Clock, Engine, Held, Moment, Renewal, Seq};
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    Loss,
    acquire::{jitter, safe_until},
    cleaner::Cleaner,
    client::{limited, no_answer},
    hold::Hold,
    observe::Observer,
    sync::{Mutex, lock},
    tasks::Tasks,
};

/// The most holds in one call, so that one slow reply does not stand for all.
const BATCH: usize = 1000;
/// Timers stop in suspend and the clock does not: look at the clock at least so often while anything is held.
const LONGEST_NAP: Duration = Duration::from_secs(1);

pub(crate) struct Watchdog {
    engine: Arc<dyn Engine>,
    clock: Arc<dyn Clock>,
    observer: Arc<Observer>,
    /// Where places live as long as their process or session, a hold that is over ends here and not in the engine.
    ends: Option<Arc<Cleaner>>,
    holds: Mutex<Holds>,
    earlier: Notify,
}

struct Holds {
    slots: Slab<Watched>,
    /// Before this nothing is due and nothing ends, so that the clock can be looked at without a look at all holds. It may be
    /// earlier than it must, never later: whoever makes a hold due sooner says so.
    soonest: Option<Moment>,
    /// When the task looks at the clock next. A hold that is due later need not wake it, so that short holds one after the
    /// other cost no wake-up each.
    next_look: Option<Moment>,
}

/// What the task needs to know stands in the slot itself: a look at 100,000 holds must not touch each of them.
struct Watched {
    hold: Arc<Hold>,
    /// When to renew it; `None` for a fixed lease, which only ends, and while a renewal is under way.
    due: Option<Due>,
    deadline: Option<Moment>,
    lost: bool,
}

impl Watched {
    /// When it is due or ends, whichever comes first; never again once it is lost.
    fn look(&self) -> Option<Moment> {
        if self.lost { None } else { sooner(self.due.map(|due| due.at), self.deadline) }
    }
}

/// The sooner of two, if there is one.
fn sooner(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    one.into_iter().chain(other).min()
}

/// When a hold is renewed.
#[derive(Clone, Copy)]
struct Due {
    /// Together with others that are due: many holds taken one after the other are renewed in one call, from the second on.
    early: Moment,
    /// On its own.
    at: Moment,
}

impl Due {
    /// For a hold that was just taken. Unless it is soon given back it joins the next renewal of others, this once sooner
    /// than it must, and has their rhythm from then on.
    fn first(sent: Moment, every: Duration) -> Self {
        Self { early: sent + every / 16, at: sent + every }
    }

    /// For one that was renewed. Whoever is half way goes with others that are due: of two rhythms one is always half
    /// way, or more, when the other one is due, so that there is one in the end. There are two where a hold is told at
    /// first how little is left of a session that others keep up.
    fn after(sent: Moment, every: Duration) -> Self {
        Self { early: sent + every / 2, at: sent + every }
    }
}

/// Ends the watchdog's task when the client goes.
pub(crate) struct WatchdogTask(AbortHandle);

impl Drop for WatchdogTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether the watchdog renews a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upkeep {
    Renewed,
    Fixed,
}

impl Watchdog {
    pub(crate) fn new(
        engine: Arc<dyn Engine>,
        clock: Arc<dyn Clock>,
        observer: Arc<Observer>,
        ends: Option<Arc<Cleaner>>,
    ) -> Self {
        let holds = Mutex::new(Holds { slots: Slab::new(), soonest: None, next_look: None });
        Self { engine, clock, observer, ends, holds, earlier: Notify::new() }
    }

    pub(crate) fn start(self: &Arc<Self>, tasks: &Tasks) -> WatchdogTask {
        WatchdogTask(tasks.spawn(Arc::clone(self).run()))
    }

    pub(crate) fn watch(&self, hold: &Arc<Hold>, upkeep: Upkeep, sent: Moment) {
        let due = (upkeep == Upkeep::Renewed).then(|| Due::first(sent, hold.lease / 3));
        let deadline = hold.deadline();
        let mut holds = lock(&self.holds);
        let watched = Watched { hold: hold.clone(), due, deadline, lost: false };
        let look = watched.look();
        let at = holds.slots.insert(watched);
        hold.watched_at.store(at, Ordering::Release);
        holds.soonest = sooner(holds.soonest, look);
        if look.is_some_and(|look| holds.next_look.is_none_or(|next| look < next)) {
            holds.next_look = look;
            drop(holds);
            self.earlier.notify_one();
        }
    }

    /// Forgets a hold that is given back. Renewals of it under way change nothing any more.
    pub(crate) fn unwatch(&self, hold: &Arc<Hold>) {
        let at = hold.watched_at.load(Ordering::Acquire);
        let mut holds = lock(&self.holds);
        if holds.slots.get(at).is_some_and(|watched| Arc::ptr_eq(&watched.hold, hold)) {
            let watched = holds.slots.remove(at);
            if holds.slots.is_empty() {
                // Nothing is left to look at the clock for.
                holds.soonest = None;
            }
            drop(holds);
            // The guard may have seen its deadline pass before this task did.
            if !watched.lost
                && let Some(loss) = hold.loss(self.clock.now())
            {
                self.observer.lost(&hold.claim, loss);
            }
        }
    }

    async fn run(self: Arc<Self>) {
        // Beside each other: one that hangs, for a sixth of a long lease, must not keep a short one waiting.
        let mut under_way = FuturesUnordered::new();
        loop {
            let now = self.clock.now();
            match self.look(now) {
                Look::Due(batches) => under_way.extend(batches.into_iter().map(|batch| self.renew(batch))),
                Look::Nap(until) => {
                    // In a fixed order, so that a simulation sees the same run again; after each, all is looked at.
                    tokio::select! {
                        biased;
                        () = self.nap(until.map(|until| until.since(now))) => {}
                        // A look goes over all holds: one for all the answers that are there, not one for each.
                        Some(()) = under_way.next() => while under_way.next().now_or_never().flatten().is_some() {},
                    }
                }
            }
        }
    }

    async fn nap(&self, pause: Option<Duration>) {
        let pause = async {
            match pause {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            gone = self.engine.lost() => self.tell(gone),
            () = self.earlier.notified() => {}
            () = pause => {}
        }
    }

    /// Finds the holds to renew now, or when to look again. Says which have ended.
    fn look(&self, now: Moment) -> Look {
        let mut holds = lock(&self.holds);
        let Holds { slots, soonest, next_look } = &mut *holds;
        if soonest.is_some_and(|soonest| soonest <= now) {
            *soonest = self.end(slots, now);
        }
        if soonest.is_some_and(|soonest| soonest <= now) {
            let batches;
            (batches, *soonest) = take_due(slots, now);
            *next_look = Some(now);
            return Look::Due(batches);
        }
        *next_look = soonest.map(|soonest| soonest.min(now + LONGEST_NAP));
        Look::Nap(*next_look)
    }

    /// Says which holds have ended; gives when the first of the others is due or ends.
    fn end(&self, slots: &mut Slab<Watched>, now: Moment) -> Option<Moment> {
        let mut soonest = None;
        for (_, watched) in slots {
            if !watched.lost && watched.deadline.is_some_and(|deadline| now >= deadline) {
                self.lose(watched, Loss::Expired);
                if let Some(cleaner) = &self.ends {
                    cleaner.release(watched.hold.claim.clone(), watched.hold.answered);
                }
            }
            soonest = sooner(soonest, watched.look());
        }
        soonest
    }

    async fn renew(&self, batch: Vec<Arc<Hold>>) {
        let Some(shortest) = batch.iter().map(|hold| hold.claim.ttl).min() else { return };
        let holds: Vec<Held<'_>> =
            batch.iter().map(|hold| Held { claim: &hold.claim, seq: hold.seq }).collect();
        let sent = self.clock.now();
        // Half of what a verb may take: a renewal that hangs must leave time for another.
        let answer = match limited(shortest.renew_every() / 2, self.engine.renew(&holds)).await {
            Some(answer) => answer,
            None => Err(no_answer(tenure_core::Op::Renew, shortest)),
        };
        let now = self.clock.now();
        if let Err(err) = &answer {
            self.observer.renew_failed(err);
        }
        let mut holds = lock(&self.holds);
        let Holds { slots, soonest, .. } = &mut *holds;
        for (i, hold) in batch.iter().enumerate() {
            // A hold that was given back meanwhile is not watched any more.
            let at = hold.watched_at.load(Ordering::Acquire);
            let Some(watched) = slots.get_mut(at).filter(|watched| Arc::ptr_eq(&watched.hold, hold)) else {
                continue;
            };
            match answer.as_ref().map(|renewals| renewals.get(i)) {
                Ok(Some(Renewal::Renewed(ttl))) => self.renewed(watched, *ttl, sent, now),
                Ok(Some(Renewal::Lost)) => self.lose(watched, Loss::Gone),
                // Not a loss: it is asked again until the deadline says otherwise.
                Ok(None) | Err(_) => watched.due = Some(Due::after(now, jitter(hold.claim.ttl.get() / 30))),
            }
            *soonest = sooner(*soonest, watched.look());
        }
    }

    fn renewed(&self, watched: &mut Watched, ttl: Option<Duration>, sent: Moment, now: Moment) {
        let asked = watched.hold.claim.ttl.get();
        let left = watched.deadline.map(|deadline| deadline.since(now));
        self.observer.renewed(left.map(|left| left.as_secs_f64() / asked.as_secs_f64()));
        watched.hold.prolong(ttl.map(|ttl| safe_until(sent, ttl)), now);
        watched.deadline = watched.hold.deadline();
        watched.due = Some(Due::after(sent, ttl.unwrap_or(asked).min(asked) / 3));
    }

    /// The engine learned early that these places are gone.
    fn tell(&self, gone: Vec<(ClaimId, Seq)>) {
        let gone: HashSet<_> = gone.into_iter().collect();
        for (_, watched) in &mut lock(&self.holds).slots {
            if gone.contains(&(watched.hold.claim.id, watched.hold.seq)) {
                self.lose(watched, Loss::Gone);
            }
        }
    }

    fn lose(&self, watched: &mut Watched, loss: Loss) {
        if !watched.lost {
            watched.lost = true;
            watched.hold.lose(loss);
            self.observer.lost(&watched.hold.claim, loss);
        }
    }
}

enum Look {
    /// To be renewed, each of these in one call.
    Due(Vec<Vec<Arc<Hold>>>),
    Nap(Option<Moment>),
}

/// Takes the holds to renew now, and those that join them; gives when the first of all is due again or ends.
fn take_due(slots: &mut Slab<Watched>, now: Moment) -> (Vec<Vec<Arc<Hold>>>, Option<Moment>) {
    let mut batches: Vec<Vec<Arc<Hold>>> = Vec::new();
    let mut soonest = None;
    for (_, watched) in slots {
        if !watched.lost && watched.due.take_if(|due| due.early <= now).is_some() {
            match batches.last_mut() {
                Some(batch) if batch.len() < BATCH => batch.push(watched.hold.clone()),
                _ => batches.push(vec![watched.hold.clone()]),
            }
        }
        soonest = sooner(soonest, watched.look());
    }
    (batches, soonest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rhythms_become_one() {
        let every = Duration::from_millis(5000);
        for apart in 0..5000 {
            let mut dues = [0, apart].map(|ms| Due::after(Moment::new(Duration::from_millis(ms)), every));
            for _ in 0..3 {
                let now = dues.iter().map(|due| due.at).min().unwrap();
                dues.iter_mut().filter(|due| due.early <= now).for_each(|due| *due = Due::after(now, every));
            }
            assert_eq!(dues[0].at, dues[1].at, "{apart} ms apart");
        }
    }
}
