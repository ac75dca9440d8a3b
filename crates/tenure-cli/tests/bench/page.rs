//! The table and the page.

use crate::bed::{SMALL, bench, stderr};

#[test]
fn the_table_and_the_page_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("bench.html");
    let args =
        [&SMALL[..], &["--for", "1s", "--only", "alone,hot", "--html", page.to_str().unwrap()]].concat();
    let output = bench(&args);
    assert!(output.status.success(), "{output:?}");
    let table = String::from_utf8(output.stdout).unwrap();
    let html = std::fs::read_to_string(page).unwrap();
    let row = table.lines().find(|line| line.starts_with("acquire + release, alone")).unwrap();
    assert!(html.contains(row), "{row}\n{html}");
    assert!(table.contains("0 of ") && table.contains("updates lost"), "{table}");
    assert_eq!(html.matches("<svg").count(), 2, "the latencies and the fairness picture");
    assert!(!html.contains("src=\"http") && !html.contains("<script"), "it needs nothing else");
    // Progress is not part of the answer.
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn a_page_that_cannot_be_written_is_said_before_anything_is_measured() {
    let output = bench(&["--html", "/nowhere/bench.html"]);
    assert_eq!(output.status.code(), Some(64));
    assert!(stderr(&output).contains("/nowhere/bench.html"));
}
