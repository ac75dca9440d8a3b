//! For how long a session is certain to live.
//!
//! A session ends when its *leader* has not heard of it for the session's time. What a client sends is heard by the server
//! it is connected to, which tells the leader of it only when the leader asks, every half tick. So an answer proves little, and
//! one that the server gives by itself (to a ping, to a read) proves nothing: a server that is cut off from the leader gives
//! it, too. Even a `sync` is answered by a leader that is cut off from everybody else and has a successor by then. What
//! proves something is a *change* that a majority has agreed to: only the one leader there is can bring that about, and what a
//! server tells the leader, it tells in order. So a session is certain to live for its time from the newest request that was
//! answered before, and was sent before a change that was agreed to, by at least the time between two questions of the leader.
//! (A leader that comes after gives every session its whole time anew.)
//!
//! To open a session or to go on with it over another connection is itself a matter for the leader, and counts at once.

use std::{collections::VecDeque, time::Duration};

use tenure_core::Moment;

/// No more are remembered.
const MOST: usize = 64;

#[derive(Debug)]
pub(crate) struct Beats {
    timeout: Duration,
    gap: Duration,
    /// The leader had heard of the session at this moment or later.
    heard: Moment,
    /// When requests were sent that were answered since, in order.
    answered: VecDeque<Moment>,
}

impl Beats {
    /// Of a session that was opened by a request sent at this moment.
    pub(crate) fn new(timeout: Duration, gap: Duration, opened: Moment) -> Self {
        Self { timeout, gap, heard: opened, answered: VecDeque::new() }
    }

    /// The session goes on over a connection that was asked for at this moment. What the server before was told may have
    /// died with it.
    pub(crate) fn reopened(&mut self, sent: Moment) {
        self.heard = self.heard.max(sent);
        self.answered.clear();
    }

    /// The server answered a request that was sent at this moment.
    pub(crate) fn answered(&mut self, sent: Moment) {
        // Requests come close together; those that differ little say no more than one of them.
        let new = self.answered.back().is_none_or(|&last| sent.since(last) >= self.gap / 8);
        if !new {
            return;
        }
        if self.answered.len() >= MOST {
            self.answered.pop_front();
        }
        self.answered.push_back(sent);
    }

    /// A change was agreed to that was sent at this moment.
    pub(crate) fn agreed(&mut self, sent: Moment) {
        while let Some(&older) = self.answered.front()
            && older + self.gap <= sent
        {
            self.heard = self.heard.max(older);
            self.answered.pop_front();
        }
        self.answered(sent);
    }

    /// How long after this moment the session is certain to live.
    pub(crate) fn left(&self, from: Moment) -> Duration {
        (self.heard + self.timeout).since(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(ms: u64) -> Moment {
        Moment::new(Duration::from_millis(ms))
    }

    fn beats() -> Beats {
        Beats::new(Duration::from_millis(1000), Duration::from_millis(300), at(0))
    }

    fn left(beats: &Beats) -> u128 {
        beats.left(at(0)).as_millis()
    }

    #[test]
    fn an_answer_proves_only_what_was_sent_well_before() {
        let mut beats = beats();
        assert_eq!(left(&beats), 1000);
        beats.agreed(at(500));
        assert_eq!(left(&beats), 1000, "the leader may not have been told yet");
        beats.agreed(at(799));
        assert_eq!(left(&beats), 1000, "nor of the one before");
        beats.agreed(at(800));
        assert_eq!(left(&beats), 1500);
        beats.agreed(at(1200));
        assert_eq!(left(&beats), 1799, "the newest that is old enough counts");
    }

    #[test]
    fn many_answers_close_together_do_not_hide_the_old_ones() {
        let mut beats = beats();
        for ms in 0..1200 {
            beats.agreed(at(ms));
        }
        let left = left(&beats);
        assert!((1860..=1899).contains(&left), "{left}");
        assert!(beats.answered.len() < 20);
    }

    #[test]
    fn another_connection_counts_at_once_and_forgets_what_came_before() {
        let mut beats = beats();
        beats.agreed(at(500));
        beats.reopened(at(600));
        assert_eq!(left(&beats), 1600);
        beats.agreed(at(850));
        assert_eq!(left(&beats), 1600, "what was answered before says nothing of the new server");
        assert_eq!(beats.left(at(5000)), Duration::ZERO);
    }

    #[test]
    fn what_no_majority_agreed_to_proves_nothing() {
        let mut beats = beats();
        for ms in [300, 600, 900] {
            beats.answered(at(ms));
        }
        assert_eq!(left(&beats), 1000, "a server that is cut off could have said all that");
        beats.agreed(at(1000));
        assert_eq!(left(&beats), 1600, "but it had heard, and what it heard was told");
    }

    #[test]
    fn answers_out_of_order_never_lead_back() {
        let mut beats = beats();
        beats.agreed(at(500));
        beats.agreed(at(900));
        let before = left(&beats);
        beats.agreed(at(100));
        assert_eq!(left(&beats), before);
    }
}
