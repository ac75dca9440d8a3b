//! Looking at lines and breaking holds.

use serde_json::Value;

use crate::{
    bed::{Bed, USER, fence},
    process::Done,
};

/// One object per line.
fn lines(done: &Done) -> Vec<Value> {
    done.out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|err| panic!("{err}: {line}")))
        .collect()
}

#[test]
fn ls_shows_who_holds_what_and_how_many_wait() {
    let bed = Bed::new();
    bed.run(&["run", "free", "--", "true"]).exits(0);
    let holder = bed.hold(&["--note", "v41"], "orders/close");
    let reader = bed.hold(&["-s"], "reports");
    let waiter = bed.queue(1, &[], "orders/close", "true");
    let done = bed.run(&["ls"]).exits(0);
    assert_eq!(done.err, "");
    let row = done.out.lines().find(|line| line.contains("orders/close")).unwrap();
    for part in [USER, "v41", &bed.fence("orders/close").to_string()] {
        assert!(row.contains(part), "no `{part}` in {row}");
    }
    assert!(done.out.contains("reports") && !done.out.contains("free"), "{done:?}");
    let head = done.out.lines().next().unwrap().to_lowercase();
    for column in ["key", "holder", "held", "lease", "waiters", "fence"] {
        assert!(head.contains(column), "no column `{column}` in {head}");
    }
    for job in [holder, reader, waiter] {
        job.end().exits(0);
    }
}

#[test]
fn ls_of_nothing_is_no_error() {
    let bed = Bed::new();
    bed.run(&["ls"]).exits(0);
    bed.run(&["ls", "--json"]).exits(0).prints("");
}

#[test]
fn ls_takes_a_prefix() {
    let bed = Bed::new();
    let jobs = ["orders/close", "orders/open", "other"].map(|key| bed.hold(&[], key));
    let keys = |args: &[&str]| -> Vec<String> {
        let done = bed.run(args).exits(0);
        lines(&done).iter().map(|line| line["key"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(keys(&["ls", "--json", "orders/"]), ["orders/close", "orders/open"]);
    assert_eq!(keys(&["ls", "--json"]), ["orders/close", "orders/open", "other"]);
    assert_eq!(keys(&["ls", "--json", "nothing"]), [""; 0]);
    for job in jobs {
        job.end().exits(0);
    }
}

#[test]
fn ls_gives_a_script_whole_numbers() {
    let bed = Bed::new();
    let holder = bed.hold(&["--note", "v41"], "k");
    let waiter = bed.queue(1, &[], "k", "true");
    let listed = lines(&bed.run(&["ls", "--json"]).exits(0));
    assert_eq!(listed.len(), 1);
    let row = &listed[0];
    assert_eq!(row["key"], "k");
    assert_eq!(fence(row), bed.fence("k"), "{row}");
    assert_eq!(row["waiters"].as_u64(), Some(1), "{row}");
    assert!(row["held_ms"].is_u64(), "{row}");
    assert!(row.get("lease_left_ms").is_some_and(Value::is_null), "no lease ends here: {row}");
    assert!(row["holder"].as_str().unwrap().starts_with(&format!("{USER}@")), "{row}");
    holder.end().exits(0);
    waiter.end().exits(0);
}

#[test]
fn inspect_shows_the_holder_the_line_in_order_and_the_guarantees() {
    let bed = Bed::new();
    let holder = bed.hold(&["--note", "held for v41"], "k");
    let first = bed.queue(1, &["--note", "first in line"], "k", "true");
    let second = bed.queue(2, &["--note", "second in line", "-s"], "k", "true");
    let done = bed.run(&["inspect", "k"]).exits(0);
    let at = |text: &str| done.out.find(text).unwrap_or_else(|| panic!("no `{text}` in {}", done.out));
    assert!(at("held for v41") < at("first in line") && at("first in line") < at("second in line"));
    for text in [&format!("{USER}@"), &bed.fence("k").to_string(), "exclusive", "shared", "fenced"] {
        assert!(done.out.to_lowercase().contains(text), "no `{text}` in {}", done.out);
    }
    for job in [holder, first, second] {
        job.end().exits(0);
    }
}

#[test]
fn inspect_gives_a_script_every_place() {
    let bed = Bed::new();
    let holder = bed.hold(&["--note", "v41"], "k");
    let waiter = bed.queue(1, &["-s", "--note", "next"], "k", "true");
    let shown = bed.inspect("k");
    assert_eq!(shown["key"], "k");
    let (held, waits) = (&shown["holders"][0], &shown["waiters"][0]);
    assert!(held["holder"].as_str().unwrap().starts_with(&format!("{USER}@")), "{held}");
    assert!(held["holder"].as_str().unwrap().ends_with(&format!(":{}", holder.pid())), "{held}");
    assert_eq!(held["note"], "v41", "{held}");
    assert_eq!(held["mode"], "exclusive", "{held}");
    assert!(held["held_ms"].is_u64() && held["lease_left_ms"].is_null(), "{held}");
    assert_eq!(fence(held), bed.fence("k"));
    assert_eq!(waits["place"].as_u64(), Some(1), "{waits}");
    assert!(waits["who"].as_str().unwrap().ends_with(&format!(":{}", waiter.pid())), "{waits}");
    assert!(waits["waited_ms"].is_u64(), "{waits}");
    assert_eq!(waits["note"], "next", "{waits}");
    assert_eq!(waits["mode"], "shared", "{waits}");
    assert_eq!(shown["guarantees"]["grade"], "fenced", "{shown}");
    holder.end().exits(0);
    waiter.end().exits(0);
}

#[test]
fn inspect_of_a_free_key_says_so() {
    let bed = Bed::new();
    let done = bed.run(&["inspect", "k"]).exits(0);
    assert!(done.out.contains("Nobody holds it"), "{done:?}");
    assert_eq!(bed.inspect("k")["held"], false);
    assert!(bed.holders("k").is_empty() && bed.waiters("k").is_empty());
}

#[test]
fn names_cannot_move_the_cursor() {
    let bed = Bed::new();
    let key = "k\u{1b}[2J\nforged: line";
    let holder = bed.hold(&["--note", "n\u{1b}[2J\nforged: note"], key);
    for done in [
        bed.run(&["ls"]).exits(0),
        bed.run(&["inspect", key]).exits(0),
        bed.run(&["run", "-n", key, "true"]).exits(75),
    ] {
        let said = format!("{}{}", done.out, done.err);
        assert!(!said.contains('\u{1b}') && !said.contains("\nforged"), "{said:?}");
    }
    holder.end().exits(0);
}

#[test]
fn break_with_a_stale_fence_refuses_and_changes_nothing() {
    let bed = Bed::new();
    let seen = {
        let old = bed.hold(&[], "k");
        let seen = bed.fence("k");
        old.end().exits(0);
        seen
    };
    let mut holder = bed.hold(&[], "k");
    let now = bed.fence("k");
    assert!(now > seen);
    let done = bed.run(&["break", "k", "--yes", "--if-fence", &seen.to_string()]);
    assert_eq!(done.status.code(), Some(75), "{done:?}");
    let done = done.complains(&[&seen.to_string(), &now.to_string()]);
    assert!(done.err.contains("tenure: "), "{done:?}");
    bed.run(&["break", "k", "--yes", "--if-fence", &(now + 1024).to_string()]).exits(75);
    assert_eq!(bed.fence("k"), now);
    assert!(holder.is_running());
    holder.end().exits(0);
}

#[test]
fn break_shows_what_it_breaks() {
    let bed = Bed::new();
    let job = bed.job(&["--note", "v41"], "k", "echo up; exec sleep 60");
    let fence = bed.fence("k").to_string();
    let done = bed.run(&["break", "k", "--yes", "--if-fence", &fence]).exits(0);
    for part in [&format!("{USER}@"), "v41", &fence] {
        assert!(format!("{}{}", done.out, done.err).contains(part), "no `{part}` in {done:?}");
    }
    job.end().exits(76);
}

#[test]
fn break_of_a_free_key_breaks_nothing() {
    let bed = Bed::new();
    let done = bed.run(&["break", "k", "--yes", "--if-fence", "1"]);
    assert_ne!(done.status.code(), Some(0), "{done:?}");
    assert!(done.err.contains("tenure: "), "{done:?}");
}

#[test]
fn break_ends_only_the_hold_it_names() {
    let bed = Bed::new();
    let one = bed.job(&["-s"], "k", "echo up; exec sleep 60");
    let fence = bed.fence("k").to_string();
    let mut two = bed.hold(&["-s"], "k");
    bed.run(&["break", "k", "--yes", "--if-fence", &fence]).exits(0);
    one.end().exits(76);
    assert!(two.is_running());
    two.end().exits(0);
}

#[test]
fn break_without_a_terminal_asks_for_yes_and_changes_nothing() {
    let bed = Bed::new();
    let mut holder = bed.hold(&[], "k");
    let fence = bed.fence("k");
    bed.run(&["break", "k", "--if-fence", &fence.to_string()]).exits(64).complains(&["--yes"]);
    assert_eq!(bed.fence("k"), fence);
    assert!(holder.is_running());
    holder.end().exits(0);
}

#[test]
fn break_gives_a_script_what_it_broke() {
    let bed = Bed::new();
    let job = bed.job(&[], "k", "echo up; exec sleep 60");
    let seen = bed.fence("k");
    let done = bed.run(&["break", "k", "--json", "--yes", "--if-fence", &seen.to_string()]).exits(0);
    let broken: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((&broken["result"], &broken["key"]), (&"stopped".into(), &"k".into()), "{broken}");
    assert_eq!(fence(&broken), seen);
    assert!(broken["holder"].as_str().unwrap().starts_with(&format!("{USER}@")), "{broken}");
    job.end().exits(76);
}

#[test]
fn break_at_once_frees_the_key_before_the_holder_lets_go() {
    let bed = Bed::new();
    // The job stops only when it is told to, so that the key can be seen to be free before.
    let script = "trap 'read go; exit 0' TERM; echo up; while :; do sleep 0.01; done";
    let mut job = bed.job(&[], "k", script);
    let fence = bed.fence("k").to_string();
    bed.run(&["break", "k", "--now", "--yes", "--if-fence", &fence]).exits(0);
    assert!(bed.is_free("k"));
    assert!(job.is_running());
    job.end().exits(76);
}
