//! The parts of README.md and docs/ that are written from the engines' own [`Guarantees`].
//!
//! A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. `engines` is the table of all engines,
//! `engine NAME` what one of them promises.

mod engines;

use std::{fs, path::Path};

use tenure_core::Guarantees;

use crate::{
    step::Outcome,
    tidy::{Text, walk},
};

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

/// Writes the generated parts anew.
pub(crate) fn write(root: &Path) -> Outcome {
    for (text, fresh) in stale(root)? {
        fs::write(root.join(&text.path), fresh).map_err(|err| format!("{}: {err}", text.path))?;
        println!("wrote {}", text.path);
    }
    Ok(())
}

/// Says whether the generated parts are what [`write()`] would write.
pub(crate) fn check(root: &Path) -> Outcome {
    let stale: Vec<String> = stale(root)?.into_iter().map(|(text, _)| text.path).collect();
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!("out of date: {}; run `cargo xtask docs` and commit what it wrote", stale.join(", ")))
}

/// The pages that would change, with what they would become.
fn stale(root: &Path) -> Result<Vec<(Text, String)>, String> {
    let engines = engines::all();
    let mut stale = Vec::new();
    for text in walk(root)? {
        let is_page = text.path == "README.md" || text.path.starts_with("docs/");
        if is_page && text.path.ends_with(".md") {
            let fresh = fill(&text.text, &engines).map_err(|why| format!("{}: {why}", text.path))?;
            if fresh != text.text {
                stale.push((text, fresh));
            }
        }
    }
    Ok(stale)
}

/// The page with every generated part written anew.
fn fill(page: &str, engines: &[Guarantees]) -> Result<String, String> {
    let mut fresh = String::with_capacity(page.len());
    let mut rest = page;
    while let Some(at) = rest.find(BEGIN) {
        let (name, body) = rest[at + BEGIN.len()..]
            .split_once(" -->\n")
            .ok_or("a `<!-- generated: ` mark does not end its line with ` -->`")?;
        let end = body
            .find(END)
            .filter(|&end| !body[..end].contains(BEGIN))
            .ok_or_else(|| format!("the generated part `{name}` has no `{END}`"))?;
        fresh.push_str(&rest[..rest.len() - body.len()]);
        fresh.push_str(&part(name, engines)?);
        fresh.push_str(END);
        rest = &body[end + END.len()..];
    }
    fresh.push_str(rest);
    Ok(fresh)
}

fn part(name: &str, engines: &[Guarantees]) -> Result<String, String> {
    if name == "engines" {
        return Ok(engines::table(engines));
    }
    let known = || engines.iter().map(|g| g.engine).collect::<Vec<_>>().join(", ");
    name.strip_prefix("engine ")
        .and_then(|name| engines.iter().find(|g| g.engine == name))
        .map(engines::promises)
        .ok_or_else(|| {
            format!("`{name}` is no generated part (parts: engines, engine NAME; engines: {})", known())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_written_anew_and_the_rest_is_left() {
        let engines = engines::all();
        let page = "# Top\n<!-- generated: engines -->\nyesterday\n<!-- end -->\nmiddle <!-- end -->\n\
                    <!-- generated: engine memory --><!-- end -->";
        assert!(fill(page, &engines).is_err(), "a mark ends its line");
        let page = page.replace("memory --><", "memory -->\n<");
        let fresh = fill(&page, &engines).unwrap();
        assert!(fresh.starts_with("# Top\n<!-- generated: engines -->\n| engine |"), "{fresh}");
        assert!(fresh.contains("<!-- end -->\nmiddle <!-- end -->\n<!-- generated: engine memory -->\n| "));
        assert!(!fresh.contains("yesterday"));
        assert_eq!(fill(&fresh, &engines).unwrap(), fresh, "writing it twice changes nothing");
    }

    #[test]
    fn a_mark_nobody_knows_or_ends_is_refused() {
        let refused = |page: &str| fill(page, &engines::all()).unwrap_err();
        assert!(
            refused("<!-- generated: engins -->\n<!-- end -->").contains("`engins` is no generated part")
        );
        assert!(refused("<!-- generated: engine papyrus -->\n<!-- end -->").contains("memory"));
        assert!(refused("<!-- generated: engines -->\n").contains("has no `<!-- end -->`"));
        let nested = "<!-- generated: engines -->\n<!-- generated: engines -->\n<!-- end -->";
        assert!(refused(nested).contains("has no"));
    }
}
