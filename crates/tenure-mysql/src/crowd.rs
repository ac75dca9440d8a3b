//! A line of several: to join it at its end and to leave it, in few statements.
//!
//! As on the short way of a claim that is alone, whatever is not so simple changes nothing, and the verb goes the long
//! way on a second trip.

use tenure_core::{Attempt, Claim, Op, Patience, Result, Seq};

use crate::{
    MysqlEngine,
    link::Link,
    script::Value,
    trouble::is_duplicate,
    words::{Hash, micros, mode_numbers},
};

impl MysqlEngine {
    /// Takes a place behind others. `None` if it is not so, or another attempt must say how the claim stands.
    pub(crate) async fn join(&self, claim: &Claim, hash: &Hash, link: &Link) -> Result<Option<Attempt>> {
        // A floor must be looked at, and whoever does not wait leaves no place behind.
        let simple = claim.patience == Patience::Queue && claim.floor == Seq::ZERO;
        if !simple || !self.alone.crowded.of(hash) || self.waits.knows(claim.id) {
            return Ok(None);
        }
        let (mode, take, total) = mode_numbers(claim.mode);
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let ring = self.ring(link, claim);
        let (bell, name) = (ring.bell.to_bytes(), ring.take());
        let script = self.scripts.join.with(&name);
        let values = [
            ("h", Value::Bytes(&hash.0)),
            ("life", Value::Bytes(&life)),
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
        let answer = match self.run(Op::Attempt, link, &[script], &values, &ring.after()).await {
            Err(err) if is_duplicate(&err) => return Ok(None),
            answer => answer?,
        };
        link.bells.taken(claim.id);
        if answer.done(2).0 == 0 {
            self.alone.crowded.note(hash, false);
            return Ok(None);
        }
        let row = answer.row(Op::Attempt)?;
        let lapsed = |first: i64| row.number(4).is_none_or(|now| first <= now);
        if row.number(7).is_some_and(lapsed) {
            return Ok(None);
        }
        self.read_attempt(claim, &link.found, row).map(Some)
    }

    /// Leaves a line in which others may stand. `false` if it is not so simple.
    pub(crate) async fn part(&self, claim: &Claim, hash: &Hash, link: &Link, after: &str) -> Result<bool> {
        let (id, life) = (claim.id.to_bytes(), link.found.incarnation().to_be_bytes());
        let values = [("h", Value::Bytes(&hash.0)), ("life", Value::Bytes(&life)), ("id", Value::Bytes(&id))];
        let answer = self.run(Op::Release, link, &[&self.scripts.part], &values, after).await?;
        let (parted, nobody_left) = (answer.done(2).0 > 0, answer.done(3).0 > 0);
        if parted {
            self.alone.crowded.note(hash, !nobody_left);
        }
        Ok(parted)
    }
}
