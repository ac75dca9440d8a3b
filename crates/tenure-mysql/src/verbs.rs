//! The verbs of one key, each one transaction in one round trip.

use std::sync::atomic::Ordering;

use tenure_core::{
    Answered, Attempt, Busy, Claim, Error, ErrorKind, Evicted, Eviction, Grant, Held, Incarnation, Op,
    Patience, Released, Renewal, Result, Seat, Seq, When,
};

use crate::{
    MysqlEngine,
    answer::{Fields, nonsense},
    bell::{Bell, Ring},
    facts::{Found, Kind},
    link::Link,
    script::Value,
    words::{Hash, absurd_floor, blocker, duration, micros, mode_numbers, number},
};

/// After how many releases a client looks for keys that nobody wants.
const SWEEP: u32 = 1_000;

impl MysqlEngine {
    pub(crate) async fn attempt_(&self, claim: &Claim) -> Result<Attempt> {
        let hash = Hash::of(&claim.key);
        let link = self.link(Op::Attempt, &hash).await?;
        if let Some(attempt) = self.take_alone(claim, &hash, &link).await? {
            return Ok(attempt);
        }
        if let Some(attempt) = self.join(claim, &hash, &link).await? {
            self.note(claim, &hash, &link, &attempt);
            return Ok(attempt);
        }
        let (mode, take, total) = mode_numbers(claim.mode);
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let ring = self.ring(&link, claim);
        let (bell, name) = (ring.bell.to_bytes(), ring.bell.name());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("name", Value::Bytes(claim.key.as_str().as_bytes())),
            ("life", Value::Bytes(&life)),
            ("shard", Value::Number(hash.shard())),
            ("id", Value::Bytes(&id)),
            ("mode", Value::Number(mode)),
            ("take", Value::Number(take.into())),
            ("total", Value::Number(total.into())),
            ("ttl", Value::Number(micros(claim.ttl.get()))),
            ("queue", Value::Number((claim.patience == Patience::Queue).into())),
            ("floor", Value::Number(claim.floor.get())),
            ("who", Value::Bytes(claim.note.who().as_bytes())),
            ("label", Value::Bytes(claim.note.label().as_bytes())),
            ("bell", Value::Bytes(&bell)),
            ("ring", Value::Name(&name)),
        ];
        let all = &self.scripts;
        let mut scripts = vec![&all.create, &all.spill, &all.purge, &all.attempt];
        if claim.floor > Seq::ZERO {
            // The one case that may take no place in a line that nobody else is in.
            scripts.push(&all.tidy);
        }
        if self.rings(&link) {
            scripts.push(&all.ring);
        }
        let answer = self.run(Op::Attempt, &link, &scripts, &values, &ring.after()).await?;
        match self.read_attempt(claim, &link.found, answer.row(Op::Attempt)?) {
            Ok(attempt) => {
                self.note(claim, &hash, &link, &attempt);
                Ok(attempt)
            }
            Err(err) => {
                // Its doorbell stays its own: somebody may listen for it until it is released, or too old.
                self.waits.forget(claim.id);
                Err(err)
            }
        }
    }

    /// Remembers what an attempt was told.
    fn note(&self, claim: &Claim, hash: &Hash, link: &Link, attempt: &Attempt) {
        self.alone.crowded.note(hash, matches!(attempt, Attempt::Busy(_)));
        match attempt {
            Attempt::Busy(Busy { seat: Some(seat), .. }) => self.waits.expect(claim, seat.seq),
            Attempt::Granted(_) | Attempt::Busy(_) => self.waits.forget(claim.id),
        }
        if matches!(attempt, Attempt::Busy(Busy { seat: None, .. })) {
            link.bells.unheard(claim.id);
        } else {
            link.bells.taken(claim.id);
        }
    }

    pub(crate) fn read_attempt(&self, claim: &Claim, found: &Found, row: &Fields) -> Result<Attempt> {
        let lost = |why: &'static str| Error::new(ErrorKind::Lost, Op::Attempt, why).not_applied();
        match row.number(1) {
            Some(1 | 3) => return Err(lost("an operator evicted this claim from the line")),
            Some(2) => return Err(lost("this claim was released before")),
            _ => {}
        }
        if row.is(0) {
            return Err(absurd_floor(Op::Attempt));
        }
        let (Some(now), Some(ahead)) = (row.number(4), row.number(5)) else {
            return Err(nonsense(Op::Attempt));
        };
        let incarnation = Incarnation(found.incarnation());
        let seat = match row.number(3) {
            Some(seq) => Some(Seat { seq: number(Op::Attempt, seq)?, incarnation }),
            None => None,
        };
        if let Some(seat) = seat.filter(|_| row.is(6)) {
            let remembers = match self.kind {
                Kind::Durable | Kind::Replicated => None,
                // It may have forgotten the last second before it was started.
                Kind::Forgetful => Some(duration(now - (found.started() + 1) * 1_000_000)),
            };
            return Ok(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers }));
        }
        if seat.is_none() && claim.patience == Patience::Queue {
            return Err(Error::unavailable(Op::Attempt, "10,000 are in line already").not_applied());
        }
        Ok(Attempt::Busy(Busy {
            seat,
            ttl: seat.map(|_| claim.ttl.get()),
            ahead: u32::try_from(ahead).ok(),
            blocker: row.bytes(8).and_then(|_| blocker(row.text(8))),
            lapses_in: row.number(7).map(|deadline| duration(deadline - now)),
        }))
    }

    pub(crate) async fn downgrade_(&self, hold: Held<'_>) -> Result<Renewal> {
        let hash = Hash::of(&hold.claim.key);
        let link = self.link(Op::Downgrade, &hash).await?;
        let (id, life) = (hold.claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("life", Value::Bytes(&life)),
            ("id", Value::Bytes(&id)),
            ("seq", Value::Number(hold.seq.get())),
            ("ttl", Value::Number(micros(hold.claim.ttl.get()))),
        ];
        let all = &self.scripts;
        let scripts = [&all.find, &all.spill, &all.purge, &all.downgrade, &all.tidy];
        // Who waited for it may hold beside it now; it has no doorbell from here on.
        let answer =
            self.run(Op::Downgrade, &link, &scripts, &values, &self.let_go(&link, hold.claim)).await?;
        match answer.row(Op::Downgrade)?.number(0) {
            None => Ok(Renewal::Lost),
            Some(0 | 1) => Ok(Renewal::Renewed(Some(hold.claim.ttl.get()))),
            Some(_) => {
                Err(Error::invalid("permits have no weaker mode to downgrade to").in_op(Op::Downgrade))
            }
        }
    }

    pub(crate) async fn release_(&self, claim: &Claim, answered: Answered) -> Result<Released> {
        let hash = Hash::of(&claim.key);
        let link = self.link(Op::Release, &hash).await?;
        match answered {
            Answered::All => {
                let left = match self.leave_alone(claim, &hash, &link).await? {
                    Some(left) => left,
                    None => {
                        let bell = self.let_go(&link, claim);
                        self.part(claim, &hash, &link, &bell).await?
                    }
                };
                if left {
                    self.waits.forget(claim.id);
                    self.sweep_at_times(&link, &hash).await;
                    return Ok(Released::Freed);
                }
            }
            Answered::InDoubt => self.not_alone(claim.id),
        }
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("name", Value::Bytes(claim.key.as_str().as_bytes())),
            ("life", Value::Bytes(&life)),
            ("shard", Value::Number(hash.shard())),
            ("id", Value::Bytes(&id)),
            ("ttl", Value::Number(micros(claim.ttl.get()))),
        ];
        let all = &self.scripts;
        self.waits.forget(claim.id);
        let after = self.let_go(&link, claim);
        let answer = match answered {
            Answered::All => {
                let scripts = [&all.find, &all.spill, &all.purge, &all.release, &all.tidy];
                self.run(Op::Release, &link, &scripts, &values, &after).await?
            }
            Answered::InDoubt => {
                let scripts = [&all.create, &all.spill, &all.purge, &all.release, &all.bury];
                self.run(Op::Release, &link, &scripts, &values, &after).await?
            }
        };
        let freed = answer.row(Op::Release)?.is(0);
        self.sweep_at_times(&link, &hash).await;
        Ok(if freed { Released::Freed } else { Released::NotHeld })
    }

    pub(crate) async fn evict_(&self, eviction: &Eviction) -> Result<Evicted> {
        let hash = Hash::of(&eviction.key);
        let link = self.link(Op::Evict, &hash).await?;
        let (id, life) = (eviction.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("life", Value::Bytes(&life)),
            ("id", Value::Bytes(&id)),
            ("seq", Value::Number(eviction.seq.get())),
            ("gently", Value::Number((eviction.when == When::Gently).into())),
        ];
        let all = &self.scripts;
        let scripts = [&all.find, &all.spill, &all.purge, &all.evict, &all.tidy];
        let answer = self.run(Op::Evict, &link, &scripts, &values, "").await?;
        match answer.row(Op::Evict)?.number(0) {
            Some(0) => Ok(Evicted::Gone),
            Some(1) => Ok(Evicted::Stopped),
            Some(2) => Ok(Evicted::Freed),
            _ => Err(nonsense(Op::Evict)),
        }
    }
    /// Looks from time to time for keys that nobody wants, among those like this one.
    async fn sweep_at_times(&self, link: &Link, hash: &Hash) {
        if self.releases.fetch_add(1, Ordering::Relaxed) % SWEEP == SWEEP - 1 {
            // A matter of room only: nothing fails for it.
            let _ = self.sweep(link, Some(hash.0[0])).await;
        }
    }

    /// The doorbell for a claim's attempt.
    pub(crate) fn ring(&self, link: &Link, claim: &Claim) -> Ring {
        if self.rings(link) { link.bells.give(claim.id) } else { Ring::none() }
    }

    /// What lets the claim's doorbell go once its transaction is committed.
    fn let_go(&self, link: &Link, claim: &Claim) -> String {
        link.bells.remove(claim.id).map(Bell::let_go).unwrap_or_default()
    }
}
