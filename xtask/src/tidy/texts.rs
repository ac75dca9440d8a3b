//! Rules about words, in code and prose alike.

use super::{Finding, Text};

/// One concept, one word: what is said instead, anywhere in the crates' sources.
const WORDS: &[(&str, &str)] =
    &[("backend", "engine"), ("backends", "engines"), ("provider", "engine"), ("providers", "engines")];

/// Phrases for the same concepts whose words are fine on their own.
const PHRASES: &[(&str, &str)] = &[
    ("fencing token", "fence"),
    ("lock token", "claim id"),
    ("lock id", "claim id"),
    ("fn unlock(", "release"),
];

/// Notes to oneself.
const NOTES: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Where one person's machine keeps things.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/"), concat!("/Us", "ers/")];

pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for text in texts {
        let in_sources = text.path.starts_with("crates/") && text.path.contains("/src/");
        for (number, line) in text.text.lines().enumerate() {
            let what = if in_sources { word(line) } else { None };
            let what = what.or_else(|| note(text, line)).or_else(|| machine_path(line));
            findings.extend(what.map(|what| Finding::new(&text.path, number + 1, what)));
        }
    }
    if let Some(log) = texts.iter().find(|text| text.path == "CHANGELOG.md")
        && !log.text.lines().any(|line| line.starts_with("## ") && line.contains("Unreleased"))
    {
        findings.push(Finding::new(
            &log.path,
            0,
            "there is no `## [Unreleased]` section for the next change",
        ));
    }
    findings
}

/// Whose own names may have such words in them, where they are called.
const FOREIGN: &[&str] = &["rustls::", "pg_backend_pid", "pg_terminate_backend"];

fn word(line: &str) -> Option<String> {
    if FOREIGN.iter().any(|name| line.contains(name)) {
        return None;
    }
    let lower = line.to_lowercase();
    let word = WORDS.iter().find(|(word, _)| words(line).any(|w| w.eq_ignore_ascii_case(word)));
    word.or_else(|| PHRASES.iter().find(|(phrase, _)| lower.contains(phrase)))
        .map(|(said, instead)| format!("`{said}`: say `{instead}` (one concept, one word)"))
}

/// The words of a line; identifiers are taken apart at underscores and capitals.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric()).flat_map(|run| {
        let mut from = 0;
        let starts = run.char_indices().skip(1).filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at);
        starts.chain([run.len()]).map(move |to| &run[std::mem::replace(&mut from, to)..to])
    })
}

fn note(text: &Text, line: &str) -> Option<String> {
    let is_code = text.path.ends_with(".rs") || text.path.ends_with(".toml");
    let note =
        NOTES.iter().find(|note| line.split(|c: char| !c.is_alphanumeric()).any(|word| word == **note));
    note.filter(|_| is_code).map(|note| format!("`{note}`: do it, or open an issue"))
}

fn machine_path(line: &str) -> Option<String> {
    let starts_there = |path: &&&str| {
        line.match_indices(**path)
            .any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || "-_.~}/".contains(c)))
    };
    MACHINE_PATHS.iter().find(starts_there).map(|path| format!("`{path}`: a path of one machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        check(&[Text { path: path.into(), text: text.into() }]).iter().map(ToString::to_string).collect()
    }

    const SOURCE: &str = "crates/tenure/src/x.rs";

    #[test]
    fn one_concept_has_one_word() {
        for line in [
            "/// Asks the backend.",
            "struct RedisBackend;",
            "let lock_backend = 1;",
            "// Providers differ.",
            "/// A fencing token.",
            "/// The Lock ID.",
            "    pub fn unlock(self) {",
        ] {
            assert_eq!(found(SOURCE, line).len(), 1, "{line}");
            assert!(found("docs/x.md", line).is_empty(), "only sources: {line}");
        }
        assert!(found(SOURCE, "SELECT pg_backend_pid(), 1").is_empty());
        assert!(found(SOURCE, "file.unlock()?; let token = CancelToken::new(); block_identity").is_empty());
    }

    #[test]
    fn notes_to_oneself_are_done_or_filed() {
        for note in NOTES {
            assert_eq!(found(SOURCE, &format!("// {note}: later")).len(), 1);
            assert!(found(SOURCE, &format!("{note}S")).is_empty());
        }
    }

    #[test]
    fn no_path_of_one_machine() {
        for folder in ["root", "home", "work", "Users"] {
            assert_eq!(found("docs/x.md", &format!("see `/{folder}/ana/x`")).len(), 1, "{folder}");
            assert!(found("docs/x.md", &format!("https://example.org/{folder}/x")).is_empty(), "{folder}");
        }
        assert!(found("docs/x.md", "network/x homework/ /var/lock/x").is_empty());
    }

    #[test]
    fn the_changelog_has_room_for_the_next_change() {
        assert_eq!(found("CHANGELOG.md", "# Changelog\n\n## 0.1.0\n").len(), 1);
        assert!(found("CHANGELOG.md", "# Changelog\n\n## [Unreleased]\n").is_empty());
    }
}
