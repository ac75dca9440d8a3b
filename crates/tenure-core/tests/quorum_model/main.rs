//! The fences of a quorum, as a model that is searched completely.
//!
//! Clients ask three members for one key, count the grants, take the largest number as the fence, raise those who
//! are below it, hold, renew, let go and give up; the network between them delays, reorders, loses and copies what
//! it likes, and a member may forget everything. Read `words` for the rules, `round` for what a client does,
//! `member` and `network` for the rest, `promises` for what must come of it.
//!
//! **A member** has a mark, the largest number that it ever drew or was raised to, and at most one exclusive place.
//! Claims do not queue: an attempt takes its place at once or leaves nothing behind. The number is the first above
//! the mark, not below the proposed floor, and not below the member's clock where it has one. A mark that the clock
//! has passed is no different from one that is forgotten, so the model does not tell them apart. Members that
//! forget idle keys only when the clock has passed their mark are thereby searched too.
//!
//! **A grant** counts once a majority stands at the fence `f`: each drew `f`, or has confirmed a renewal with the
//! floor `f`. It is counted from before the first attempt left, and whether it is still safe is asked when it counts.
//! Every round has an id of its own; its end, for whatever reason, is a release to all members.
//!
//! **Why fences rise.** Say A's grant with `f` counts at time T on a majority Q. Each member of Q then has A's
//! place, because it was taken or renewed no earlier than A's attempts left, lives for a lease from then on, and can
//! go earlier only by a release that A has not sent under this id. And each has a mark of at least `f`, because marks
//! never fall. Now B's grant counts later on Q'. Some member of both had A's exclusive place at T and so not B's; it
//! has B's now; so B's was taken in between, after A's had left, and its number is above a mark that was `f` already.
//! B's fence is no smaller than that number. While A believes, A's places stand on all of Q and leave no such member
//! for B: hence one holder. Every rule is a step of this argument, and breaking it breaks the step.
//!
//! **Why a quarantine suffices.** A member that forgot at time r had answered A before r, so A's belief ends before
//! r + lease: it must be silent for a lease, the longest that anybody uses. And `f` was no more than the fastest
//! clock at r, so a member that is silent for longer than clocks differ draws more than `f` again. The larger of the
//! two is enough, and each is exact: one tick less is refuted. The sum of both, which is what a quorum serves, is
//! on the safe side. All this needs clocks that outrun the numbers, and floors that are not proposed far ahead of
//! the clocks: if a proposal is ahead by as much as the quarantine is long, fences fall after a restart.
//!
//! **Time** is counted in ticks that may fall between any two steps. A lease lasts two of them, and a holder
//! believes up to the very end: the worst that the margin allows. Without clocks there is no horizon; with clocks,
//! time ends after three to four ticks. Lost messages and crashed or sleeping clients need no steps of their own.
//!
//! | setting | besides | states |
//! | --- | --- | --- |
//! | two ask once | | 13,206 |
//! | two ask once and renew | | 38,247 |
//! | two ask once | two copies of attempts | 389,152 |
//! | two ask once | proposed floors | 97,374 |
//! | two ask once | clocks that differ by 0, 1 and 2 | 785,784 |
//! | two ask once | the same and proposed floors | 365,895 * |
//! | two, of which one asks twice | | 926,483 ** |
//! | three ask once | | 258,877 * |
//! | a reader and a writer | | 27,578 |
//! | a reader and a writer | clocks that differ by 0, 1 and 2 | 328,716 * |
//! | two ask once | a restart, equal clocks | 437,822 |
//! | two ask once | a restart, clocks that differ by 1 tick | 269,552 * |
//! | two ask once | a restart, clocks that differ by 2 ticks | 588,491 * |
//! | two ask once | a restart, equal clocks and proposed floors | 163,625 * |
//!
//! All are up to which of the clients and which of the members is which. What is under way when a round ends may
//! arrive at any later time; where marked, of all such messages in a run none (*) or one (**) does, and the others
//! arrive in that moment or never.
//!
//! **Every rule is needed.** Each is broken in turn, and the search must find the promise broken that depends on it,
//! within a known number of steps.
//!
//! Readers are ordered against writers and not among themselves: two of them may even hold with one fence. Not in
//! the model: claims that queue, different leases side by side, clocks that step back, more than one restart in a
//! run, floors that reach a member where the place is gone (they raise a mark, which harms nobody), and a member's
//! answer that comes after the count (its place is let go with the rest).

mod client;
mod every_rule_is_needed;
mod member;
mod model;
mod network;
mod order;
mod promises;
mod restart;
mod round;
mod words;

use std::time::Instant;

use client::Client;
use model::{Ask, Clocks, Setting};
use stateright::{Checker, HasDiscoveries, Model};
use words::{Rule, TTL};

const ONCE: Client = Client::new(1, 0);
const RENEWS: Client = Client::new(1, 1);
const RETURNS: Client = Client::new(2, 0);
const READER: Client = Client::reader(1);

/// Three members that only count, and a network in which everything may come late and nothing twice.
fn setting<const C: usize>(clients: [Client; C]) -> Setting<C, 3> {
    members(clients)
}

fn members<const C: usize, const M: usize>(clients: [Client; C]) -> Setting<C, M> {
    Setting {
        clients,
        clocks: None,
        floors: &[0],
        copies: 0,
        late: None,
        restarts: 0,
        quarantine: 0,
        broken: &[],
        ask: Ask::Promises,
    }
}

/// Lets so many messages arrive after the end of their round.
fn with_late<const C: usize>(late: u8, setting: Setting<C, 3>) -> Setting<C, 3> {
    Setting { late: Some(late), ..setting }
}

/// Clocks that differ, and that pass one number in a tick, so that numbers run ahead of them.
fn with_clocks<const C: usize>(setting: Setting<C, 3>) -> Setting<C, 3> {
    Setting { clocks: Some(Clocks { pace: 1, skews: [2, 1, 0], horizon: 4 }), ..setting }
}

/// Clocks that outrun the numbers, one of them ahead by so many ticks; one member forgets everything.
fn with_a_restart<const C: usize>(ahead: u8, quarantine: u8, setting: Setting<C, 3>) -> Setting<C, 3> {
    let horizon = 2 + quarantine;
    let clocks = Clocks { pace: 4, skews: [4 * ahead, 0, 0], horizon };
    Setting { clocks: Some(clocks), restarts: 1, quarantine, ..setting }
}

/// Searches everything and finds nothing, in no fewer states than known.
#[expect(clippy::print_stdout, reason = "says how much was searched, to whoever asks with --nocapture")]
fn holds<const C: usize, const M: usize>(setting: Setting<C, M>, states: usize) {
    let begun = Instant::now();
    let search = setting.checker().spawn_bfs().join();
    search.assert_properties();
    let (seen, test) = (search.unique_state_count(), std::thread::current());
    println!("{}: {seen} states in {:.1?}", test.name().unwrap_or_default(), begun.elapsed());
    assert!(seen >= states, "only {seen} states: something no longer happens");
}

/// Finds the promise broken when these rules are, within so many steps.
#[expect(clippy::print_stdout, reason = "says how much was searched, to whoever asks with --nocapture")]
fn refuted<const C: usize, const M: usize>(
    setting: Setting<C, M>,
    broken: &'static [Rule],
    promise: &'static str,
    steps: usize,
) {
    let begun = Instant::now();
    let setting = Setting { broken, ..setting };
    let until = HasDiscoveries::AnyOf([promise].into());
    // The first state has a depth of one, and one at the target is no longer looked at.
    let search = setting.checker().finish_when(until).target_max_depth(steps + 2).spawn_bfs().join();
    let found = search.assert_any_discovery(promise).into_actions();
    let (seen, test) = (search.unique_state_count(), std::thread::current());
    let name = test.name().unwrap_or_default();
    println!(
        "{name}: {} steps to break \"{promise}\", {seen} states in {:.1?}",
        found.len(),
        begun.elapsed()
    );
    assert!(found.len() <= steps, "{} steps: {found:#?}", found.len());
}

mod safety {
    use super::*;

    #[test]
    fn two() {
        holds(setting([ONCE; 2]), 13_000);
    }

    #[test]
    fn two_who_renew() {
        holds(setting([RENEWS; 2]), 38_000);
    }

    #[test]
    fn late_copies() {
        holds(Setting { copies: 2, ..setting([ONCE; 2]) }, 380_000);
    }

    #[test]
    fn proposed_floors() {
        holds(Setting { floors: &[0, 2, 3], ..setting([ONCE; 2]) }, 97_000);
    }

    #[test]
    fn clocks_that_differ() {
        holds(with_clocks(setting([ONCE; 2])), 780_000);
    }

    #[test]
    fn clocks_that_differ_and_proposed_floors() {
        holds(with_late(0, with_clocks(Setting { floors: &[0, 3], ..setting([ONCE; 2]) })), 360_000);
    }

    #[test]
    fn one_who_asks_twice() {
        holds(with_late(1, setting([RETURNS, ONCE])), 920_000);
    }

    #[test]
    fn three() {
        holds(with_late(0, setting([ONCE; 3])), 250_000);
    }

    #[test]
    fn a_reader_and_a_writer() {
        holds(setting([ONCE, READER]), 27_000);
    }

    #[test]
    fn a_reader_and_a_writer_with_clocks_that_differ() {
        holds(with_late(0, with_clocks(setting([ONCE, READER]))), 320_000);
    }

    #[test]
    fn everything_worth_a_promise_happens() {
        fn asked<const C: usize>(setting: Setting<C, 3>) {
            Setting { ask: Ask::Witnesses, ..setting }.checker().spawn_bfs().join().assert_properties();
        }
        asked(setting([RETURNS, ONCE]));
        asked(setting([READER; 2]));
        asked(with_a_restart(1, TTL, setting([ONCE; 2])));
    }
}
