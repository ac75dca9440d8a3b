//! The page.

use std::fs;

use crate::bed::verify;

#[test]
fn the_page_needs_nothing_else_and_shows_every_lock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.html");
    let args = ["--for", "2s", "--hits", "1", "--faults", "pause,cut", "--html", path.to_str().unwrap()];
    let run = verify(&args).exits(0);
    assert!(run.out.contains("I1 one holder at a time"), "{}", run.out);
    let page = fs::read_to_string(path).unwrap();
    for needed in ["<svg", "worker 1", "lock <code>0</code>", "believes to hold", "no proxy can stand before"]
    {
        assert!(page.contains(needed), "the page has no `{needed}`");
    }
    for foreign in ["http://", "https://", "<script", "@import", "url("] {
        assert!(!page.contains(foreign), "the page has `{foreign}`");
    }
}
