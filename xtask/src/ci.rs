use std::{env, fs, path::Path};

use crate::{
    docs, servers,
    step::{Call, Outcome, step},
    suite, tidy,
};

/// Gets what the tests need and runs all of them: unit, documentation and conformance.
pub(crate) fn test(root: &Path) -> Outcome {
    servers::ensure(root)?;
    Call::new("cargo test --package tenure --no-default-features --lib")
        .step("test without engines", root)?;
    suite::run(root)
}

/// Everything a change must pass: what [`check()`] asks, then the two commands of the README.
pub(crate) fn all(root: &Path) -> Outcome {
    check(root)?;
    Call::new("cargo run -- run hello -- echo hi").step("main job", root)?;
    test(root)
}

/// What can be asked without running a test, the quick answers first.
pub(crate) fn check(root: &Path) -> Outcome {
    Call::new("cargo fmt --all --check").step("format", root)?;
    step("tidy", "cargo xtask tidy", || tidy::run(root))?;
    step("tables", "cargo xtask docs --check", || docs::check(root))?;
    Call::new("cargo clippy --workspace --all-targets --all-features -- -D warnings").step("lints", root)?;
    Call::new("cargo clippy --package tenure --no-default-features -- -D warnings")
        .step("lints without engines", root)?;
    Call::new("cargo doc --no-deps --workspace --all-features")
        .env("RUSTDOCFLAGS", "-D warnings")
        .step("documentation", root)?;
    dependencies(root)
}

/// Asks cargo-deny about licences, sources and, where there is a database to ask, known faults.
fn dependencies(root: &Path) -> Outcome {
    if !Call::new("cargo deny --version").succeeds(root) {
        println!(
            "==> dependencies: SKIPPED, cargo-deny is not installed (cargo install --locked cargo-deny)"
        );
        return Ok(());
    }
    Call::new("cargo deny check bans licenses sources").step("dependencies", root)?;
    let Some(databases) = env::var_os("TENURE_ADVISORY_DB") else {
        println!(
            "==> advisories: SKIPPED, TENURE_ADVISORY_DB is not set \
             (the directory that `cargo deny fetch db` fills, usually ~/.cargo/advisory-dbs)"
        );
        return Ok(());
    };
    // cargo-deny takes the place of its databases from its settings only.
    let settings = fs::read_to_string(root.join("deny.toml")).map_err(|err| format!("deny.toml: {err}"))?;
    let derived = env::temp_dir().join(format!("tenure-deny-{}.toml", std::process::id()));
    fs::write(&derived, with_databases(&settings, &databases.to_string_lossy()))
        .map_err(|err| format!("{}: {err}", derived.display()))?;
    let outcome = Call::new("cargo deny --offline --config")
        .arg(derived.to_string_lossy())
        .arg("check")
        .arg("advisories")
        .step("advisories", root);
    if outcome.is_ok() {
        // On failure it stays, because the command to repeat names it.
        let _ = fs::remove_file(&derived);
    }
    outcome
}

fn with_databases(settings: &str, databases: &str) -> String {
    settings.replace("[advisories]\n", &format!("[advisories]\ndb-path = {databases:?}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_of_this_workspace_take_a_database() {
        let settings = fs::read_to_string(crate::root().join("deny.toml")).unwrap();
        assert!(with_databases(&settings, "/dbs").contains("[advisories]\ndb-path = \"/dbs\"\n"));
    }
}
