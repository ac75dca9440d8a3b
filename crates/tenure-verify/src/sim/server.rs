//! A server: the reference model, a clock of its own, and a memory that may fail.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    time::Duration,
};

use tenure_core::{
    Answered, Attempt, Busy, Claim, ClaimId, Crash, Error, ErrorKind, Evicted, Eviction, Filter, Grant, Held,
    Incarnation, Key, Moment, Op, Place, Released, Renewal, Result, Seat, Seq, Standing, When,
};
use tenure_testkit::model::Model;

use super::{
    Mutant,
    clock::{ERA, drifted},
    plan::{Memory, ServerPlan},
};
use crate::history::Nanos;

pub(super) struct Server {
    model: Model,
    mutant: Option<Mutant>,
    drift: i64,
    ahead: Nanos,
    restarts: Vec<(Nanos, Memory)>,
    set_back: Option<(Nanos, Nanos)>,
    life: u64,
    began: Nanos,
    /// Whether it ever forgot: a quorum has to know since when it remembers.
    forgets: bool,
    /// Ids that were released while an attempt of theirs was still on its way.
    graves: BTreeSet<ClaimId>,
    owners: HashMap<ClaimId, usize>,
    /// Who held after the last verb, so that a push goes to those who are new.
    holding: BTreeMap<Key, Vec<Seq>>,
    pushes: Vec<Push>,
}

/// The news that a place holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Push {
    pub(super) client: usize,
    pub(super) id: ClaimId,
    pub(super) seat: Seat,
}

impl Server {
    pub(super) fn new(plan: &ServerPlan, forgets: bool, mutant: Option<Mutant>) -> Self {
        let mut restarts = plan.restarts.clone();
        restarts.sort_by_key(|restart| std::cmp::Reverse(restart.0));
        let mut server = Self {
            model: Model::new(Crash::Lease),
            mutant,
            drift: plan.drift,
            ahead: plan.ahead,
            restarts,
            set_back: plan.set_back,
            life: 1,
            began: 0,
            forgets,
            graves: BTreeSet::new(),
            owners: HashMap::new(),
            holding: BTreeMap::new(),
            pushes: Vec::new(),
        };
        server.forget();
        server
    }

    fn forget(&mut self) {
        self.model = Model::new(Crash::Lease);
        if let Some(rule) = self.mutant.and_then(Mutant::rule) {
            self.model.holds = rule;
        }
        self.holding.clear();
        self.graves.clear();
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Lives through what happened until now, and reads its clock.
    fn now(&mut self, now: Nanos) -> Moment {
        while let Some((at, memory)) = self.restarts.pop_if(|(at, _)| *at <= now) {
            self.life += 1;
            self.began = at;
            if memory == Memory::Lost {
                self.forget();
            }
            if self.is(Mutant::CounterForgotten) {
                for line in self.model.lines.values_mut() {
                    line.last = Seq::ZERO;
                }
            }
        }
        let back = self.set_back.filter(|(at, _)| *at <= now).map_or(0, |(_, by)| by);
        let reading = ERA + drifted(now, self.drift) + self.ahead - back;
        Moment::new(Duration::from_nanos(reading))
    }

    pub(super) fn attempt(&mut self, claim: &Claim, client: usize, time: Nanos) -> Result<Attempt> {
        let now = self.now(time);
        if self.graves.contains(&claim.id) {
            return Err(Error::new(ErrorKind::Lost, Op::Attempt, "it was released before").not_applied());
        }
        self.owners.insert(claim.id, client);
        let micros = u64::try_from(now.get().as_micros()).unwrap_or(u64::MAX);
        let counts = self.is(Mutant::CounterForgotten);
        let draw = move |last: Seq, floor: Seq| {
            last.next(floor, if counts { 0 } else { micros }).unwrap_or(Seq::ZERO)
        };
        let lived = self.model.line_at(&claim.key, now).find(claim.id).is_some();
        let answer = self.model.attempt(claim, now, draw);
        let spot = self.model.lines.get_mut(&claim.key).and_then(|line| {
            let at = line.find(claim.id)?;
            line.spots.get_mut(at)
        });
        if let Some(spot) = spot {
            match self.mutant {
                Some(Mutant::SetThenExpire) if !lived => spot.deadline = None,
                Some(Mutant::ShortLease) => spot.deadline = Some(now + claim.ttl.get().mul_f64(0.5)),
                _ => {}
            }
        }
        self.settle(&claim.key, Some(claim.id));
        let incarnation = Incarnation(self.life);
        let seat = |seat: Seat| Seat { incarnation, ..seat };
        Ok(match answer? {
            Attempt::Granted(grant) => {
                let up = Duration::from_nanos(time.saturating_sub(self.began));
                let careless = !self.forgets || self.is(Mutant::NoQuarantine);
                // Before its first restart it has been there for ever.
                let remembers = (!careless && self.life > 1).then_some(up);
                Attempt::Granted(Grant { seat: seat(grant.seat), remembers, ..grant })
            }
            Attempt::Busy(busy) => Attempt::Busy(Busy { seat: busy.seat.map(seat), ..busy }),
        })
    }

    pub(super) fn renew(&mut self, claim: &Claim, seq: Seq, time: Nanos) -> Renewal {
        let now = self.now(time);
        let mut claim = claim.clone();
        if self.is(Mutant::NoWriteBack) {
            claim.floor = Seq::ZERO;
        }
        let line = self.model.line_at(&claim.key, now);
        if let Some(at) = line.find(claim.id) {
            // What was set without a lease gets one now.
            line.spots[at].deadline.get_or_insert(now);
        }
        let answer = self.model.renew(Held { claim: &claim, seq }, now);
        self.settle(&claim.key, None);
        answer
    }

    pub(super) fn downgrade(&mut self, claim: &Claim, seq: Seq, time: Nanos) -> Renewal {
        let now = self.now(time);
        let answer = self.model.downgrade(Held { claim, seq }, now);
        if self.is(Mutant::DowngradeReleases) {
            let _ = self.model.release(claim, now);
        }
        self.settle(&claim.key, None);
        answer
    }

    pub(super) fn release(&mut self, claim: &Claim, answered: Answered, time: Nanos) -> Released {
        let now = self.now(time);
        if answered == Answered::InDoubt {
            self.graves.insert(claim.id);
        }
        if self.is(Mutant::ReleaseByKey) {
            let line = self.model.line_at(&claim.key, now);
            if line.find(claim.id).is_none() && !line.spots.is_empty() {
                line.spots.remove(0);
            }
        }
        let answer = self.model.release(claim, now);
        self.settle(&claim.key, None);
        answer
    }

    /// Breaks what this client holds, so that its renewals are refused. Whether there was anything.
    pub(super) fn break_hold(&mut self, client: usize, time: Nanos) -> bool {
        let now = self.now(time);
        let places = self.model.show(&Filter::Prefix(String::new(), 100), now);
        let held = places
            .into_iter()
            .find(|place| place.standing == Standing::Holds && self.owners.get(&place.id) == Some(&client));
        let Some(Place { key, id, seq, .. }) = held else { return false };
        let when = if self.is(Mutant::BreaksAtOnce) { When::Now } else { When::Gently };
        let evicted = self.model.evict(&Eviction { key: key.clone(), id, seq, when }, now);
        self.settle(&key, None);
        evicted != Evicted::Gone
    }

    /// Tells those who hold now and did not before, except who is being answered.
    fn settle(&mut self, key: &Key, answered: Option<ClaimId>) {
        let Some(line) = self.model.lines.get(key) else { return };
        let modes = line.modes();
        let holders: Vec<_> =
            line.spots.iter().enumerate().filter(|(at, _)| (self.model.holds)(&modes, *at)).collect();
        let before = self.holding.entry(key.clone()).or_default();
        for (_, spot) in &holders {
            if answered != Some(spot.id)
                && !before.contains(&spot.seq)
                && let Some(&client) = self.owners.get(&spot.id)
            {
                let seat = Seat { seq: spot.seq, incarnation: Incarnation(self.life) };
                self.pushes.push(Push { client, id: spot.id, seat });
            }
        }
        *before = holders.iter().map(|(_, spot)| spot.seq).collect();
    }

    pub(super) fn take_pushes(&mut self) -> Vec<Push> {
        std::mem::take(&mut self.pushes)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("life", &self.life).finish_non_exhaustive()
    }
}
