//! An engine that cannot be used.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{bed::Bed, process::Running};

/// Every verb that needs an engine.
const VERBS: [&[&str]; 6] = [
    &["run", "k", "--", "echo", "ran"],
    &["ls"],
    &["inspect", "k"],
    &["break", "k", "--yes", "--if-fence", "1"],
    &["wait", "k"],
    &["doctor"],
];

/// Asserts how every verb ends with such an engine.
#[track_caller]
fn all_exit(bed: &Bed, url: &str, code: i32, says: &str) {
    for verb in VERBS {
        let mut command = bed.tenure(verb);
        command.env("TENURE_URL", url);
        let done = Running::start(&mut command).end();
        assert_eq!(done.status.code(), Some(code), "{verb:?} on {url}: {done:?}");
        assert!(!done.out.contains("ran"), "{verb:?}: {done:?}");
        let said = format!("{}{}", done.out, done.err);
        assert!(said.contains(says), "{verb:?} on {url} does not say `{says}`: {done:?}");
    }
}

#[test]
fn a_wrong_url_is_78() {
    let bed = Bed::new();
    for (url, says) in [
        ("nonsense", "scheme"),
        ("nosuch://host", "nosuch"),
        ("file:relative/path", "relative"),
        ("file:/tmp?ttll=5s", "did you mean `ttl`?"),
        ("memory:?ttl=soon", "soon"),
    ] {
        all_exit(&bed, url, 78, says);
    }
}

#[test]
fn a_file_where_the_directory_should_be_is_78() {
    let bed = Bed::new();
    fs::write(bed.path("file"), "").unwrap();
    all_exit(&bed, &format!("file:{}", bed.path("file").display()), 78, "not a directory");
}

#[test]
fn a_directory_that_others_may_enter_is_77() {
    let bed = Bed::new();
    fs::create_dir(bed.path("open")).unwrap();
    fs::set_permissions(bed.path("open"), fs::Permissions::from_mode(0o755)).unwrap();
    all_exit(&bed, &format!("file:{}", bed.path("open").display()), 77, "chmod 700");
}

#[test]
fn a_directory_that_cannot_be_made_is_69() {
    // Nobody can make anything there, not even root.
    all_exit(&Bed::new(), "file:/proc/tenure-no-such-thing/locks", 69, "/proc/tenure-no-such-thing");
}

#[test]
fn the_flag_comes_before_the_environment() {
    let bed = Bed::new();
    let mut command = bed.tenure(&["run", "--on", &bed.url(), "k", "--", "echo", "ran"]);
    command.env("TENURE_URL", "nosuch:");
    Running::start(&mut command).end().exits(0).prints("ran\n");
    bed.run(&["run", "--on", "nosuch:", "k", "--", "echo", "ran"]).exits(78).prints("");
}

#[test]
fn without_a_url_the_users_own_directory_is_used() {
    let bed = Bed::new();
    let mut command = bed.tenure(&["run", "k", "--", "echo", "ran"]);
    command.env_remove("TENURE_URL");
    Running::start(&mut command).end().exits(0).prints("ran\n");
    assert!(bed.path(".local/state/tenure").is_dir());
    assert!(!bed.path("locks").exists());
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let bed = Bed::new();
    let mut command = bed.tenure(&["run", "k", "--", "echo", "ran"]);
    command.env("TENURE_URL", "");
    Running::start(&mut command).end().exits(0).prints("ran\n");
    assert!(bed.path(".local/state/tenure").is_dir());
}

#[test]
fn a_damaged_engine_is_an_error_and_no_lock() {
    let bed = Bed::new();
    bed.run(&["run", "k", "--", "true"]).exits(0);
    fs::write(bed.path("locks/line/k"), "this is not what stood here before, and it is long enough").unwrap();
    bed.run(&["run", "k", "--", "echo", "ran"]).exits(70).prints("").complains(&["tenure: ", "damaged"]);
}

#[test]
fn the_url_can_be_read_from_a_file() {
    let bed = Bed::new();
    let file = bed.path("url");
    let file = file.to_str().unwrap();
    fs::write(file, format!("{}\nand a second line\n", bed.url())).unwrap();
    let holder = bed.hold(&[], "k");
    let mut command = bed.tenure(&["run", "--on-file", file, "-n", "k", "--", "true"]);
    command.env("TENURE_URL", "nosuch:");
    Running::start(&mut command).end().exits(75);
    holder.end().exits(0);
    let missing = bed.path("missing");
    bed.run(&["run", "--on-file", missing.to_str().unwrap(), "k", "--", "echo", "ran"])
        .exits(78)
        .prints("")
        .complains(&["missing"]);
    fs::write(file, "\n").unwrap();
    bed.run(&["run", "--on-file", file, "k", "--", "echo", "ran"]).exits(78).prints("");
}
