//! A password in the URL is seen by nobody who did not write it.

use std::{collections::HashMap, fs};

use crate::{
    bed::Bed,
    process::{Done, Running},
};

const CANARY: &str = "hunter2canary";

/// The engine of the test with a password, which the file engine has no use for.
fn url(bed: &Bed) -> String {
    format!("file://user:{CANARY}@{}", bed.path("locks").display())
}

#[track_caller]
fn clean(done: &Done) {
    assert!(!done.out.contains(CANARY) && !done.err.contains(CANARY), "{done:?}");
}

/// All processes that this one started, and those that they started.
fn family(pid: u32) -> Vec<u32> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The name of a program may have spaces and parentheses in it.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let parent = rest.split(' ').nth(1).unwrap().parse().unwrap();
        children.entry(parent).or_default().push(pid);
    }
    let mut family = vec![pid];
    let mut at = 0;
    while at < family.len() {
        family.extend(children.remove(&family[at]).unwrap_or_default());
        at += 1;
    }
    family.split_off(1)
}

#[test]
fn neither_the_job_nor_any_helper_is_given_the_password() {
    let bed = Bed::new();
    let by_flag = bed.tenure(&[
        "run",
        "-v",
        "--on",
        &url(&bed),
        "flag",
        "--",
        "sh",
        "-c",
        "env; echo up; read go; exit 0",
    ]);
    let mut by_variable =
        bed.tenure(&["run", "-v", "variable", "--", "sh", "-c", "env; echo up; read go; exit 0"]);
    by_variable.env("TENURE_URL", url(&bed));
    for (mut command, names_url) in [(by_flag, true), (by_variable, false)] {
        if names_url {
            // Both at once: neither gets through.
            command.env("TENURE_URL", url(&bed));
        }
        let mut job = Running::start(&mut command);
        let mut environment = Vec::new();
        while environment.last().is_none_or(|line| line != "up") {
            environment.push(job.line());
        }
        assert!(environment.iter().all(|line| !line.contains(CANARY)), "{environment:?}");
        assert!(!environment.iter().any(|line| line.starts_with("TENURE_URL=")), "{environment:?}");
        let engine = environment.iter().find(|line| line.starts_with("TENURE_ENGINE=")).unwrap();
        assert!(engine.contains("file"), "{engine}");
        let family = family(job.pid());
        assert!(!family.is_empty());
        for pid in family {
            for file in ["cmdline", "environ"] {
                let text = fs::read(format!("/proc/{pid}/{file}")).unwrap();
                let text = String::from_utf8_lossy(&text).replace('\0', " ");
                assert!(!text.contains(CANARY), "{file} of {pid}: {text}");
            }
        }
        clean(&job.end().exits(0));
    }
}

#[test]
fn no_output_has_the_password() {
    let bed = Bed::new();
    for verb in [
        &["run", "-v", "k", "--", "true"][..],
        &["run", "-v", "--json", "k", "--", "true"],
        &["run", "--explain", "k", "--", "true"],
        &["run", "k", "--", "tenure-no-such-command"],
        &["run", "--ttl", "x", "k", "--", "true"],
        &["ls"],
        &["ls", "--json"],
        &["inspect", "k"],
        &["inspect", "--json", "k"],
        &["break", "k", "--yes", "--if-fence", "1"],
        &["wait", "k"],
        &["doctor"],
        &["doctor", "--json"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
        &["run", "--help"],
        &["ls", "--help"],
        &["inspect", "--help"],
        &["break", "--help"],
        &["wait", "--help"],
        &["doctor", "--help"],
    ] {
        let mut command = bed.tenure(verb);
        command.env("TENURE_URL", url(&bed));
        clean(&Running::start(&mut command).end());
    }
    clean(&bed.run(&["doctor", &url(&bed)]).exits(0));
    clean(&bed.run(&["ls", "--on", &url(&bed)]).exits(0));
}

#[test]
fn no_error_has_the_password() {
    let bed = Bed::new();
    for url in [
        format!("nosuch://user:{CANARY}@host/path"),
        format!("file://user:{CANARY}@host/path"),
        format!("file://user:{CANARY}@{}?nosuch=1", bed.path("locks").display()),
        format!("file://user:{CANARY}%ff@/tmp"),
        CANARY.to_owned(),
        format!("user:{CANARY}@host"),
        format!("//user:{CANARY}@host"),
        format!("file://user:{CANARY}@/proc/tenure-no-such-thing/locks"),
    ] {
        for verb in
            [&["run", "-v", "--on", &url, "k", "--", "true"][..], &["ls", "--on", &url], &["doctor", &url]]
        {
            let done = bed.run(verb);
            assert_ne!(done.status.code(), Some(0), "{done:?}");
            clean(&done);
        }
        // A mistake elsewhere must not make the whole command line be shown.
        clean(&bed.run(&["run", "--on", &url, "--no-such-flag", "k", "--", "true"]).exits(64));
        clean(&bed.run(&["run", "--on", &url]).exits(64));
    }
}
