//! The short way: a claim that is alone on its key is one statement that changes one row, and so is its release.
//!
//! Whenever it is not so simple the statement changes nothing, and the verb goes the long way, on a second trip.

use std::{
    collections::{BTreeSet, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::{Attempt, Claim, ClaimId, Grant, Incarnation, Op, Result, Seat, Seq};

use crate::{
    MysqlEngine,
    facts::Kind,
    link::Link,
    script::Value,
    words::{Hash, micros, mode_numbers, number},
};

/// The most keys that are remembered to have a row, or to be crowded.
const MOST_KEYS: usize = 4096;

/// What this client knows of the short way. Wrong guesses cost a trip.
#[derive(Debug, Default)]
pub(crate) struct Alone(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Claims that went it, and hold.
    claims: HashSet<ClaimId>,
    /// Keys that were given back on it, and so have a row.
    keys: BTreeSet<Hash>,
    /// Keys on which somebody else was met last time.
    crowded: BTreeSet<Hash>,
}

impl Alone {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether somebody else was met on a key last time.
    pub(crate) fn is_crowded(&self, hash: &Hash) -> bool {
        self.known().crowded.contains(hash)
    }

    /// Notes whether somebody else was met on a key: the next attempt then does not look whether it is alone.
    pub(crate) fn met(&self, hash: &Hash, somebody: bool) {
        let mut known = self.known();
        if somebody {
            remember(&mut known.crowded, hash);
        } else {
            known.crowded.remove(hash);
        }
    }
}

fn remember(keys: &mut BTreeSet<Hash>, hash: &Hash) {
    if keys.len() >= MOST_KEYS {
        keys.clear();
    }
    keys.insert(*hash);
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
        let has_row = {
            let known = self.alone.known();
            if known.crowded.contains(hash) {
                return Ok(None);
            }
            known.keys.contains(hash)
        };
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
            self.alone.known().keys.remove(hash);
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
        self.alone.known().claims.insert(claim.id);
        Ok(Some(Attempt::Granted(Grant { seat, ttl: Some(claim.ttl.get()), remembers: None })))
    }

    /// Gives back a key that this claim has alone. `false` if it is not alone any more, `None` if it never was.
    pub(crate) async fn leave_alone(&self, claim: &Claim, hash: &Hash, link: &Link) -> Result<Option<bool>> {
        if !self.alone.known().claims.remove(&claim.id) {
            return Ok(None);
        }
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [("h", Value::Bytes(&hash.0)), ("life", Value::Bytes(&life)), ("id", Value::Bytes(&id))];
        let answer = link.send_bound(Op::Release, &self.scripts.leave, &values).await?;
        if answer.done(0).0 == 0 {
            self.alone.met(hash, true);
            return Ok(Some(false));
        }
        link.bells.unheard(claim.id);
        remember(&mut self.alone.known().keys, hash);
        Ok(Some(true))
    }

    /// Forgets that a claim went the short way.
    pub(crate) fn not_alone(&self, id: ClaimId) {
        self.alone.known().claims.remove(&id);
    }
}
