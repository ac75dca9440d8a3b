use super::{Mutant, catch, plan::Plan, run, shrink, simulate};
use crate::{checks::Verdict, history::What};

#[test]
fn the_same_seed_is_the_same_history() {
    for seed in 0..200 {
        let once = serde_json::to_string(&simulate(seed, None).history).unwrap();
        let again = serde_json::to_string(&simulate(seed, None).history).unwrap();
        assert_eq!(once, again, "seed {seed}");
    }
}

#[test]
fn schedules_are_kept_by_the_real_locks() {
    let tally = run(0, 3000, 2, &|_| {});
    let story = tally.failures.first().map(|failure| (failure.seed, failure.promise, &failure.story.why));
    assert_eq!(story, None);
    assert!(tally.held > 0 && tally.asked > 3000);
    for kind in ["pause", "suspend", "kill", "cut requests", "cut replies", "double", "hold back", "wake-up"]
    {
        assert!(tally.hits.get(kind).is_some_and(|&hits| hits > 10), "{kind}: {:?}", tally.hits);
    }
    assert!(tally.plain.1 > 0, "a run that does not hurt a plain resource is too soft: {tally:?}");
}

#[test]
fn every_mutant_is_refuted() {
    for mutant in Mutant::ALL {
        assert!(catch(mutant, 0, 20_000, 2).is_some(), "{mutant} got away");
    }
}

#[test]
fn a_schedule_gets_somewhere() {
    let mut granted = 0;
    for seed in 0..100 {
        let outcome = simulate(seed, None);
        granted += outcome.history.events.iter().filter(|e| matches!(e.what, What::Granted { .. })).count();
        let (_, verdict) = &outcome.report.verdicts[0];
        assert!(matches!(verdict, Verdict::Held { .. }), "seed {seed}: {verdict:?}");
    }
    assert!(granted > 200, "{granted}");
}

#[test]
fn a_schedule_that_fails_is_made_smaller_and_fails_the_same_way() {
    assert!(shrink(0, None).is_none(), "there is nothing to make smaller");
    for mutant in [Mutant::NoRecheck, Mutant::WriteOnlyFence, Mutant::NoQuarantine] {
        let caught = catch(mutant, 0, 20_000, 1).unwrap();
        let small = shrink(caught.seed, Some(mutant)).unwrap();
        let again = shrink(caught.seed, Some(mutant)).unwrap();
        assert_eq!(small.promise, caught.promise, "{mutant}");
        assert!(small.outcome.report.refuted().is_some(), "{mutant}");
        assert_eq!(small.to_string(), again.to_string(), "{mutant}");
        let whole = Plan::draw(caught.seed, Some(mutant));
        assert!(small.size() < whole.size(), "{mutant}: {small} of {whole}");
    }
}

/// Somebody died while it collected the locks of a `Multi`; a hold was broken before its holder had heard of it.
#[test]
fn what_was_judged_wrongly_once_is_judged_right() {
    for seed in [509_048, 511_902, 672_232, 733_308, 759_080, 823_163] {
        let outcome = simulate(seed, None);
        assert!(outcome.report.refuted().is_none(), "seed {seed}: {:?}", outcome.report.refuted());
    }
}
