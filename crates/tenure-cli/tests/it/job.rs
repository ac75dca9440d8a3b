//! What the job gets and what comes back from it.

use std::{fs, os::unix::fs::PermissionsExt, process::Command};

use rustix::process::Signal;

use crate::{
    bed::Bed,
    process::{Done, Running},
};

#[test]
fn the_exit_code_is_the_jobs_own() {
    let bed = Bed::new();
    for code in [0, 1, 2, 7, 64, 75, 76, 124, 128, 255] {
        let script = format!("exit {code}");
        bed.run(&["run", "k", "--", "sh", "-c", &script]).exits(code);
    }
}

#[test]
fn a_job_that_a_signal_killed_ends_tenure_by_the_same_signal() {
    let bed = Bed::new();
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP, Signal::USR1, Signal::PIPE] {
        let script = format!("kill -{} $$", signal.as_raw());
        bed.run(&["run", "k", "--", "sh", "-c", &script]).dies_of(signal);
        assert!(bed.is_free("k"));
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_run_126() {
    let bed = Bed::new();
    let plain = bed.path("plain");
    fs::write(&plain, "not a program").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    bed.run(&["run", "k", "--", "tenure-no-such-command"])
        .exits(127)
        .prints("")
        .complains(&["tenure: ", "tenure-no-such-command"]);
    bed.run(&["run", "k", "--", bed.path("nothing").to_str().unwrap()]).exits(127);
    bed.run(&["run", "k", "--", plain.to_str().unwrap()]).exits(126).complains(&["plain"]);
    bed.run(&["run", "k", "--", "/"]).exits(126);
    assert!(bed.is_free("k"), "a job that never ran holds nothing");
}

#[test]
fn a_script_that_does_not_name_its_shell_is_run_all_the_same() {
    let bed = Bed::new();
    let script = bed.path("script");
    fs::write(&script, "echo \"$1\"").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    bed.run(&["run", "k", "--", script.to_str().unwrap(), "a b"]).exits(0).prints("a b\n");
}

#[test]
fn standard_input_and_output_belong_to_the_job() {
    let bed = Bed::new();
    let mut cat = bed.start(&["run", "-v", "k", "--", "cat"]);
    cat.say("one\n");
    assert_eq!(cat.line(), "one", "the job reads while it runs");
    cat.say("two\nno newline at the end");
    cat.end().exits(0).prints("one\ntwo\nno newline at the end");
}

#[test]
fn much_output_and_the_jobs_own_complaints_come_through_whole() {
    let bed = Bed::new();
    let script = "head -c 300000 /dev/zero | tr '\\0' x; echo woe >&2";
    let done = bed.run(&["run", "k", "--", "sh", "-c", script]).exits(0).complains(&["woe\n"]);
    assert_eq!(done.out.len(), 300_000);
    assert!(done.out.bytes().all(|b| b == b'x'));
}

#[test]
fn tenure_says_nothing_when_all_goes_well_and_speaks_on_stderr_when_asked() {
    let bed = Bed::new();
    let quiet = bed.run(&["run", "k", "--", "echo", "hi"]).exits(0).prints("hi\n");
    assert_eq!(quiet.err, "");
    let loud = bed.run(&["run", "-v", "k", "--", "echo", "hi"]).exits(0).prints("hi\n");
    assert!(loud.err.lines().count() > 0 && loud.err.lines().all(|l| l.starts_with("tenure: ")), "{loud:?}");
}

#[test]
fn the_environment_of_the_job_names_key_fence_and_engine_whatever_was_inherited() {
    let bed = Bed::new();
    let script =
        "echo up; echo \"$TENURE_KEY\"; echo \"$TENURE_FENCE\"; echo \"$TENURE_ENGINE\"; read go; exit 0";
    let mut command = bed.tenure(&["run", "orders/close", "--", "sh", "-c", script]);
    command.env("TENURE_KEY", "stale").env("TENURE_FENCE", "1").env("TENURE_ENGINE", "stale");
    let mut job = Running::start(&mut command);
    assert_eq!(job.line(), "up");
    assert_eq!(job.line(), "orders/close");
    assert_eq!(job.line(), bed.fence("orders/close").to_string());
    assert!(job.line().starts_with("file"));
    job.end().exits(0);
}

#[test]
fn fences_grow_from_job_to_job() {
    let bed = Bed::new();
    let fences: Vec<u64> = (0..3)
        .map(|_| {
            let done = bed.run(&["run", "k", "--", "sh", "-c", "echo $TENURE_FENCE"]).exits(0);
            done.out.trim().parse().unwrap()
        })
        .collect();
    assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
}

#[test]
fn a_job_inside_a_job_sees_its_own_key_and_locks_in_the_same_place() {
    let bed = Bed::new();
    // Without TENURE_URL, which is not passed on, both use the user's own directory.
    let script = format!(
        "echo $TENURE_KEY; {0} run -n outer -- true; echo $?; {0} run inner -- sh -c 'echo $TENURE_KEY'",
        crate::bed::TENURE
    );
    let mut command = bed.tenure(&["run", "outer", "--", "sh", "-c", &script]);
    command.env_remove("TENURE_URL");
    Running::start(&mut command).end().exits(0).prints("outer\n75\ninner\n");
}

#[test]
fn the_words_of_the_job_are_its_own() {
    let bed = Bed::new();
    for words in [
        &["run", "k", "--", "printf", "%s,", "-n", "--", "a b", ""][..],
        &["run", "k", "printf", "%s,", "-n", "--", "a b", ""],
    ] {
        bed.run(words).exits(0).prints("-n,--,a b,,");
    }
    bed.run(&["run", "k", "--", "printf", "%s,", "--help", "-w", "5"]).exits(0).prints("--help,-w,5,");
}

#[test]
fn shell_words_run_in_the_standard_shell_and_no_other() {
    let bed = Bed::new();
    let mut command = bed.tenure(&["run", "k", "-c", "echo a b | tr a-z A-Z; exit 3"]);
    command.env("SHELL", "/bin/false");
    Running::start(&mut command).end().exits(3).prints("A B\n");
    bed.run(&["run", "-c", "echo $0,$1,$2", "k", "zero", "-x", "a b"]).exits(0).prints("zero,-x,a b\n");
}

#[test]
fn the_job_has_a_process_group_of_its_own() {
    let bed = Bed::new();
    // Field 5 of the status is the process group.
    let mut job = bed.job(&[], "k", "echo up; cut -d' ' -f5 /proc/$$/stat; read go; exit 0");
    let group = job.line();
    let stat = fs::read_to_string(format!("/proc/{}/stat", job.pid())).unwrap();
    assert_ne!(stat.split(' ').nth(4), Some(group.as_str()), "it can be signalled apart from tenure");
    job.end().exits(0);
}

#[test]
fn the_job_starts_with_no_signal_blocked_or_ignored() {
    let bed = Bed::new();
    // A shell would unblock them; this is what any other program finds.
    let done = bed.run(&["run", "k", "--", "cat", "/proc/self/status"]).exits(0);
    for field in ["SigBlk:", "SigIgn:"] {
        let mask = done.out.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        let mask = u64::from_str_radix(mask.trim(), 16).unwrap();
        for signal in 1..=31 {
            assert_eq!(mask >> (signal - 1) & 1, 0, "signal {signal} in {field} {mask:x}");
        }
    }
}

#[test]
fn nothing_of_tenure_is_left_open_in_the_job() {
    // A daemon that the job starts would keep it. What the tester has open is the tester's own.
    let bed = Bed::new();
    let links = |done: &Done| -> Vec<String> {
        let links = done.out.lines().filter_map(|line| line.split_once(" -> "));
        let mut links: Vec<_> =
            links.map(|(_, to)| to.split([':', '/']).next().unwrap_or_default().to_owned()).collect();
        links.sort_unstable();
        links
    };
    let mut plain = Command::new("ls");
    let plain = Running::start(plain.args(["-l", "/proc/self/fd"])).end().exits(0);
    let job = bed.run(&["run", "k", "--", "ls", "-l", "/proc/self/fd"]).exits(0);
    assert_eq!(links(&job), links(&plain), "{job:?}");
    assert!(!job.out.contains("locks"), "{job:?}");
}
