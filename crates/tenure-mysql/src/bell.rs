//! Doorbells: user-level locks (`GET_LOCK`) that say nothing but that somebody has left.
//!
//! The session that carries out a claim's attempts holds the lock named after it, and lets it go right after it has
//! committed the claim's release. Who waits blocks on that lock in the server. Nothing is believed because of it: a
//! doorbell that rings for nothing, or not at all (its session was killed), costs a look at the line.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use tenure_core::{ClaimId, Op, Result};

use crate::{link::Link, script::push_hex};

/// The most doorbells that a session holds. MariaDB goes through all the locks of a session whenever it opens a table,
/// so that thousands would make every verb slow. Beyond that the oldest is let go, whose waiters then look for
/// themselves.
const MOST: usize = 64;

/// The doorbells of one session, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Bells(Mutex<VecDeque<ClaimId>>);

impl Bells {
    /// Notes one more, and says whether it was not there before, and which one is too many.
    pub(crate) fn add(&self, id: ClaimId) -> (bool, Option<ClaimId>) {
        let mut bells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let new = !bells.contains(&id);
        if new {
            bells.push_back(id);
        }
        (new, if bells.len() > MOST { bells.pop_front() } else { None })
    }

    /// Forgets one that is let go.
    pub(crate) fn remove(&self, id: ClaimId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|bell| *bell != id);
    }
}

/// The name of a claim's doorbell. The names of a server are one space for all its databases and have at most 64
/// characters; the id is the claim's alone, wherever it is.
pub(crate) fn name(id: ClaimId) -> String {
    let mut name = String::with_capacity(39);
    name.push_str("tenure.");
    push_hex(&mut name, &id.to_bytes());
    name
}

/// What lets a claim's doorbell go, for the end of a text.
pub(crate) fn let_go(id: ClaimId) -> String {
    format!("; DO RELEASE_LOCK('{}')", name(id))
}

/// Whether doorbells work between these two connections: that a session keeps several at once from one request to the
/// next (a pooler lends another one), and that another session hears of them.
pub(crate) async fn work(one: &Link, two: &Link) -> Result<bool> {
    let [first, second] = [name(ClaimId::fresh()), name(ClaimId::fresh())];
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
        for id in &ids[..MOST] {
            assert_eq!(bells.add(*id), (true, None));
            assert_eq!(bells.add(*id), (false, None), "a repeated attempt");
        }
        assert_eq!(bells.add(ids[MOST]), (true, Some(ids[0])));
        bells.remove(ids[1]);
        assert_eq!(bells.add(ids[0]), (true, None));
        assert!(name(ids[0]).len() <= 64, "names of MySQL have 64 characters");
    }
}
