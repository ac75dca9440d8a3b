//! Calls that make no sense.

use crate::bed::Bed;

#[test]
fn a_wrong_call_is_64_on_stderr_and_runs_nothing() {
    let bed = Bed::new();
    for args in [
        &[][..],
        &["run"],
        &["run", "k"],
        &["run", "k", "--"],
        &["run", "--no-such-flag", "k", "--", "echo", "ran"],
        &["run", "-w", "soon", "k", "--", "echo", "ran"],
        &["run", "-w", "-1", "k", "--", "echo", "ran"],
        &["run", "--ttl", "", "k", "--", "echo", "ran"],
        &["run", "-E", "256", "k", "--", "echo", "ran"],
        &["run", "-E", "x", "k", "--", "echo", "ran"],
        &["run", "--if-busy", "panic", "k", "--", "echo", "ran"],
        &["run", "-n", "-w", "5", "k", "--", "echo", "ran"],
        &["run", "-n", "--if-busy", "wait", "k", "--", "echo", "ran"],
        &["run", "", "--", "echo", "ran"],
        &["run", "-q", "-v", "k", "--", "echo", "ran"],
        &["run", "--on", "memory:", "--on-file", "x", "k", "--", "echo", "ran"],
        &["break", "k"],
        &["break", "k", "--yes"],
        &["break", "k", "--yes", "--if-fence", "x"],
        &["inspect"],
        &["wait"],
        &["completions", "tcsh-ish"],
        &["frobnicate"],
    ] {
        let done = bed.run(args);
        assert_eq!(done.status.code(), Some(64), "{args:?}: {done:?}");
        assert!(done.out.is_empty() && !done.err.is_empty(), "{args:?}: {done:?}");
    }
    let key = "k".repeat(1025);
    bed.run(&["run", &key, "--", "echo", "ran"]).exits(64).prints("").complains(&["1024"]);
}

#[test]
fn a_misspelt_flag_or_verb_is_corrected() {
    let bed = Bed::new();
    bed.run(&["run", "--gracee", "5", "k", "--", "true"]).exits(64).complains(&["--grace"]);
    bed.run(&["inspct", "k"]).exits(64).complains(&["inspect"]);
}

#[test]
fn help_and_version_are_no_errors() {
    let bed = Bed::new();
    let help = bed.run(&["--help"]).exits(0);
    for verb in ["run", "ls", "inspect", "break", "wait", "doctor", "schema", "completions", "man"] {
        assert!(help.out.contains(verb), "no `{verb}` in {help:?}");
        let help = bed.run(&[verb, "--help"]).exits(0);
        assert!(help.out.contains("Usage: tenure") && help.err.is_empty(), "{help:?}");
    }
    let version = bed.run(&["--version"]).exits(0);
    assert_eq!(version.out, format!("tenure {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_help_of_run_names_every_flag_and_every_exit_code() {
    let help = Bed::new().run(&["run", "--help"]).exits(0);
    for flag in [
        "-n",
        "-w",
        "--if-busy",
        "-E",
        "-s",
        "--slots",
        "--ttl",
        "--grace",
        "--hold-for",
        "--max-run",
        "-c",
        "--note",
        "--json",
        "--explain",
        "-q",
        "-v",
        "--on",
        "--on-file",
        "TENURE_URL",
        "TENURE_KEY",
        "TENURE_FENCE",
        "TENURE_ENGINE",
    ] {
        assert!(help.out.contains(flag), "no `{flag}` in {}", help.out);
    }
    for code in ["64", "69", "70", "75", "76", "77", "78", "124", "126", "127"] {
        assert!(help.out.contains(code), "no exit code {code} in {}", help.out);
    }
}
