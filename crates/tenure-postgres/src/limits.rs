//! How long the server lets a verb wait, and what a session is set to.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// How often in a row others must be asked for before the session is set to them: verbs of one client mostly have one
/// ttl, and those of a client with several would set it back and forth.
const OFTEN: u32 = 4;

/// How long a verb may wait for a key or a row, and take in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) wait: Duration,
    pub(crate) all: Duration,
}

impl Limits {
    /// Sets a session to them.
    pub(crate) fn for_session(self) -> String {
        let [wait, all] = [self.wait, self.all].map(|limit| limit.as_millis().max(1));
        format!("SET lock_timeout={wait};SET statement_timeout={all}")
    }
}

/// The limits that a session is set to, which follow those that are asked for: a verb that brings its own is sent as
/// text, and takes twice as long as one that was prepared.
///
/// A verb that is sent while another has them changed may find the new ones. Those are limits too, and whoever asks
/// has one of its own besides.
#[derive(Debug)]
pub(crate) struct Usual(Mutex<State>);

#[derive(Debug)]
struct State {
    /// Nothing while it is not known.
    set: Option<Limits>,
    wanted: Limits,
    times: u32,
    changing: bool,
}

/// How a verb is to be sent.
#[derive(Debug)]
pub(crate) enum Way<'a> {
    /// The session has its limits.
    Usual,
    /// It brings its own.
    WithItsOwn,
    /// The session is set to them first.
    Change(Changing<'a>),
}

/// The session is being set to other limits. If that is given up, it is not known which it has.
#[derive(Debug)]
pub(crate) struct Changing<'a>(&'a Usual);

impl Usual {
    pub(crate) fn new(limits: Limits) -> Self {
        Self(Mutex::new(State { set: Some(limits), wanted: limits, times: 0, changing: false }))
    }

    pub(crate) fn get(&self) -> Option<Limits> {
        self.lock().set
    }

    /// Whether the session is set to these, which somebody asks for.
    pub(crate) fn has(&self, limits: Limits) -> bool {
        self.lock().has(limits)
    }

    pub(crate) fn way(&self, limits: Limits) -> Way<'_> {
        let mut state = self.lock();
        if state.has(limits) {
            return Way::Usual;
        }
        state.times = if state.wanted == limits { state.times + 1 } else { 1 };
        state.wanted = limits;
        if state.times < OFTEN || state.changing {
            return Way::WithItsOwn;
        }
        (state.set, state.times, state.changing) = (None, 0, true);
        Way::Change(Changing(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // It is changed in single steps, so a panic elsewhere leaves it whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has(&mut self, limits: Limits) -> bool {
        let has = self.set == Some(limits);
        if has {
            self.times = 0;
        }
        has
    }
}

impl Changing<'_> {
    /// The server has said that it is set to these.
    pub(crate) fn done(self, limits: Limits) {
        self.0.lock().set = Some(limits);
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.lock().changing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(seconds: u64) -> Limits {
        Limits { wait: Duration::from_secs(1), all: Duration::from_secs(seconds) }
    }

    fn ways(usual: &Usual, seconds: u64, times: u32) -> Vec<&'static str> {
        (0..times)
            .map(|_| match usual.way(limits(seconds)) {
                Way::Usual => "usual",
                Way::WithItsOwn => "own",
                Way::Change(changing) => {
                    changing.done(limits(seconds));
                    "change"
                }
            })
            .collect()
    }

    #[test]
    fn a_session_follows_what_is_asked_for_in_a_row() {
        let usual = Usual::new(limits(5));
        assert_eq!(ways(&usual, 5, 2), ["usual", "usual"]);
        assert_eq!(ways(&usual, 3, 6), ["own", "own", "own", "change", "usual", "usual"]);
        assert_eq!(usual.get(), Some(limits(3)));
    }

    #[test]
    fn two_that_take_turns_do_not_set_it_back_and_forth() {
        let usual = Usual::new(limits(5));
        for _ in 0..100 {
            assert_eq!([ways(&usual, 5, 1), ways(&usual, 3, 1)], [["usual"], ["own"]]);
            assert_eq!([ways(&usual, 2, 1), ways(&usual, 3, 1)], [["own"], ["own"]]);
        }
    }

    #[test]
    fn to_ask_whether_it_has_some_counts_as_asking_for_them() {
        let usual = Usual::new(limits(5));
        for _ in 0..100 {
            assert_eq!(ways(&usual, 3, 1), ["own"]);
            assert!(usual.has(limits(5)) && !usual.has(limits(3)));
        }
    }

    #[test]
    fn while_it_changes_nobody_relies_on_it_and_nobody_else_changes_it() {
        let usual = Usual::new(limits(5));
        assert_eq!(ways(&usual, 3, 3), ["own"; 3]);
        let Way::Change(changing) = usual.way(limits(3)) else { panic!("not often enough") };
        assert_eq!(usual.get(), None);
        assert_eq!(ways(&usual, 2, 10), ["own"; 10]);
        assert_eq!(ways(&usual, 5, 2), ["own"; 2]);
        drop(changing);
        assert_eq!(usual.get(), None, "given up, so nobody knows");
        assert_eq!(ways(&usual, 5, 4), ["own", "change", "usual", "usual"]);
    }
}
