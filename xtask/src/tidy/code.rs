//! Rules about Rust code.

use super::{Finding, crates, source::Source};

/// Split past it: nobody reads more at once.
const MAX_LINES: usize = 800;

/// What an engine may not do, because it is done once, above it.
const NOT_IN_ENGINES: &[(&str, &str)] = &[
    ("sleep(", "an engine does not sleep: report Busy, the acquire loop waits"),
    ("sleep_until(", "an engine does not sleep: report Busy, the acquire loop waits"),
    ("interval(", "an engine has no timer of its own: the watchdog renews"),
    ("interval_at(", "an engine has no timer of its own: the watchdog renews"),
    ("SystemTime::now", "an engine reads no wall clock to decide: use the server's time, or a Clock"),
    ("ClockId::Realtime", "an engine reads no wall clock to decide: use the server's time, or a Clock"),
];

const NOT_ANYWHERE: &[(&str, &str)] = &[
    ("#[ignore", "a test that is not run proves nothing: fix it or delete it"),
    ("todo!", "finish it, or open an issue and leave the code out"),
    ("unimplemented!", "finish it, or open an issue and leave the code out"),
];

pub(super) fn check(source: &Source<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |at: usize, what: &str| findings.push(Finding::new(source.path, source.line(at), what));

    for (word, why) in NOT_ANYWHERE {
        source.find(word).for_each(|at| find(at, &format!("`{word}`: {why}")));
    }
    // Its tests may let time pass.
    if crates::of(source.path).is_some_and(crates::is_engine) && source.path.contains("/src/") {
        let excused = excused(source);
        for (word, why) in NOT_IN_ENGINES {
            let inexcusable = source.find(word).filter(|at| !excused.iter().any(|item| item.contains(at)));
            inexcusable
                .for_each(|at| find(at, &format!("`{word}`: {why}; or say why it must, in an `expect`")));
        }
    }
    for attribute in source.attributes() {
        let code = &source.code[attribute.clone()];
        if ["allow(", "expect("].iter().any(|word| mentions(code, word)) && !code.contains("reason =") {
            find(attribute.start, "an `allow` or `expect` gives its `reason = \"..\"`");
        }
    }
    if let Some(at) = default_body(source) {
        find(at, "`Engine` has no default bodies: a wrapper that forgets to forward a verb must not compile");
    }
    let lines = source.text.lines().count();
    if lines > MAX_LINES {
        findings.push(Finding::new(source.path, 0, format!("{lines} lines; split it before {MAX_LINES}")));
    }
    findings
}

/// The items for which a lint of time is lifted, with a reason.
fn excused(source: &Source<'_>) -> Vec<std::ops::Range<usize>> {
    source
        .attributes()
        .filter(|attribute| {
            let code = &source.code[attribute.clone()];
            code.contains("clippy::disallowed_methods") && code.contains("reason =")
        })
        .map(|attribute| source.item_after(attribute.end))
        .collect()
}

/// Whether an attribute has the word as one of its own, not as the end of another.
fn mentions(attribute: &str, word: &str) -> bool {
    attribute
        .match_indices(word)
        .any(|(at, _)| !attribute[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

fn default_body(source: &Source<'_>) -> Option<usize> {
    let start = source.find("trait Engine:").next()?;
    let open = start + source.code[start..].find('{')?;
    let close = source.closing(open)?;
    source.code[open + 1..close].find('{').map(|at| open + 1 + at)
}

#[cfg(test)]
mod tests {
    use super::{super::Text, *};

    fn found(path: &str, text: &str) -> Vec<String> {
        let text = Text { path: path.into(), text: text.into() };
        check(&Source::new(&text)).iter().map(ToString::to_string).collect()
    }

    const ENGINE: &str = "crates/tenure-beehive/src/x.rs";

    #[test]
    fn an_engine_neither_sleeps_nor_reads_a_wall_clock() {
        for line in [
            "tokio::time::sleep(d).await;",
            "sleep_until(d).await;",
            "let mut t = time::interval(d);",
            "interval_at(a, b);",
            "thread::sleep(d);",
            "SystemTime::now();",
            "clock_gettime(ClockId::Realtime);",
        ] {
            let found_in = |path| found(path, &format!("fn f() {{\n    {line}\n}}\n"));
            assert_eq!(found_in(ENGINE).len(), 1, "{line}");
            assert!(found_in(ENGINE)[0].starts_with("crates/tenure-beehive/src/x.rs:2: `"));
            assert!(found_in("crates/tenure/src/acquire.rs").is_empty(), "only engines: {line}");
            assert!(found_in("crates/tenure-beehive/tests/it.rs").is_empty(), "not their tests: {line}");
        }
        assert!(found(ENGINE, "// sleep(d)\nfn f() { \"sleep(\"; nosleep(d); timeout(d); }").is_empty());
    }

    #[test]
    fn an_engine_may_when_it_says_why_and_only_there() {
        let with = |reason: &str| {
            format!(
                "#[expect(clippy::disallowed_methods{reason})]\nfn a() {{ SystemTime::now(); }}\nfn b() {{}}\n"
            )
        };
        assert!(found(ENGINE, &with(", reason = \"people read it\"")).is_empty());
        assert_eq!(found(ENGINE, &with("")).len(), 2);
        let elsewhere = with(", reason = \"x\"").replace("fn b() {}", "fn b() { SystemTime::now(); }");
        assert!(found(ENGINE, &elsewhere)[0].contains("x.rs:3"));
    }

    #[test]
    fn nothing_is_left_undone() {
        for line in
            ["#[ignore] fn t() {}", "#[ignore = \"slow\"] fn t() {}", "todo!()", "unimplemented!(\"x\")"]
        {
            assert_eq!(found("xtask/src/x.rs", line).len(), 1, "{line}");
        }
        assert!(found("xtask/src/x.rs", "/// `todo!` is refused\nfn f() { \"#[ignore]\" }").is_empty());
    }

    #[test]
    fn a_lifted_lint_has_a_reason() {
        for line in [
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[expect(\n    dead_code,\n)]",
            "#[cfg_attr(test, allow(dead_code))]",
        ] {
            assert_eq!(found("xtask/src/x.rs", line).len(), 1, "{line}");
            let reasoned = line.replace("dead_code", "dead_code, reason = \"x\"");
            assert!(found("xtask/src/x.rs", &reasoned).is_empty(), "{line}");
        }
        assert!(found("xtask/src/x.rs", "#[should_panic(expected = \"allow(\")] x.expect(y)").is_empty());
    }

    #[test]
    fn files_stay_short() {
        assert!(found("xtask/src/x.rs", &"\n".repeat(MAX_LINES)).is_empty());
        assert!(found("xtask/src/x.rs", &"\n".repeat(MAX_LINES + 1))[0].contains("801 lines"));
    }

    #[test]
    fn the_contract_has_no_default_bodies() {
        let contract =
            "pub trait Engine: Send {\n    fn a(&self) -> [u8; 1];\n    async fn b(&self);\n}\nfn c() {}";
        assert!(found("crates/tenure-core/src/engine.rs", contract).is_empty());
        let lazy = contract.replace("b(&self);", "b(&self) {}");
        assert!(
            found("crates/tenure-core/src/engine.rs", &lazy)[0]
                .contains("engine.rs:3: `Engine` has no default")
        );
    }
}
