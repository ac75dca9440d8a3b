//! Doorbells: user-level locks (`GET_LOCK`) that say nothing but that somebody has left.
//!
//! The session that carries out a claim's attempts holds a lock that the claim's row names, and lets it go right after
//! it has committed the claim's release. Who waits blocks on that lock in the server. Nothing is believed because of it:
//! a doorbell that rings for nothing, or not at all (its session was killed), costs a look at the line.
//!
//! Whoever was alone from its grant to its release was never waited for, and so its session keeps the doorbell for
//! another claim: a lock that nobody else wants costs no `GET_LOCK` after the first time.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tenure_core::{ClaimId, Op, Result};

use crate::{link::Link, script::push_hex};

/// The most doorbells that a session holds. MariaDB goes through all the locks of a session whenever it opens a table,
/// so that thousands would make every verb slow. Beyond that the oldest is let go, whose waiters then look for
/// themselves.
const MOST: usize = 64;

/// The name of a doorbell in rows: the claim that it was first for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bell(ClaimId);

/// The doorbells of one session.
#[derive(Debug, Default)]
pub(crate) struct Bells(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Whose doorbell is which, the oldest first.
    given: VecDeque<Given>,
    /// Those that the session has and nobody needs.
    idle: Vec<Bell>,
}

#[derive(Debug)]
struct Given {
    to: ClaimId,
    bell: Bell,
    /// Whether the session has it.
    taken: bool,
}

/// The doorbell for an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) bell: Bell,
    /// Whether the attempt is to take it. One that the session may have is not taken: taken twice it would have to be
    /// let go twice.
    pub(crate) new: bool,
    /// One that the session has too many, and is to let go.
    pub(crate) too_many: Option<Bell>,
}

impl Ring {
    /// For an attempt where doorbells do not work.
    pub(crate) fn none() -> Self {
        Self { bell: Bell(ClaimId::from_bytes([0; 16])), new: false, too_many: None }
    }

    /// The name of the lock that a statement is to take, empty for none.
    pub(crate) fn take(&self) -> String {
        if self.new { self.bell.name() } else { String::new() }
    }

    /// What lets go of one that is too many, for the end of a text.
    pub(crate) fn after(&self) -> String {
        self.too_many.map(Bell::let_go).unwrap_or_default()
    }
}

impl Bells {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a claim its doorbell: the one it has, one that is idle, or a new one.
    pub(crate) fn give(&self, to: ClaimId) -> Ring {
        let mut known = self.known();
        if let Some(given) = known.given.iter().find(|given| given.to == to) {
            return Ring { bell: given.bell, new: false, too_many: None };
        }
        let idle = known.idle.pop();
        let (bell, new) = (idle.unwrap_or(Bell(to)), idle.is_none());
        known.given.push_back(Given { to, bell, taken: !new });
        // A new one is only made when none is idle, so those that are given are all.
        let oldest = if known.given.len() > MOST { known.given.pop_front() } else { None };
        Ring { bell, new, too_many: oldest.map(|oldest| oldest.bell) }
    }

    /// Notes that the session has taken a claim's doorbell.
    pub(crate) fn taken(&self, by: ClaimId) {
        if let Some(given) = self.known().given.iter_mut().find(|given| given.to == by) {
            given.taken = true;
        }
    }

    /// Notes that nobody listens for a claim's doorbell, nor ever did: the session keeps it, if it has it.
    pub(crate) fn unheard(&self, of: ClaimId) {
        let mut known = self.known();
        if let Some(at) = known.given.iter().position(|given| given.to == of)
            && let Some(Given { bell, taken: true, .. }) = known.given.remove(at)
        {
            known.idle.push(bell);
        }
    }

    /// Forgets a claim's doorbell, which is to be let go.
    pub(crate) fn remove(&self, of: ClaimId) -> Option<Bell> {
        let mut known = self.known();
        let at = known.given.iter().position(|given| given.to == of)?;
        known.given.remove(at).map(|given| given.bell)
    }
}

impl Bell {
    /// What stands in rows.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_bytes()
    }

    /// The name of the lock. The names of a server are one space for all its databases and have at most 64 characters; the
    /// id is one claim's alone, wherever it is.
    pub(crate) fn name(self) -> String {
        let mut name = String::with_capacity(39);
        name.push_str("tenure.");
        push_hex(&mut name, &self.to_bytes());
        name
    }

    /// What lets it go, for the end of a text.
    pub(crate) fn let_go(self) -> String {
        format!("; DO RELEASE_LOCK('{}')", self.name())
    }
}

/// Whether doorbells work between these two connections: that a session keeps several at once from one request to the
/// next (a pooler lends another one), and that another session hears of them.
pub(crate) async fn work(one: &Link, two: &Link) -> Result<bool> {
    let [first, second] = [(); 2].map(|()| Bell(ClaimId::fresh()).name());
    for (link, function) in [
        (one, "GET_LOCK({}, 0)"),
        (two, "NOT IS_FREE_LOCK({})"),
        (one, "RELEASE_LOCK({})"),
        (two, "IS_FREE_LOCK({})"),
    ] {
        let of = |name: &str| function.replace("{}", &format!("'{name}'"));
        let answer = link.send(Op::Connect, format!("SELECT {} AND {}", of(&first), of(&second))).await?;
        if !answer.row(Op::Connect)?.is(0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_doorbell_is_one_too_many() {
        let bells = Bells::default();
        let ids: Vec<_> = (0..=MOST).map(|_| ClaimId::fresh()).collect();
        let ring = |id, new, too_many| Ring { bell: Bell(id), new, too_many };
        for id in &ids[..MOST] {
            assert_eq!(bells.give(*id), ring(*id, true, None));
            assert_eq!(bells.give(*id), ring(*id, false, None), "a repeated attempt");
        }
        assert_eq!(bells.give(ids[MOST]), ring(ids[MOST], true, Some(Bell(ids[0]))));
        assert_eq!(bells.remove(ids[1]), Some(Bell(ids[1])));
        assert_eq!(bells.give(ids[0]), ring(ids[0], true, None));
        assert!(Bell(ids[0]).name().len() <= 64, "names of MySQL have 64 characters");
    }

    #[test]
    fn only_a_doorbell_that_was_taken_and_never_heard_is_used_again() {
        let bells = Bells::default();
        let [untaken, heard, unheard, next, last] = [(); 5].map(|()| ClaimId::fresh());
        for id in [untaken, heard, unheard] {
            assert!(bells.give(id).new);
        }
        bells.taken(heard);
        bells.taken(unheard);
        bells.unheard(untaken);
        assert_eq!(bells.remove(heard), Some(Bell(heard)));
        bells.unheard(unheard);
        bells.unheard(unheard);
        assert_eq!(bells.give(next), Ring { bell: Bell(unheard), new: false, too_many: None });
        assert_eq!(bells.give(last), Ring { bell: Bell(last), new: true, too_many: None });
    }
}
