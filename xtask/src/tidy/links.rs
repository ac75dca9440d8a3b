//! Rules about pages: what they point at is there.

use std::collections::HashSet;

use super::{Finding, Text};

pub(super) fn check(texts: &[Text]) -> Vec<Finding> {
    let mut there: HashSet<&str> = HashSet::new();
    for text in texts {
        let ends = text.path.match_indices('/').map(|(at, _)| at).chain([text.path.len()]);
        there.extend(ends.map(|end| &text.path[..end]));
    }
    let mut findings = Vec::new();
    for page in texts.iter().filter(|text| text.path.ends_with(".md")) {
        let folder = page.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (number, line) in page.text.lines().enumerate() {
            let links = links(line).map(|link| resolve(folder, link));
            let missing = links.chain(paths(line).map(str::to_owned)).find(|path| !there.contains(&**path));
            let what = missing.map(|path| format!("`{path}` is not there"));
            findings.extend(what.map(|what| Finding::new(&page.path, number + 1, what)));
        }
    }
    findings
}

/// The targets of links into this workspace, without their anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains(':'))
}

/// The files that are named by their whole path, as in `crates/tenure/src/lib.rs`.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| ["crates/", "xtask/", "docs/"].iter().any(|top| word.starts_with(top)))
        .filter(|word| !word.contains(['<', '*', ' ']))
        .map(|word| word.trim_end_matches('/'))
}

fn resolve(folder: &str, link: &str) -> String {
    let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Vec<String> {
        let text = |path: &str, text: &str| Text { path: path.into(), text: text.into() };
        let texts =
            [text("SAFETY.md", ""), text("crates/tenure/src/lib.rs", ""), text("docs/engines/bees.md", page)];
        check(&texts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_page_points_at_is_there() {
        for good in [
            "[a](../../SAFETY.md) and [b](bees.md#top), [c](#top), [d](https://example.org/x)",
            "see `crates/tenure/src/lib.rs`, `crates/tenure/src/`, `crates/tenure-<name>`, docs/nothing",
            "[e](../engines/bees.md) `docs/*.md`",
        ] {
            assert_eq!(found(good), [""; 0], "{good}");
        }
        for bad in
            ["[a](SAFETY.md)", "\n[b](wasps.md#top)", "`crates/tenure/src/main.rs`", "`a` `docs/wasps.md`"]
        {
            assert_eq!(found(bad).len(), 1, "{bad}");
        }
        assert_eq!(
            found("\n[b](wasps.md#top)"),
            ["docs/engines/bees.md:2: `docs/engines/wasps.md` is not there"]
        );
    }
}
