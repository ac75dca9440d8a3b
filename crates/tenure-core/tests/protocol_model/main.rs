//! The protocol between clients and an engine, as a model that is searched completely.
//!
//! Clients attempt, wait, hold, renew, let go and give up; an engine keeps the line (by `tenure_core::line`, the
//! rule itself) and pushes a hold to whoever it passes to; the network between them delays, reorders, loses and
//! copies what it likes. Read `words` for the rules, `client` and `engine` for what each side does, `promises`
//! for what must come of it.
//!
//! **Time** is counted in ticks that may fall between any two steps. A lease lasts two of them, and a holder
//! believes in its hold up to the very end: the worst that the margin allows. Ages stop counting once
//! nothing depends on them, so there is no horizon: what is searched holds for all time, within the bounds on how
//! often each client asks. Lost messages and crashed or sleeping clients need no bound in these searches: a
//! message that is lost is one that never arrives, a client that crashed is one that takes no further step.
//!
//! **Safety** is searched at that free pace, 2.8 million distinct states in seven settings:
//!
//! | setting | claims x attempts + renewals | besides | states |
//! | --- | --- | --- | --- |
//! | two ask twice | 1 x 2 + 1, twice | | 306,330 * |
//! | hand-over | 2 x 1 + 0 and 1 x 2 + 0 | | 728,699 |
//! | late copies | 1 x 2 + 0, twice | one copy | 625,517 * |
//! | fail-over | 1 x 1 + 1 and 1 x 2 + 0 | a former life that still pushes | 233,780 |
//! | three | 1 x 1 + 1, three times | | 210,420 * |
//! | three with a copy | 1 x 1 + 0, three times | one copy | 429,577 * |
//! | readers and a writer | 1 x 1 + 0, three times | two are shared | 282,458 |
//!
//! (* up to which of the clients is which.) With them go smaller ones: the settings of the counterexamples.
//!
//! **Waits** cannot be bounded at a free pace, and `eventually` is sound only where paths have no cycles. So
//! waits are searched at a prompt pace, where between two ticks every message arrives or is lost, every waiter
//! asks once, and nobody holds for longer than a lease; losses and crashes are then counted. "Nobody waits for
//! ever" becomes a safety property with a number: among three clients nobody waits for more ticks than there
//! are others ahead and faults. The number is exact: one tick less is refuted.
//!
//! **Every rule is needed.** Each is broken in turn, and the search must find two holders, or an endless wait,
//! within a known number of steps. A model that could not find these would prove nothing by finding no others.
//!
//! Not in the model: claims that do not queue (they leave no place), permits (`line_rule` has them), downgrades,
//! evictions, the quorum, and a client that has not heard of a fail-over, whom no rule here can help.

mod client;
mod engine;
mod model;
mod promises;
mod words;

use engine::Role;
use model::{Ask, Pace, Setting};
use promises::{BOUNDED_WAIT, ONE_HOLDER};
use stateright::{Checker, HasDiscoveries, Model};
use tenure_core::Mode;
use words::Rule;

const fn client(lives: u8, attempts: u8, renewals: u8) -> Role {
    Role { mode: Mode::Exclusive, lives, attempts, renewals }
}

const ONCE: Role = client(1, 1, 0);
const RENEWS: Role = client(1, 1, 1);
const ASKS_TWICE: Role = client(1, 2, 0);
const RETURNS: Role = client(2, 1, 0);
const READER: Role = Role { mode: Mode::Shared, ..ONCE };

fn setting(roles: impl Into<Vec<Role>>) -> Setting {
    Setting {
        roles: roles.into(),
        copies: 0,
        failover: false,
        pace: Pace::Free,
        broken: &[],
        ask: Ask::Promises,
    }
}

fn with_a_copy(setting: Setting) -> Setting {
    Setting { copies: 1, ..setting }
}

fn with_a_failover(setting: Setting) -> Setting {
    Setting { failover: true, ..setting }
}

/// Searches everything and finds nothing, in no fewer states than known.
fn holds(setting: Setting, states: usize) {
    let search = setting.checker().spawn_bfs().join();
    search.assert_properties();
    let seen = search.unique_state_count();
    assert!(seen >= states, "only {seen} states: something no longer happens");
}

/// The same, for clients of one role, of which it does not matter which is which.
fn holds_for_alike(setting: Setting, states: usize) {
    let search = setting.checker().symmetry().spawn_dfs().join();
    search.assert_properties();
    let seen = search.unique_state_count();
    assert!(seen >= states, "only {seen} states: something no longer happens");
}

/// Finds the promise broken when these rules are, within so many steps.
fn refuted(setting: Setting, broken: &'static [Rule], promise: &'static str, steps: usize) {
    let setting = Setting { broken, ..setting };
    let until = HasDiscoveries::AnyOf([promise].into());
    let search = setting.checker().finish_when(until).spawn_bfs().join();
    let found = search.assert_any_discovery(promise).into_actions();
    assert!(found.len() <= steps, "{} steps: {found:#?}", found.len());
}

mod safety {
    use super::*;

    #[test]
    fn two_who_renew_and_ask_again() {
        holds_for_alike(setting([client(1, 2, 1); 2]), 300_000);
    }

    #[test]
    fn a_hand_over_to_one_who_asks_again() {
        holds(setting([RETURNS, ASKS_TWICE]), 700_000);
    }

    #[test]
    fn late_copies() {
        holds_for_alike(with_a_copy(setting([ASKS_TWICE; 2])), 600_000);
    }

    #[test]
    fn a_failover_with_a_former_life_that_still_pushes() {
        holds(with_a_failover(setting([RENEWS, ASKS_TWICE])), 230_000);
    }

    #[test]
    fn three_who_renew() {
        holds_for_alike(setting([RENEWS; 3]), 200_000);
    }

    #[test]
    fn three_with_a_copy() {
        holds_for_alike(with_a_copy(setting([ONCE; 3])), 400_000);
    }

    #[test]
    fn two_readers_and_a_writer() {
        holds(setting([READER, READER, ONCE]), 280_000);
    }

    #[test]
    fn everything_worth_a_promise_happens() {
        let asked = |setting: Setting| Setting { ask: Ask::Witnesses, ..setting };
        asked(with_a_copy(setting([RENEWS, ASKS_TWICE]))).checker().spawn_bfs().join().assert_properties();
        asked(with_a_copy(setting([READER, READER, RENEWS])))
            .checker()
            .spawn_bfs()
            .join()
            .assert_properties();
    }
}

/// Each rule, dropped: two holders.
mod every_rule_is_needed {
    use super::*;

    /// A copy of the attempt arrives after the place has expired and takes a new one; a slow renewal finds it;
    /// the holder wakes, reads the answer before the clock, and believes again, beside the next holder.
    #[test]
    fn renewal_by_id_alone_that_revives() {
        const BOTH: &[Rule] = &[Rule::RenewNamesTheNumber, Rule::LateRepliesNeverRevive];
        let one_renews = || with_a_copy(setting([RENEWS, ONCE]));
        refuted(one_renews(), BOTH, ONE_HOLDER, 12);
        // Either half is enough. Both are kept, because they guard against different mistakes.
        holds(Setting { broken: &BOTH[..1], ..one_renews() }, 30_000);
        holds(Setting { broken: &BOTH[1..], ..one_renews() }, 30_000);
    }

    /// The waiter sleeps until its place is gone, asks again, is told to wait at another, and then reads the
    /// push that was meant for the first.
    #[test]
    fn push_without_the_number() {
        refuted(setting([RETURNS, ASKS_TWICE]), &[Rule::PushNamesTheNumber], ONE_HOLDER, 15);
    }

    /// Holder and waiter have moved on to the new life of the engine. In the old one nobody renews the holder,
    /// so it pushes the very same number to the waiter.
    #[test]
    fn push_without_the_incarnation() {
        let moved = with_a_failover(setting([RENEWS, ASKS_TWICE]));
        refuted(moved, &[Rule::PushNamesTheIncarnation], ONE_HOLDER, 16);
    }

    #[test]
    fn hold_counted_from_the_push() {
        refuted(setting([RETURNS, ONCE]), &[Rule::PushCountsFromTheAttempt], ONE_HOLDER, 13);
    }

    #[test]
    fn hold_counted_from_the_reply() {
        refuted(setting([ONCE; 2]), &[Rule::CountFromSent], ONE_HOLDER, 8);
    }

    #[test]
    fn deadline_included_at_both_ends() {
        refuted(setting([ONCE; 2]), &[Rule::HalfOpen], ONE_HOLDER, 8);
    }

    #[test]
    fn number_drawn_before_the_line_is_locked() {
        refuted(setting([ONCE; 2]), &[Rule::LockBeforeTheNumber], ONE_HOLDER, 8);
    }

    /// The slow release of the first life takes the place of the second.
    #[test]
    fn id_attempted_again_after_its_release() {
        refuted(setting([RETURNS, ONCE]), &[Rule::OneLifePerId], ONE_HOLDER, 9);
    }

    #[test]
    fn deadlines_kept_over_a_failover_to_a_faster_clock() {
        let moved = with_a_failover(setting([ONCE; 2]));
        refuted(moved, &[Rule::FailoverStartsLeasesAnew], ONE_HOLDER, 8);
    }
}

/// Nobody waits for ever while the engine lives.
mod waits {
    use super::*;

    fn three(losses: u8, crashes: u8, longest_wait: u8) -> Setting {
        let pace = Pace::Prompt { losses, crashes, longest_wait };
        Setting { pace, ..setting([ONCE; 3]) }
    }

    /// One tick for each who may be ahead, and one for each fault: what is left of the lease of a place that
    /// nobody lets go of.
    #[test]
    fn are_bounded_by_those_ahead_and_the_faults() {
        for (losses, crashes, states) in [(0, 0, 13_000), (1, 0, 90_000), (0, 1, 70_000), (1, 1, 500_000)] {
            let bound = 2 + losses + crashes;
            holds(three(losses, crashes, bound), states);
            refuted(three(losses, crashes, bound - 1), &[], BOUNDED_WAIT, 26);
        }
    }

    /// A waiter that trusts in being told waits for ever: a push may be lost, and its place expires meanwhile.
    #[test]
    fn do_not_end_for_those_who_only_wait_to_be_told() {
        refuted(three(1, 0, 20), &[Rule::WaitersAskAgain], BOUNDED_WAIT, 40);
    }

    #[test]
    fn do_not_end_behind_the_dead_unless_leases_do() {
        refuted(three(0, 1, 20), &[Rule::LeasesEnd], BOUNDED_WAIT, 110);
    }

    /// Without any fault, a release overtakes an attempt, and a place that nobody wants stands for a lease.
    #[test]
    fn are_longer_without_graves() {
        refuted(three(0, 0, 2), &[Rule::GraveForTheDoubtful], BOUNDED_WAIT, 40);
    }
}
