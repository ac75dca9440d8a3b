//! Longer lines that live: claims arrive, leave and weaken at random, and every grant is checked.

use std::collections::BTreeSet;

use proptest::prelude::*;
use tenure_core::Mode;

use crate::{
    Rule, beside_the_last, broken, exclusive_jumps, first_fit, fit, no_exclusive_ahead, only_the_head,
    permits, the_rule,
};

#[derive(Clone, Debug)]
enum Event {
    Arrive(Mode),
    /// The place at this index, modulo how many there are, leaves: a release, an expiry or a cancelled wait.
    Leave(prop::sample::Index),
    Weaken(prop::sample::Index),
}

fn any_mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        2 => Just(Mode::Exclusive),
        4 => Just(Mode::Shared),
        6 => (2..5_u32).prop_flat_map(|of| (1..=of).prop_map(move |take| permits(take, of))),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => any_mode().prop_map(Event::Arrive),
        5 => any::<prop::sample::Index>().prop_map(Event::Leave),
        1 => any::<prop::sample::Index>().prop_map(Event::Weaken),
    ]
}

/// Lets a line live through the events and checks every grant: its number is above that of every earlier grant
/// that it could not have stood beside, and nobody who was granted stops holding before leaving.
fn live_through(rule: Rule, start: Vec<Mode>, events: Vec<Event>) -> Result<(), TestCaseError> {
    let mut line: Vec<(usize, Mode)> = start.into_iter().enumerate().collect();
    let mut drawn = line.len();
    let mut granted: Vec<(usize, Mode)> = Vec::new();
    for event in events {
        match event {
            Event::Arrive(mode) => {
                line.push((drawn, mode));
                drawn += 1;
            }
            Event::Leave(which) if !line.is_empty() => {
                line.remove(which.index(line.len()));
            }
            Event::Weaken(which) if !line.is_empty() => {
                let at = which.index(line.len());
                if line[at].1 == Mode::Exclusive {
                    line[at].1 = Mode::Shared;
                }
            }
            Event::Leave(_) | Event::Weaken(_) => {}
        }
        let modes: Vec<Mode> = line.iter().map(|&(_, mode)| mode).collect();
        prop_assert_eq!(broken(rule, &modes), BTreeSet::new());
        for (&(number, mode), holds) in line.iter().zip(rule(&modes)) {
            let known = granted.iter().any(|&(earlier, _)| earlier == number);
            prop_assert!(holds || !known, "{number} was granted and stands there without holding");
            if holds && !known {
                let overtaken = granted.iter().find(|&&(n, m)| n > number && !fit(&[m, mode]));
                prop_assert_eq!(overtaken, None, "granted before {}, which it conflicts with", number);
                granted.push((number, mode));
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn long_lines_keep_every_promise_as_they_live(
        start in prop::collection::vec(any_mode(), 0..12),
        events in prop::collection::vec(any_event(), 0..40),
    ) {
        live_through(the_rule, start, events)?;
    }
}

#[test]
fn a_line_that_lives_refutes_the_wrong_rules_too() {
    use prop::test_runner::{Config, TestRunner};
    for rule in [no_exclusive_ahead, first_fit, beside_the_last, only_the_head, exclusive_jumps] as [Rule; 5]
    {
        let mut runner =
            TestRunner::new_with_rng(Config { failure_persistence: None, ..Config::default() }, fixed_rng());
        let lives = (prop::collection::vec(any_mode(), 0..12), prop::collection::vec(any_event(), 0..40));
        assert!(runner.run(&lives, |(start, events)| live_through(rule, start, events)).is_err());
    }
}

fn fixed_rng() -> prop::test_runner::TestRng {
    prop::test_runner::TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha)
}
