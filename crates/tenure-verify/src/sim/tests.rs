use super::{Mutant, catch, run, simulate};
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
