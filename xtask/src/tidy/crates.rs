//! Rules about the crates: who may depend on whom, and that all share the workspace's lints.

use super::{Finding, Text};

/// The crates that are no engines. What is not here and starts with `tenure-` is one.
const NO_ENGINES: &[&str] = &[
    "tenure",
    "tenure-bench",
    "tenure-core",
    "tenure-testkit",
    "tenure-cli",
    "tenure-flashsale",
    "tenure-verify",
];

/// The crate that a file of `crates/` belongs to.
pub(super) fn of(path: &str) -> Option<&str> {
    path.strip_prefix("crates/")?.split('/').next()
}

pub(super) fn is_engine(name: &str) -> bool {
    name.starts_with("tenure-") && !NO_ENGINES.contains(&name)
}

pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for manifest in texts.iter().filter(|text| text.path.ends_with("/Cargo.toml")) {
        if !entries(&manifest.text).any(|entry| entry.table == "lints" && entry.key == "workspace") {
            let what = "the crate does not share the lints: add `[lints]` and `workspace = true`";
            findings.push(Finding::new(&manifest.path, 0, what));
        }
        if let Some(name) = of(&manifest.path) {
            findings.extend(dependencies(name, manifest));
        }
    }
    if let Some(top) = texts.iter().find(|text| text.path == "Cargo.toml") {
        let forbids = |entry: Entry<'_>| {
            entry.table == "workspace.lints.rust" && entry.key == "unsafe_code" && entry.value == "\"forbid\""
        };
        if !entries(&top.text).any(forbids) {
            findings.push(Finding::new(&top.path, 0, "`unsafe_code = \"forbid\"` is gone from the lints"));
        }
    }
    findings
}

/// What the crate depends on that stands beside or above it. Tests may look up.
fn dependencies(name: &str, manifest: &Text) -> Vec<Finding> {
    let (allowed, rule): (fn(&str) -> bool, &str) = match name {
        "tenure-core" => (|_| false, "tenure-core depends on no crate of the workspace"),
        "tenure" => {
            (|on| on == "tenure-core" || is_engine(on), "tenure depends on tenure-core and engines only")
        }
        _ if is_engine(name) => (|on| on == "tenure-core", "an engine depends on tenure-core only"),
        _ => return Vec::new(),
    };
    entries(&manifest.text)
        .filter_map(|entry| Some((entry.line, entry.dependency()?)))
        .filter(|(_, on)| (*on == "tenure" || on.starts_with("tenure-")) && !allowed(on))
        .map(|(line, on)| Finding::new(&manifest.path, line, format!("`{on}`: {rule}")))
        .collect()
}

/// One `key = value` of a manifest, or the head of a table (with neither). Enough TOML for cargo's manifests.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    line: usize,
    table: &'a str,
    key: &'a str,
    value: &'a str,
}

impl<'a> Entry<'a> {
    /// The crate that this entry makes the manifest depend on, tests aside.
    fn dependency(self) -> Option<&'a str> {
        const TABLES: [&str; 2] = ["dependencies", "build-dependencies"];
        let (table, named) = match self.table.rsplit_once('.') {
            Some((table, name)) if !TABLES.contains(&name) => (table, Some(name)),
            _ => (self.table, None),
        };
        if !TABLES.contains(&table.rsplit('.').next()?) {
            return None;
        }
        // A dependency can have another name here than its own: `name = { package = "other" }`.
        let package = match named {
            Some(_) => (self.key == "package").then_some(self.value),
            None => {
                self.value.split_once("package").and_then(|(_, rest)| rest.trim_start().strip_prefix('='))
            }
        };
        match package.and_then(|text| text.split('"').nth(1)) {
            Some(package) => Some(package),
            None if named.is_some() => named.filter(|_| self.key.is_empty()),
            None => self.key.split('.').next().filter(|key| !key.is_empty()),
        }
    }
}

fn entries(manifest: &str) -> impl Iterator<Item = Entry<'_>> {
    let mut table = "";
    manifest.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim();
        let entry = |table, key, value| Some(Entry { line: number + 1, table, key, value });
        if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            table = head.0.trim();
            return entry(table, "", "");
        }
        let (key, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        entry(table, key.trim().trim_matches('"'), value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, manifest: &str) -> Vec<String> {
        let text = Text { path: path.into(), text: format!("{manifest}\n[lints]\nworkspace = true\n") };
        check(&[text]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_engine_sees_the_core_only() {
        let path = "crates/tenure-beehive/Cargo.toml";
        for bad in [
            "[dependencies]\ntenure.workspace = true",
            "[dependencies]\ntenure-local = { workspace = true }",
            "[dependencies]\n\"tenure-testkit\" = \"1\"",
            "[dependencies.tenure-redis]\nworkspace = true",
            "[build-dependencies]\ntenure-cli = \"1\"",
            "[target.'cfg(unix)'.dependencies]\ntenure-local.workspace = true",
            "[dependencies]\nbees = { package = \"tenure-redis\", version = \"1\" }",
            "[dependencies.bees]\npackage = \"tenure-redis\"",
        ] {
            let found = found(path, bad);
            assert_eq!(found.len(), 1, "{bad}: {found:?}");
            assert!(found[0].ends_with("an engine depends on tenure-core only"));
        }
        let good = "[package]\nname = \"tenure-beehive\"\n[dependencies]\ntenure-core.workspace = true\n\
                    # tenure = \"1\"\ntokio = \"1\"\n[dev-dependencies]\ntenure-testkit.workspace = true";
        assert_eq!(found(path, good), [""; 0]);
    }

    #[test]
    fn the_core_sees_nobody_and_tenure_only_what_is_below() {
        let on = |name: &str| format!("[dependencies]\n{name}.workspace = true");
        assert_eq!(found("crates/tenure-core/Cargo.toml", &on("tenure-local")).len(), 1);
        assert_eq!(found("crates/tenure/Cargo.toml", &on("tenure-testkit")).len(), 1);
        assert!(found("crates/tenure/Cargo.toml", &on("tenure-local")).is_empty());
        assert!(found("crates/tenure-cli/Cargo.toml", &on("tenure")).is_empty());
    }

    #[test]
    fn every_crate_shares_the_lints_and_unsafe_code_stays_forbidden() {
        let text = |path: &str, text: &str| Text { path: path.into(), text: text.into() };
        let alone = check(&[text("crates/tenure-core/Cargo.toml", "[package]\nname = \"tenure-core\"")]);
        assert!(alone[0].what.contains("share the lints"));
        assert_eq!(check(&[text("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"")]).len(), 1);
        assert!(check(&[text("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"")]).is_empty());
    }
}
