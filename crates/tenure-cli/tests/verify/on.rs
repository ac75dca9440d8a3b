//! An engine of the user's own: only its clients are struck.

use tenure_testkit::redis::{Redis, RedisOptions};

use crate::bed::{verify, verify_until};

fn server() -> (Redis, String) {
    let server = Redis::start(RedisOptions::default()).unwrap();
    let url = server.url();
    (server, url)
}

#[test]
fn clients_are_struck_and_the_engine_is_left_as_it_was() {
    let (server, url) = server();
    server.command(&["SET", "somebody", "else"]).unwrap();
    let args = ["--json", "--on", &url, "--for", "2s", "--hits", "1", "--faults", "kill,cut,reset"];
    let run = verify(&args).exits(0).run();
    assert_eq!(run["engine"], url);
    for cell in run["cells"].as_array().unwrap() {
        assert_eq!(cell["outcome"], "held", "{cell}");
    }
    let text = server.command(&["GET", "somebody"]).unwrap();
    assert_eq!(text.text(), Some("else"));
    // What cannot be done to a stranger's engine is said.
    let run = verify(&["--on", &url, "--for", "1s", "--hits", "0", "--faults", "none,sleep"]).exits(0);
    assert!(run.out.contains("its clock can be moved in a lab only"), "{}", run.out);
    let run = verify(&["--on", &url, "--faults", "evict"]).exits(64);
    assert!(run.err.contains("use --lab") && run.err.contains("--strike evict=COMMAND"), "{}", run.err);
}

#[test]
fn the_engine_is_struck_only_by_the_commands_that_its_owner_gives() {
    let (server, url) = server();
    server.command(&["SET", "somebody", "else"]).unwrap();
    let args = ["--json", "--on", &url, "--for", "1s", "--hits", "2", "--faults", "flush", "--strike"];
    let order = format!("flush=redis-cli -p {} flushall", server.port());
    let run = verify(&[&args[..], &[&order]].concat()).exits(0).run();
    let cell = &run["cells"][0];
    assert!(cell["hits"].as_u64() >= Some(2), "{cell}");
    assert_eq!(cell["lost"], 0, "{cell}");
    assert!(server.command(&["GET", "somebody"]).unwrap().text().is_none(), "it was not struck");
    // A command that fails has not hit, and the run says why.
    let run = verify(&[&args[..], &["flush=echo not today >&2; false"]].concat()).exits(2).run();
    assert_eq!(run["outcome"], "inconclusive");
    assert!(run["cells"][0].to_string().contains("not today"), "{run}");
}

#[test]
fn who_interrupts_is_told_what_was_found_so_far() {
    let (_server, url) = server();
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("run.html");
    let args = ["--on", &url, "--for", "1s", "--faults", "none,kill", "--html", page.to_str().unwrap()];
    // The line of the first cell; the second one is under way then.
    let run = verify_until(&args, "none ").exits(130);
    assert!(run.out.contains("I1 one holder at a time"), "{}", run.out);
    assert!(run.out.contains("Interrupted"), "{}", run.out);
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
}
