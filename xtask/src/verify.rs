//! `cargo xtask verify`: the smoke tier, or the full matrix, whose table goes into docs/verify.md.

use std::{fs, path::Path, process::Command};

use crate::step::{Call, Outcome};

/// Every engine that `tenure verify` can start.
const LABS: [&str; 12] = [
    "file",
    "memory",
    "redis",
    "redis-volatile",
    "redis-sentinel",
    "redis-cluster",
    "redlock",
    "mysql",
    "postgres",
    "zookeeper",
    "etcd",
    "memcached",
];
const PAGE: &str = "docs/verify.md";
const BEGIN: &str = "<!-- measured: cargo xtask verify --release -->\n";
const END: &str = "<!-- measured: end -->";

/// Every engine under three cheap faults, and some wrong ways: what CI runs among its tests.
pub(crate) fn smoke(root: &Path) -> Outcome {
    Call::new("cargo test --workspace --all-features --test verify").step("verify, smoke tier", root)
}

/// Every engine under every fault, each for so long, then all wrong ways.
pub(crate) fn release(root: &Path, time: &str) -> Outcome {
    Call::new("cargo build --release --bin tenure").step("build", root)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), Into::into);
    let tenure = target.join("release/tenure");
    let mut text = String::new();
    let mut broken = Vec::new();
    for lab in LABS {
        text.push_str(&format!("\n### {lab}\n\n```text\n"));
        let (said, ok) = run(&tenure, &["verify", "--plain", "--lab", lab, "--for", time])?;
        text.push_str(&said);
        text.push_str("```\n");
        if !ok {
            broken.push(lab);
        }
    }
    let (said, ok) = run(&tenure, &["verify", "--mutants"])?;
    text.push_str(&format!("\n### The wrong ways\n\n```text\n{said}```\n"));
    if !ok {
        broken.push("mutants");
    }
    write(&root.join(PAGE), &text)?;
    if broken.is_empty() { Ok(()) } else { Err(format!("not held, or not shown: {}", broken.join(", "))) }
}

fn run(tenure: &Path, args: &[&str]) -> Result<(String, bool), String> {
    println!("==> tenure {}", args.join(" "));
    let done =
        Command::new(tenure).args(args).output().map_err(|err| format!("{}: {err}", tenure.display()))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    print!("{said}{}", String::from_utf8_lossy(&done.stderr));
    Ok((said, done.status.success()))
}

fn write(path: &Path, text: &str) -> Outcome {
    let page = fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
    let fresh = filled(&page, text).ok_or_else(|| format!("{} has no measured part", path.display()))?;
    fs::write(path, fresh).map_err(|err| format!("{}: {err}", path.display()))
}

fn filled(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{text}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_room_for_what_is_measured() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        let fresh = filled(&page, "today\n").unwrap();
        assert!(fresh.contains(&format!("{BEGIN}today\n{END}")));
        assert!(filled("nothing", "today").is_none());
    }
}
