//! At a terminal: Ctrl-C, Ctrl-Z and `fg` work as for any other command.

use std::fs;

use crate::{
    bed::{Bed, USER},
    terminal::Terminal,
};

const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";

/// The state of a process: `T` if it is stopped.
fn state(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').next().unwrap().to_owned()
}

#[test]
fn the_job_reads_from_the_terminal_and_the_shell_gets_it_back() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- sh -c 'echo u\"\"p; read x; echo got:$x; exit 4'");
    tty.sees("up\r\n");
    tty.types("hello\n");
    tty.sees("got:hello");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 4);
    // The shell is in the foreground again, and so is what it starts.
    tty.enters("cat");
    tty.types("still here\n");
    tty.sees("still here\r\nstill here\r\n");
    tty.types("\x04");
    tty.sees("$ ");
    assert!(bed.is_free("k"));
}

#[test]
fn ctrl_c_ends_the_job_and_tenure_by_sigint() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- sh -c 'echo u\"\"p; sleep 60 | sleep 60'");
    tty.sees("up\r\n");
    tty.types(CTRL_C);
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 130);
    assert!(bed.is_free("k"));
}

#[test]
fn a_job_that_handles_ctrl_c_decides_how_it_ends() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters(
        "$tenure run k -- sh -c 'trap \"echo in\"t\"; exit 9\" INT; echo u\"\"p; while :; do read x; done'",
    );
    tty.sees("up\r\n");
    tty.types(CTRL_C);
    tty.sees("int\r\n");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 9);
    assert!(bed.is_free("k"));
}

#[test]
fn ctrl_z_stops_both_and_fg_goes_on() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- sh -c 'echo \"pid=$$.\"; read x; echo got:$x'");
    tty.sees("pid=");
    let pid = tty.sees(".");
    tty.types(CTRL_Z);
    tty.sees("Stopped");
    tty.sees("$ ");
    assert_eq!(state(&pid), "T");
    tty.enters("jobs");
    tty.sees("Stopped");
    tty.sees("$ ");
    assert!(!bed.is_free("k"), "a stopped job holds its lock");
    tty.enters("fg");
    tty.types("hello\n");
    tty.sees("got:hello");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 0);
    assert!(bed.is_free("k"));
}

#[test]
fn it_can_be_stopped_and_continued_again_and_again() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- sh -c 'echo u\"\"p; while read x; do echo got:$x; done; exit 6'");
    tty.sees("up\r\n");
    for word in ["one", "two", "three"] {
        tty.types(CTRL_Z);
        tty.sees("Stopped");
        tty.sees("$ ");
        tty.enters("fg");
        tty.types(&format!("{word}\n"));
        tty.sees(&format!("got:{word}"));
    }
    tty.types("\x04");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 6);
}

#[test]
fn after_a_stop_the_lock_is_checked_before_the_job_goes_on() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    // If it ran on for a moment, it would leave a file.
    tty.enters("$tenure run k -- sh -c 'trap \"echo on >went-on\" CONT TERM; echo \"pid=$$.\"; read x; echo on >went-on'");
    tty.sees("pid=");
    let pid = tty.sees(".");
    tty.types(CTRL_Z);
    tty.sees("Stopped");
    tty.sees("$ ");
    assert_eq!(state(&pid), "T");
    bed.break_it("k");
    tty.enters("fg");
    tty.sees("lost");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 76);
    assert!(!bed.path("went-on").exists(), "the job went on without its lock");
    assert!(bed.is_free("k"));
}

#[test]
fn a_job_in_the_background_does_not_take_the_terminal() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- sh -c 'echo u\"\"p; while [ ! -e go ]; do sleep 0.01; done; exit 7' &");
    tty.sees("up\r\n");
    tty.enters("echo typed; touch go; wait $!");
    tty.sees("typed\r\n");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 7);
}

#[test]
fn in_a_pipeline_the_others_are_left_alone() {
    let bed = Bed::new();
    let mut tty = Terminal::open(&bed);
    tty.enters("echo in | $tenure run k -- sed s/in/o''ut/ | cat");
    tty.sees("out\r\n");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 0);
}

#[test]
fn whoever_waits_at_a_terminal_sees_for_whom_and_at_what_place() {
    let bed = Bed::new();
    let holder = bed.hold(&["--note", "v41"], "k");
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- echo ran");
    tty.sees("waiting for `k`");
    tty.sees(&format!("{USER}@"));
    tty.sees("v41");
    tty.sees("#1");
    tty.types(CTRL_C);
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 130);
    assert!(bed.waiters("k").is_empty());
    holder.end().exits(0);
}

#[test]
fn a_wait_at_a_terminal_ends_with_the_job() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run k -- sh -c 'read x; echo got:$x'");
    tty.sees("waiting for `k`");
    holder.end().exits(0);
    tty.types("hello\n");
    tty.sees("got:hello");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 0);
}

#[test]
fn whoever_wants_it_quiet_is_not_told() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut tty = Terminal::open(&bed);
    tty.enters("$tenure run -q -w 1 k -- true");
    let said = tty.sees("$ ");
    assert!(!said.contains("waiting"), "{said:?}");
    assert_eq!(tty.last_code(), 75);
    holder.end().exits(0);
}

#[test]
fn a_terminal_that_does_not_say_how_wide_it_is_is_taken_for_a_usual_one() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut tty = Terminal::open(&bed);
    tty.enters("stty cols 0");
    tty.sees("$ ");
    tty.enters("$tenure run k -- true");
    tty.sees("waiting for `k`");
    tty.sees(&format!("{USER}@"));
    tty.types(CTRL_C);
    tty.sees("$ ");
    holder.end().exits(0);
}

#[test]
fn break_shows_the_hold_and_wants_the_key_typed() {
    let bed = Bed::new();
    let mut job = bed.job(&["--note", "v41"], "k", "echo up; exec sleep 60");
    let mut tty = Terminal::open(&bed);
    let command = format!("$tenure break k --if-fence {}", bed.fence("k"));
    tty.enters(&command);
    tty.sees(&format!("{USER}@"));
    tty.sees("v41");
    tty.sees("Type the key");
    tty.types("j\n");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 75);
    assert!(job.is_running() && !bed.is_free("k"));
    tty.enters(&command);
    tty.sees("Type the key");
    tty.types("k\n");
    tty.sees("$ ");
    assert_eq!(tty.last_code(), 0);
    job.end().exits(76);
}
