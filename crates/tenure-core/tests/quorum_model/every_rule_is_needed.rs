//! Each rule, dropped: two holders, or a fence that does not rise.

use super::{ONCE, RENEWS, RETURNS, holds, members, refuted, setting, with_clocks, with_late};
use crate::{
    model::Setting,
    promises::{BACKED, FENCES_RISE, NOT_OVERTAKEN, ONE_HOLDER, ONE_LIFE},
    words::Rule,
};

fn two_with_clocks() -> Setting<2, 3> {
    with_late(0, with_clocks(setting([ONCE; 2])))
}

/// The largest number alone, as it is: the next majority meets this one at a member that is below it.
#[test]
fn fence_not_written_back() {
    refuted(two_with_clocks(), &[Rule::WriteBack], BACKED, 4);
    refuted(two_with_clocks(), &[Rule::WriteBack], FENCES_RISE, 9);
}

/// The member that drew the fence is not renewed by the write-back, and its place goes first.
#[test]
fn hold_counted_from_the_write_back() {
    refuted(two_with_clocks(), &[Rule::CountFromTheAttempts], BACKED, 8);
    refuted(two_with_clocks(), &[Rule::CountFromTheAttempts], ONE_HOLDER, 12);
}

/// The grant is dead when it counts, and another with a larger fence was before it.
#[test]
fn deadline_not_asked_after_the_write_back() {
    refuted(two_with_clocks(), &[Rule::AskAgain], FENCES_RISE, 12);
}

/// The slow release of the first round takes a place of the second.
#[test]
fn one_id_for_all_rounds() {
    refuted(setting([RETURNS, ONCE]), &[Rule::OneLifePerId], ONE_LIFE, 3);
    refuted(setting([RETURNS, ONCE]), &[Rule::OneLifePerId], ONE_HOLDER, 12);
}

/// With counters it is the number itself that comes again; with clocks, one that a floor had lifted.
#[test]
fn mark_forgotten_with_the_place() {
    refuted(setting([ONCE; 2]), &[Rule::MarkOutlivesThePlace], FENCES_RISE, 10);
    refuted(two_with_clocks(), &[Rule::MarkOutlivesThePlace], FENCES_RISE, 11);
}

#[test]
fn one_of_three() {
    refuted(setting([ONCE; 2]), &[Rule::Majority], BACKED, 3);
    refuted(setting([ONCE; 2]), &[Rule::Majority], ONE_HOLDER, 6);
}

#[test]
fn two_of_four() {
    refuted(members::<2, 4>([ONCE; 2]), &[Rule::Majority], BACKED, 4);
    refuted(members::<2, 4>([ONCE; 2]), &[Rule::Majority], ONE_HOLDER, 8);
}

/// A place has expired, another client came and went, a copy of the attempt takes a new place, and a slow
/// renewal finds it. There are no two holders, since claims do not queue, but a hold goes on with a fence that
/// has been overtaken.
#[test]
fn renewal_by_id_alone_that_revives() {
    const BOTH: &[Rule] = &[Rule::RenewNamesTheNumber, Rule::LateRepliesNeverRevive];
    let one_renews = || with_late(0, Setting { copies: 1, ..setting([RENEWS, ONCE]) });
    refuted(one_renews(), BOTH, NOT_OVERTAKEN, 17);
    // Either half is enough. Both are kept, because they guard against different mistakes.
    holds(Setting { broken: &BOTH[..1], ..one_renews() }, 100_000);
    holds(Setting { broken: &BOTH[1..], ..one_renews() }, 300_000);
}
