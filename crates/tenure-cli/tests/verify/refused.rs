//! What is refused, and what is said when too little happened.

use crate::bed::verify;

#[test]
fn a_wrong_call_is_refused_at_once() {
    let wrong: [(&[&str], &str); 7] = [
        (&["--lab", "oracle"], "there is no lab `oracle`"),
        (&["--faults", "fire"], "there is no fault `fire`"),
        (&["--on", "memory:x"], "--lab memory"),
        (&["--mutants", "--only", "right"], "there is no wrong way `right`"),
        (&["--on", "redis://127.0.0.1:1", "--faults", "flush"], "use --lab"),
        (&["--strike", "flush=true"], "name it by --on"),
        (&["--on", "redis://127.0.0.1:1", "--strike", "kill=true"], "is done to clients"),
    ];
    for (args, words) in wrong {
        let run = verify(args).exits(64);
        assert!(run.err.contains(words), "{}", run.err);
    }
    verify(&["--on", "redis://127.0.0.1:1", "--faults", "none"]).exits(69);
}

#[test]
fn too_few_hits_are_inconclusive() {
    let run = verify(&["--for", "1s", "--faults", "pause", "--hits", "100000", "--json"]).exits(2);
    assert_eq!(run.run()["outcome"], "inconclusive");
}
