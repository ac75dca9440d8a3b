//! `tenure wait` returns when a key is free.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::bed::{Bed, took};

#[test]
fn a_free_key_is_not_waited_for() {
    Bed::new().run(&["wait", "k"]).exits(0).prints("");
}

#[test]
fn it_returns_when_the_holder_has_let_go_and_takes_nothing() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut wait = bed.start(&["wait", "k"]);
    wait.outlives(Duration::from_millis(200));
    holder.end().exits(0);
    wait.end().exits(0).prints("");
    assert!(bed.is_free("k"));
    assert!(bed.holders("k").is_empty());
}

#[test]
fn a_wait_has_a_limit_if_one_is_given() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let began = Instant::now();
    bed.run(&["wait", "-w", "0.2", "k"]).exits(75).prints("");
    took(began, Duration::from_millis(200));
    holder.end().exits(0);
}

#[test]
fn a_signal_ends_it() {
    let bed = Bed::new();
    let holder = bed.hold(&[], "k");
    let mut wait = bed.start(&["wait", "k"]);
    wait.outlives(Duration::from_millis(100));
    wait.signal(Signal::TERM);
    assert_eq!(wait.end().shell_code(), 143);
    holder.end().exits(0);
    assert!(bed.is_free("k"));
}
