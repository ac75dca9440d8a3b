//! The line rule against its definition, over every line of a bounded size and over random longer ones.
//!
//! What is promised is written here a second time, as plainly as possible and without a look at `line.rs`:
//! [`fit`] says who can hold beside whom, and [`broken`] lists what must be true of any rule. Obvious but wrong
//! rules go through the same checks and must fail them, so that the checks are known to see something.
//!
//! Complete over 11,110 lines of up to four places in ten modes and 9,330 lines of up to five in six.

mod blockers;
mod front;
mod living;

use std::collections::BTreeSet;

use tenure_core::{Mode, Permits, line};

/// Says for every place of a line whether it holds.
type Rule = fn(&[Mode]) -> Vec<bool>;

/// What any rule must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Promise {
    /// Those who hold can hold beside each other, all of them together.
    Exclusion,
    /// Nobody holds while somebody ahead waits, so grants come in the order of numbers.
    Order,
    /// The first who waits could not hold beside the holders: nobody waits without need.
    NoNeedlessWait,
    /// A place that leaves takes the hold from nobody else.
    DepartureTakesNothing,
    /// A place that turns from exclusive to shared takes the hold from nobody, itself included.
    WeakeningTakesNothing,
}

fn permits(take: u32, of: u32) -> Mode {
    Mode::Permits(Permits::new(take, of).expect("takes at least one and at most all"))
}

/// Ten modes: every way to mix, totals that differ, and sums that do not fit into 32 bits.
fn ten_modes() -> Vec<Mode> {
    let mut modes = vec![Mode::Exclusive, Mode::Shared];
    modes.extend([(1, 1), (1, 2), (2, 2), (1, 3), (2, 3), (3, 3)].map(|(take, of)| permits(take, of)));
    modes.extend([permits(1, u32::MAX), permits(u32::MAX, u32::MAX)]);
    modes
}

fn six_modes() -> Vec<Mode> {
    vec![Mode::Exclusive, Mode::Shared, permits(1, 2), permits(2, 2), permits(1, 3), permits(2, 3)]
}

/// Every line of one to `longest` places.
fn all_lines(modes: &[Mode], longest: usize) -> Vec<Vec<Mode>> {
    let mut lines = Vec::new();
    let mut last = vec![Vec::new()];
    for _ in 0..longest {
        last = last
            .iter()
            .flat_map(|line| modes.iter().map(move |&mode| [line.as_slice(), &[mode]].concat()))
            .collect();
        lines.extend_from_slice(&last);
    }
    lines
}

fn checked_lines() -> Vec<Vec<Mode>> {
    [all_lines(&ten_modes(), 4), all_lines(&six_modes(), 5)].concat()
}

/// The definition: whether all of these can hold at the same time.
fn fit(together: &[Mode]) -> bool {
    let pairs = (0..together.len()).flat_map(|b| (0..b).map(move |a| (together[a], together[b])));
    let pairwise = pairs.into_iter().all(|pair| match pair {
        (Mode::Shared, Mode::Shared) => true,
        (Mode::Permits(a), Mode::Permits(b)) => a.of() == b.of(),
        _ => false,
    });
    let wanted = |mode: &Mode| if let Mode::Permits(p) = mode { u128::from(p.take()) } else { 0 };
    let total = |mode: &Mode| if let Mode::Permits(p) = mode { u128::from(p.of()) } else { u128::MAX };
    let sum: u128 = together.iter().map(wanted).sum();
    pairwise && together.iter().all(|mode| sum <= total(mode))
}

/// The rule under test, in the shape of the others.
fn the_rule(line: &[Mode]) -> Vec<bool> {
    let holders = line::holders(line.iter().copied());
    (0..line.len()).map(|at| at < holders).collect()
}

/// Which promises the rule breaks on this line.
fn broken(rule: Rule, line: &[Mode]) -> BTreeSet<Promise> {
    let mut broken = BTreeSet::new();
    let holds = rule(line);
    let together: Vec<Mode> = (0..line.len()).filter(|&at| holds[at]).map(|at| line[at]).collect();
    if !fit(&together) {
        broken.insert(Promise::Exclusion);
    }
    let first_waiter = holds.iter().position(|held| !held);
    if let Some(at) = first_waiter {
        if holds[at..].contains(&true) {
            broken.insert(Promise::Order);
        }
        if fit(&[together.as_slice(), &[line[at]]].concat()) {
            broken.insert(Promise::NoNeedlessWait);
        }
    }
    for gone in 0..line.len() {
        let mut shorter = line.to_vec();
        shorter.remove(gone);
        let mut before = holds.clone();
        before.remove(gone);
        if rule(&shorter).iter().zip(&before).any(|(now, before)| *before && !now) {
            broken.insert(Promise::DepartureTakesNothing);
        }
        if line[gone] == Mode::Exclusive {
            let mut weaker = line.to_vec();
            weaker[gone] = Mode::Shared;
            if rule(&weaker).iter().zip(&holds).any(|(now, before)| *before && !now) {
                broken.insert(Promise::WeakeningTakesNothing);
            }
        }
    }
    broken
}

#[test]
fn the_rule_keeps_every_promise_on_every_line() {
    let lines = checked_lines();
    assert_eq!(lines.len(), 11_110 + 9_330);
    for line in &lines {
        assert_eq!(broken(the_rule, line), BTreeSet::new(), "{line:?}");
    }
}

#[test]
fn the_holders_are_the_longest_front_that_fits() {
    for line in checked_lines() {
        let longest = (0..=line.len()).rev().find(|&n| fit(&line[..n]));
        assert_eq!(Some(line::holders(line.iter().copied())), longest, "{line:?}");
    }
}

#[test]
fn the_three_questions_have_one_answer() {
    for line in checked_lines() {
        let (&mode, ahead) = line.split_last().unwrap();
        let holds = line::holders(line.iter().copied()) == line.len();
        assert_eq!(line::would_hold(ahead.iter().copied(), mode), holds, "{line:?}");
        if let &[a, b] = line.as_slice() {
            assert_eq!(line::compatible(a, b), fit(&[a, b]), "{line:?}");
            assert_eq!(line::compatible(a, b), line::compatible(b, a), "{line:?}");
        }
    }
}

/// "Shared: nobody exclusive is ahead. Permits: the sum of those ahead and mine fits. Exclusive: nobody is."
fn no_exclusive_ahead(line: &[Mode]) -> Vec<bool> {
    let taken = |ahead: &[Mode]| -> u64 {
        ahead.iter().map(|m| if let Mode::Permits(p) = m { u64::from(p.take()) } else { 0 }).sum()
    };
    let holds = |at: usize| match line[at] {
        Mode::Exclusive => at == 0,
        Mode::Shared => !line[..at].contains(&Mode::Exclusive),
        Mode::Permits(p) => taken(&line[..at]) + u64::from(p.take()) <= u64::from(p.of()),
    };
    (0..line.len()).map(holds).collect()
}

/// Whoever fits beside the holders holds, past those who wait.
fn first_fit(line: &[Mode]) -> Vec<bool> {
    let mut together = Vec::new();
    let mut holds = Vec::new();
    for &mode in line {
        together.push(mode);
        holds.push(fit(&together));
        if !holds[holds.len() - 1] {
            together.pop();
        }
    }
    holds
}

/// Asks only the neighbour: compatible with the place before it, which holds.
fn beside_the_last(line: &[Mode]) -> Vec<bool> {
    let fronts = line.windows(2).take_while(|pair| fit(pair)).count();
    (0..line.len()).map(|at| at <= fronts).collect()
}

fn only_the_head(line: &[Mode]) -> Vec<bool> {
    (0..line.len()).map(|at| at == 0).collect()
}

/// Who is exclusive counts as ahead of all others, until it no longer is exclusive.
fn exclusive_jumps(line: &[Mode]) -> Vec<bool> {
    match line.iter().position(|&mode| mode == Mode::Exclusive) {
        Some(first) => (0..line.len()).map(|at| at == first).collect(),
        None => the_rule(line),
    }
}

#[test]
fn obvious_wrong_rules_fail_the_same_checks() {
    use Promise::{DepartureTakesNothing, Exclusion, NoNeedlessWait, Order, WeakeningTakesNothing};
    let wrong: [(&str, Rule, &[Promise]); 5] = [
        ("no exclusive ahead", no_exclusive_ahead, &[Exclusion, Order]),
        ("first fit", first_fit, &[Order, DepartureTakesNothing]),
        ("beside the last", beside_the_last, &[Exclusion, DepartureTakesNothing]),
        ("only the head", only_the_head, &[NoNeedlessWait]),
        ("exclusive jumps", exclusive_jumps, &[Order, WeakeningTakesNothing]),
    ];
    let lines = checked_lines();
    for (name, rule, promises) in wrong {
        let seen: BTreeSet<Promise> = lines.iter().flat_map(|line| broken(rule, line)).collect();
        for promise in promises {
            assert!(seen.contains(promise), "{name} should break {promise:?}, broke {seen:?}");
        }
    }
}

#[test]
fn the_smallest_lines_that_refute_the_obvious_rule() {
    for (line, promise) in [
        (vec![Mode::Exclusive, permits(1, 2)], Promise::Exclusion),
        (vec![permits(1, 1), permits(1, 2)], Promise::Exclusion),
        (vec![permits(1, 1), permits(1, 1), permits(1, 3)], Promise::Order),
    ] {
        assert!(broken(no_exclusive_ahead, &line).contains(&promise), "{line:?}");
        assert!(broken(the_rule, &line).is_empty(), "{line:?}");
    }
}

#[test]
fn there_is_no_upgrade_because_it_would_take_a_hold() {
    assert_eq!(the_rule(&[Mode::Shared, Mode::Shared]), [true, true]);
    assert_eq!(the_rule(&[Mode::Exclusive, Mode::Shared]), [true, false]);
}
