//! Completions and the manual.

use std::{fs, process::Command};

use crate::{bed::Bed, process::Running};

#[test]
fn completions_know_the_verbs_and_flags() {
    let bed = Bed::new();
    for shell in ["bash", "zsh", "fish"] {
        let done = bed.run(&["completions", shell]).exits(0);
        for word in ["inspect", "if-busy", "tenure"] {
            assert!(done.out.contains(word), "no `{word}` for {shell}");
        }
        assert_eq!(done.err, "");
    }
}

#[test]
fn the_completions_are_a_script_that_bash_reads() {
    let bed = Bed::new();
    fs::write(bed.path("tenure.bash"), bed.run(&["completions", "bash"]).out).unwrap();
    let script = "source ./tenure.bash && complete -p tenure";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script]).current_dir(bed.path(""));
    let done = Running::start(&mut bash).end().exits(0);
    assert!(done.out.contains("-F _tenure tenure"), "{done:?}");
}

#[test]
fn the_manual_is_a_manual_page() {
    let bed = Bed::new();
    let done = bed.run(&["man"]).exits(0);
    assert!(done.out.contains(".TH "), "{}", done.out);
    for word in ["SYNOPSIS", "EXIT", "TENURE_URL", "TENURE_FENCE", "inspect", "doctor"] {
        assert!(done.out.contains(word), "no `{word}` in the manual");
    }
    for code in ["64", "69", "70", "75", "76", "77", "78", "124", "126", "127"] {
        assert!(done.out.contains(code), "no exit code {code} in the manual");
    }
}
