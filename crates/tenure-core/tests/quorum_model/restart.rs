//! A member forgets its mark and its places, and is silent for the lease or for as long as clocks differ and a
//! tick, whichever is longer. A longer silence only takes away what it could do.

use super::{ONCE, holds, refuted, setting, with_a_restart, with_late};
use crate::{
    model::Setting,
    promises::{FENCES_RISE, ONE_HOLDER, QUARANTINE},
    words::{Rule, TTL},
};

#[test]
fn with_equal_clocks() {
    holds(with_a_restart(0, TTL, setting([ONCE; 2])), 430_000);
}

#[test]
fn with_a_clock_ahead_by_less_than_the_lease() {
    holds(with_late(0, with_a_restart(1, TTL, setting([ONCE; 2]))), 260_000);
}

#[test]
fn with_a_clock_ahead_by_the_lease() {
    holds(with_late(0, with_a_restart(2, TTL + 1, setting([ONCE; 2]))), 580_000);
}

#[test]
fn with_floors_proposed_a_tick_ahead() {
    let proposes = Setting { floors: &[0, 4], ..setting([ONCE; 2]) };
    holds(with_late(0, with_a_restart(0, TTL, proposes)), 160_000);
}

#[test]
fn without_a_quarantine() {
    let restarts = || with_late(0, with_a_restart(0, TTL, setting([ONCE; 2])));
    refuted(restarts(), &[Rule::Quarantine], QUARANTINE, 3);
    refuted(restarts(), &[Rule::Quarantine], ONE_HOLDER, 9);
}

#[test]
fn with_a_quarantine_that_ends_a_tick_before_the_lease() {
    let restarts = || with_late(0, with_a_restart(0, TTL, setting([ONCE; 2])));
    refuted(restarts(), &[Rule::WholeQuarantine], QUARANTINE, 4);
    refuted(restarts(), &[Rule::WholeQuarantine], ONE_HOLDER, 10);
}

/// A whole lease is served, so there is one holder, but the member's clock is still where another's was when
/// that drew the fence.
#[test]
fn with_a_quarantine_no_longer_than_clocks_differ() {
    let restarts = with_late(0, with_a_restart(2, TTL + 1, setting([ONCE; 2])));
    refuted(restarts, &[Rule::WholeQuarantine], FENCES_RISE, 13);
}

/// What was only counted is counted again.
#[test]
fn without_clocks() {
    let restarts = with_late(0, with_a_restart(0, TTL, setting([ONCE; 2])));
    refuted(Setting { clocks: None, ..restarts }, &[], FENCES_RISE, 11);
}

/// Two ticks ahead, as long as the quarantine: the member's clock has not got there when it answers again.
#[test]
fn with_floors_proposed_far_ahead() {
    let proposes = Setting { floors: &[0, 8], ..setting([ONCE; 2]) };
    refuted(with_late(0, with_a_restart(0, TTL, proposes)), &[], FENCES_RISE, 11);
}
