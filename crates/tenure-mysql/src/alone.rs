//! The short way: a claim that is alone on its key is one statement that changes one row, and so is its release.
//!
//! Whenever it is not so simple the statement changes nothing, and the verb goes the long way, on a second trip.

use std::{
    collections::HashSet,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::{Attempt, Claim, ClaimId, Grant, Hunch, Incarnation, Op, Result, Seat, Seq};

use crate::{
    MysqlEngine,
    facts::Kind,
    link::Link,
    script::Value,
    words::{Hash, micros, mode_numbers, number},
};

/// What this client knows of the short way. Wrong guesses cost a trip.
#[derive(Debug, Default)]
pub(crate) struct Alone {
    /// Claims that went it, and hold.
    claims: Mutex<HashSet<ClaimId>>,
    /// Which keys were given back on it, and so have a row.
    rows: Hunch,
    /// On which keys somebody else was met last time: the next attempt then does not look whether it is alone.
    pub(crate) crowded: Hunch,
}

impl Alone {
    fn claims(&self) -> MutexGuard<'_, HashSet<ClaimId>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MysqlEngine {
    /// Takes a key that nobody else wants. `None` if it is not so.
    pub(crate) async fn take_alone(
        &self,
        claim: &Claim,
        hash: &Hash,
        link: &Link,
    ) -> Result<Option<Attempt>> {
        // A server that forgets must say since when it remembers, a floor must be looked at, and whoever waits is not
        // alone.
        if self.kind == Kind::Forgetful || claim.floor > Seq::ZERO || self.waits.knows(claim.id) {
            return Ok(None);
        }
        if self.alone.crowded.of(hash) {
            return Ok(None);
        }
        let has_row = self.alone.rows.of(hash);
        let (mode, take, total) = mode_numbers(claim.mode);
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let ring = self.ring(link, claim);
        let (bell, name) = (ring.bell.to_bytes(), ring.take());
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
            ("who", Value::Bytes(claim.note.who().as_bytes())),
            ("label", Value::Bytes(claim.note.label().as_bytes())),
            ("bell", Value::Bytes(&bell)),
            ("ring", Value::Name(&name)),
        ];
        let script = if has_row { &self.scripts.again } else { &self.scripts.alone }.with(&name);
        let answer = if ring.too_many.is_none() {
            link.send_bound(Op::Attempt, script, &values).await?
        } else {
            let mut sql = String::with_capacity(2048);
            script.write(&mut sql, &values);
            sql.push_str(ring.after().trim_start_matches(';'));
            link.send(Op::Attempt, sql).await?
        };
        let (changed, drawn) = answer.done(0);
        if drawn == 0 || (has_row && changed == 0) {
            self.alone.rows.note(hash, false);
            if has_row && ring.new {
                // It was not taken.
                link.bells.remove(claim.id);
            } else {
                link.bells.taken(claim.id);
            }
            return Ok(None);
        }
        link.bells.taken(claim.id);
        let drawn = i64::try_from(drawn).unwrap_or(i64::MAX);
        let seat =
            Seat { seq: number(Op::Attempt, drawn)?, incarnation: Incarnation(link.found.incarnation()) };
        self.alone.claims().insert(claim.id);
        Ok(Some(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: None })))
    }

    /// Gives back a key that this claim has alone. `false` if it is not alone any more, `None` if it never was.
    pub(crate) async fn leave_alone(&self, claim: &Claim, hash: &Hash, link: &Link) -> Result<Option<bool>> {
        if !self.alone.claims().remove(&claim.id) {
            return Ok(None);
        }
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [("h", Value::Bytes(&hash.0)), ("life", Value::Bytes(&life)), ("id", Value::Bytes(&id))];
        let answer = link.send_bound(Op::Release, &self.scripts.leave, &values).await?;
        if answer.done(0).0 == 0 {
            self.alone.crowded.note(hash, true);
            return Ok(Some(false));
        }
        link.bells.unheard(claim.id);
        self.alone.rows.note(hash, true);
        Ok(Some(true))
    }

    /// Forgets that a claim went the short way.
    pub(crate) fn not_alone(&self, id: ClaimId) {
        self.alone.claims().remove(&id);
    }
}
