//! What makes no sale, and a sale that somebody ends.

use std::{
    fs,
    io::{BufRead, BufReader},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::bed::{alone, command, end, sale};

#[test]
fn what_makes_no_sale_is_said_in_one_line() {
    let wrong: &[(&[&str], i32, &str)] = &[
        (&["--hosts", "1"], 64, "--hosts"),
        (&["--stock", "3"], 64, "--stock"),
        (&["--buyers", "10"], 64, "--buyers"),
        (&["--strategies", "magic"], 64, "no-lock"),
        (&["--faults", "fire"], 64, "stall"),
        (&["--faults", "cut", "--strategies", "fenced"], 64, "cut"),
        (&["--on", "memory:"], 64, "file:"),
        (&["--on", "redsi://h"], 78, "redsi"),
        (&["--store", "oracle://h/x"], 64, "postgres:"),
        (&["--store", "redis://app:hunter2@127.0.0.1:1"], 69, "Redis"),
        (&["--store", "mysql://app:hunter2@127.0.0.1:1/x"], 69, "the store"),
        (&["--html", "/nowhere/at/all.html"], 64, "cannot write"),
    ];
    for (args, code, said) in wrong {
        let sale = sale(args).exits(*code);
        assert!(sale.err.contains(said), "{args:?}: {}", sale.err);
        let shown = format!("{}{}", sale.out, sale.err);
        assert!(!shown.contains("hunter2"), "{args:?}: {shown}");
    }
}

#[test]
fn a_sale_that_is_interrupted_ends_at_once_and_takes_its_hosts_along() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&["--json", "--strategies", "fenced", "--rate", "20"]);
    let mut child = command.env("TMPDIR", folder.path()).spawn().unwrap();
    let mut ticks = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("\"event\":\"tick\"") {
        line.clear();
        assert!(ticks.read_line(&mut line).unwrap() > 0, "the sale ended before it began");
    }
    let hosts = children(child.id());
    assert_eq!(hosts.len(), 4, "each host is a process");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.stdout = Some(ticks.into_inner());
    let sale = end(child).exits(130);
    assert!(sale.err.contains("interrupted"), "{}", sale.err);
    for host in hosts {
        assert!(!fs::exists(format!("/proc/{host}/exe")).unwrap_or(false), "host {host} is still there");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing stays behind");
}

fn children(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    text.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}
