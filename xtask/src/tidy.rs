//! The architecture's invariants that no compiler checks, as checks with a message each.

mod code;
mod crates;
mod links;
mod source;
mod texts;

use std::{fmt, fs, path::Path};

use self::source::Source;
use crate::step::Outcome;

/// One file of the workspace; its path is relative to the top, with slashes.
#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Where a rule is broken, and what to do.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// From 1; 0 for the whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// Checks every rule on every file, and shows all that is wrong.
pub(crate) fn run(root: &Path) -> Outcome {
    let texts = walk(root)?;
    let findings = findings(&texts);
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("tidy: {n} broken (rules: ARCHITECTURE.md)")),
    }
}

fn findings(texts: &[Text]) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(crates::check(texts));
    findings.extend(texts::check(texts));
    findings.extend(links::check(texts));
    for text in texts.iter().filter(|text| text.path.ends_with(".rs")) {
        findings.extend(code::check(&Source::new(text)));
    }
    findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    findings
}

/// All texts of the workspace but what is built, downloaded or git's own, sorted by path.
pub(crate) fn walk(root: &Path) -> Result<Vec<Text>, String> {
    let mut texts = Vec::new();
    let mut folders = vec![(root.to_path_buf(), String::new())];
    while let Some((folder, prefix)) = folders.pop() {
        let say = |err: std::io::Error| format!("{}: {err}", folder.display());
        for entry in fs::read_dir(&folder).map_err(say)? {
            let entry = entry.map_err(say)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type().map_err(say)?;
            // In a linked worktree git's own is a file.
            if name == ".git" {
                continue;
            }
            if kind.is_dir() && !name.starts_with("target") {
                folders.push((entry.path(), path + "/"));
            } else if kind.is_file() && name != "Cargo.lock" {
                // What is not text (a picture) has a path, and no words to check.
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                texts.push(Text { path, text });
            }
        }
    }
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_finds_hidden_folders_and_leaves_what_is_built() {
        let texts = walk(&crate::root()).unwrap();
        let has = |path: &str| texts.iter().any(|text| text.path == path);
        assert!(has("Cargo.toml") && has("xtask/src/tidy.rs") && has(".cargo/config.toml"));
        assert!(!texts.iter().any(|text| text.path.starts_with("target")
            || text.path.starts_with(".git/")
            || text.path == ".git"));
    }
}
