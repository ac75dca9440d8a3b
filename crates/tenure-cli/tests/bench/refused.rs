//! What is refused, and how it is said.

use crate::bed::{bench, stderr};

fn refused(args: &[&str], code: i32, words: &str) {
    let output = bench(args);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
    assert!(said.contains(words), "{args:?}: {said}");
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn options_that_cannot_be() {
    refused(&["--only", "speed"], 64, "alone, handoff, hot, crash, held");
    refused(&["--processes", "0"], 64, "--processes");
    refused(&["--for", "1ms"], 64, "--for");
    refused(&["--growth", "--only", "hot"], 64, "--only");
    refused(&["--engine-pid", "1"], 64, "--growth");
}

#[test]
fn an_engine_that_cannot_be_used() {
    refused(&["--on", "redis://app:hunter2@127.0.0.1:1", "--for", "2s"], 69, "127.0.0.1:1");
    refused(&["--on", "memory:?tll=5s"], 78, "did you mean `ttl`?");
}
