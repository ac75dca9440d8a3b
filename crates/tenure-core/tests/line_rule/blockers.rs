//! Whom a waiter must watch, where an engine tells of departures and no more.

use tenure_core::{Mode, line};

use crate::{all_lines, checked_lines, fit, six_modes};

/// Whom a waiter watches, given the places ahead of it.
type Watch = fn(&[Mode], Mode) -> std::ops::Range<usize>;

/// Whether a waiter that looks at the line only when a place it watches leaves or weakens can sleep through its
/// own turn, in any order of events. `ahead` are the places still there, each with whether it is watched.
fn sleeps_through(watch: Watch, ahead: &[(Mode, bool)], mode: Mode) -> bool {
    let event = |after: Vec<(Mode, bool)>, woken: bool| {
        let modes: Vec<Mode> = after.iter().map(|&(mode, _)| mode).collect();
        match (fit_at_end(&modes, mode), woken) {
            (true, woken) => !woken,
            (false, true) => sleeps_through(watch, &watched(watch, &modes, mode), mode),
            (false, false) => sleeps_through(watch, &after, mode),
        }
    };
    (0..ahead.len()).any(|at| {
        let (which, woken) = ahead[at];
        let mut gone = ahead.to_vec();
        gone.remove(at);
        let mut weaker = ahead.to_vec();
        weaker[at].0 = Mode::Shared;
        event(gone, woken) || (which == Mode::Exclusive && event(weaker, woken))
    })
}

fn watched(watch: Watch, ahead: &[Mode], mode: Mode) -> Vec<(Mode, bool)> {
    let range = watch(ahead, mode);
    ahead.iter().enumerate().map(|(at, &mode)| (mode, range.contains(&at))).collect()
}

fn fit_at_end(ahead: &[Mode], mode: Mode) -> bool {
    fit(&[ahead, &[mode]].concat())
}

/// How many of the lines have a last place that would sleep through its turn.
fn sleepers(watch: Watch, lines: &[Vec<Mode>]) -> usize {
    let sleeps = |line: &&Vec<Mode>| {
        let (&mode, ahead) = line.split_last().expect("a line has a last place");
        !fit_at_end(ahead, mode) && sleeps_through(watch, &watched(watch, ahead, mode), mode)
    };
    lines.iter().filter(sleeps).count()
}

#[test]
fn a_waiter_that_watches_its_blockers_never_sleeps_through_its_turn() {
    assert_eq!(sleepers(line::blockers, &checked_lines()), 0);
}

#[test]
fn watching_less_than_the_blockers_sleeps() {
    let lines = all_lines(&six_modes(), 4);
    // Enough for exclusive and shared claims, not where a sum of permits stands in the way.
    let nearest_only: Watch = |ahead, mode| {
        let range = line::blockers(ahead, mode);
        range.end - 1..range.end
    };
    assert!(sleepers(nearest_only, &lines) > 0);
    let neighbour: Watch = |ahead, _| ahead.len() - 1..ahead.len();
    assert!(sleepers(neighbour, &lines) > 0);
    let head: Watch = |_, _| 0..1;
    assert!(sleepers(head, &lines) > 0);
}

/// Any blocker would do for correctness. The nearest keep a departure from waking everybody behind it.
#[test]
fn a_waiter_watches_the_nearest_place_it_cannot_hold_beside() {
    for line in checked_lines() {
        let (&mode, ahead) = line.split_last().unwrap();
        let watched = line::blockers(ahead, mode);
        assert!(ahead[watched.end..].iter().all(|&behind| fit(&[behind, mode])), "{line:?}");
        // Only the sum stands in the way: of the nearest, and of fewer it would not.
        let too_many = |some: &[Mode]| !fit(&[some, &[mode]].concat());
        let only_the_sum = watched.end == ahead.len()
            && ahead.iter().all(|&other| fit(&[other, mode]))
            && (fit_at_end(ahead, mode)
                || (too_many(&ahead[watched.clone()]) && !too_many(&ahead[watched.start + 1..])));
        assert!(only_the_sum || (watched.len() == 1 && !fit(&[ahead[watched.start], mode])), "{line:?}");
    }
}
