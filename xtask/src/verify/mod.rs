//! `cargo xtask verify`: the smoke tier, and what is shown before a release, whose tables go into docs/verify.md.

mod bars;
mod matrix;
mod run;
mod table;

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use self::run::Tenure;
use crate::{
    pool::side_by_side,
    step::{Call, Outcome, step},
};

/// Every engine that `tenure verify` can start. The slow ones come first, since they run side by side.
const LABS: [&str; 12] = [
    "etcd",
    "zookeeper",
    "redlock",
    "redis-cluster",
    "redis-sentinel",
    "postgres",
    "mysql",
    "redis",
    "redis-volatile",
    "memcached",
    "file",
    "memory",
];
const PAGE: &str = "docs/verify.md";
const USUAL_TIME: &str = "30s";
const USAGE: &str = "usage: cargo xtask verify [--release [TIME] | --matrix [TIME] [ENGINES] | --bars [ENGINES] | --wrong-ways]
ENGINES are names by commas; the others' rows of the table stay as they are";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked<'a> {
    /// For how long each fault is tried.
    matrix: Option<&'a str>,
    bars: bool,
    wrong_ways: bool,
    labs: Vec<&'a str>,
}

impl<'a> Asked<'a> {
    fn read(words: &[&'a str]) -> Option<Self> {
        let all = || Some(LABS.to_vec());
        let (matrix, bars, wrong_ways, labs) = match *words {
            ["--release"] => (Some(USUAL_TIME), true, true, all()),
            ["--release", time] => (Some(timed(time)?), true, true, all()),
            ["--matrix"] => (Some(USUAL_TIME), false, false, all()),
            ["--matrix", word] => {
                let time = timed(word);
                (time.or(Some(USUAL_TIME)), false, false, time.map_or_else(|| named(word), |_| all()))
            }
            ["--matrix", time, engines] => (Some(timed(time)?), false, false, named(engines)),
            ["--bars"] => (None, true, false, all()),
            ["--bars", engines] => (None, true, false, named(engines)),
            ["--wrong-ways"] => (None, false, true, all()),
            _ => return None,
        };
        Some(Self { matrix, bars, wrong_ways, labs: labs? })
    }
}

/// A time starts with a digit, and no engine does.
fn timed(word: &str) -> Option<&str> {
    word.starts_with(|first: char| first.is_ascii_digit()).then_some(word)
}

fn named(list: &str) -> Option<Vec<&str>> {
    list.split(',').map(|name| LABS.contains(&name).then_some(name)).collect()
}

/// Every engine under three cheap faults, and some wrong ways: what CI runs among its tests.
pub(crate) fn smoke(root: &Path) -> Outcome {
    Call::new("cargo test --workspace --all-features --test verify").step("verify, smoke tier", root)
}

/// What is shown before a release: all of it, or a part.
pub(crate) fn release(root: &Path, asked: &[&str]) -> Outcome {
    let Some(Asked { matrix, bars, wrong_ways, labs }) = Asked::read(asked) else {
        return Err(USAGE.to_owned());
    };
    Call::new("cargo build --release --bin tenure").step("build", root)?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let tenure = Tenure { program: target.join("release/tenure"), stories: target.join("verify") };
    let mut failed = Vec::new();
    let mut part = |name: &str, work: &dyn Fn() -> Result<Seen, String>| {
        let outcome = step(name, format!("cargo xtask verify {}", asked.join(" ")), || {
            let seen = work()?;
            // What stands there is read only now: others may have run, and written, meanwhile.
            write(&root.join(PAGE), name, &*seen.text)?;
            if seen.broken.is_empty() { Ok(()) } else { Err(seen.broken.join("; ")) }
        });
        failed.extend(outcome.err());
    };
    if let Some(time) = matrix {
        part("matrix", &|| every_fault(&tenure, time, &labs));
    }
    if bars {
        part("bars", &|| every_bar(&tenure, &labs));
    }
    if wrong_ways {
        part("wrong-ways", &|| every_wrong_way(&tenure));
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// What a part came to.
struct Seen {
    /// What the page is to say, from what it said before.
    text: Box<dyn Fn(&str) -> String>,
    /// What went wrong.
    broken: Vec<String>,
}

fn every_fault(tenure: &Tenure, time: &str, labs: &[&str]) -> Result<Seen, String> {
    let run = |lab| tenure.run(lab, &["--for", time]).map(|run| (time.to_owned(), run));
    let (runs, mut broken) = told(side_by_side(labs.to_vec(), run));
    let unwell = runs.iter().filter(|(_, run)| !run.is_well());
    broken.extend(unwell.map(|(_, run)| format!("{}: {}", run.lab, run.outcome)));
    Ok(Seen { text: Box::new(move |older| matrix::tables(&runs, older, &LABS)), broken })
}

fn every_bar(tenure: &Tenure, labs: &[&str]) -> Result<Seen, String> {
    let (shown, mut broken) = told(side_by_side(labs.to_vec(), |lab| bars::show(tenure, lab)));
    let shown: Vec<_> = shown.into_iter().flatten().collect();
    broken.extend(shown.iter().filter_map(bars::Shown::wrong));
    Ok(Seen { text: Box::new(move |older| bars::table(&shown, older, &LABS)), broken })
}

/// What was seen, and apart from it what could not be run: that one engine does not start must not hide the others.
fn told<T>(results: Vec<Result<T, String>>) -> (Vec<T>, Vec<String>) {
    let mut seen = Vec::new();
    let failed = results.into_iter().filter_map(|result| result.map(|one| seen.push(one)).err()).collect();
    (seen, failed)
}

fn every_wrong_way(tenure: &Tenure) -> Result<Seen, String> {
    let said = tenure.said(&["verify", "--mutants"])?;
    let broken = said.lines().filter(|line| line.contains("GOT AWAY")).map(str::to_owned).collect();
    Ok(Seen { text: Box::new(move |_| format!("```text\n{said}```\n")), broken })
}

/// Fills the room of a part with what comes of what stands there.
fn write(path: &Path, part: &str, text: &dyn Fn(&str) -> String) -> Outcome {
    let page = fs::read_to_string(path).map_err(|err| format!("{}: {err}", path.display()))?;
    let fresh =
        filled(&page, part, text).ok_or_else(|| format!("{} has no room for {part}", path.display()))?;
    fs::write(path, fresh).map_err(|err| format!("{}: {err}", path.display()))
}

fn filled(page: &str, part: &str, text: &dyn Fn(&str) -> String) -> Option<String> {
    let (before, older, after) = parts(page, part)?;
    Some(format!("{before}{}{after}", text(older)))
}

/// What stands before, in and after the room of a part.
fn parts<'a>(page: &'a str, part: &str) -> Option<(&'a str, &'a str, &'a str)> {
    let begin = format!("<!-- measured: cargo xtask verify --{part} -->\n");
    let from = page.find(&begin)? + begin.len();
    let to = from + page[from..].find("<!-- measured: end -->")?;
    Some((&page[..from], &page[from..to], &page[to..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_room_for_what_is_measured() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        for part in ["matrix", "bars", "wrong-ways"] {
            let fresh = filled(&page, part, &|_| "today\n".into()).unwrap();
            let again = filled(&fresh, part, &|older| format!("{older}tomorrow\n")).unwrap();
            assert!(again.contains("today\ntomorrow\n<!-- measured: end -->"));
            let begin = format!("<!-- measured: cargo xtask verify --{part} -->\n");
            assert!(fresh.contains(&format!("{begin}today\n<!-- measured: end -->")));
            assert_eq!(fresh.matches("<!-- measured:").count(), page.matches("<!-- measured:").count());
        }
        assert!(filled("nothing", "matrix", &|_| String::new()).is_none());
    }

    #[test]
    fn words_are_read_strictly() {
        let wrong: [&[&str]; 7] = [
            &["--all"],
            &["--bars", "30s"],
            &["--bars", "etcd,oracle"],
            &["--matrix", "etcd", "30s"],
            &["--release", "1s", "2s"],
            &["--wrong-ways", "etcd"],
            &["now"],
        ];
        for asked in wrong {
            assert_eq!(release(Path::new("."), asked).unwrap_err(), USAGE);
        }
    }

    #[test]
    fn a_part_may_be_asked_of_some_engines() {
        let asked = |words: &[&'static str]| Asked::read(words).unwrap();
        assert_eq!(asked(&["--bars", "etcd,file"]).labs, ["etcd", "file"]);
        let some = asked(&["--matrix", "9s", "redis"]);
        assert_eq!((some.matrix, some.labs, some.bars), (Some("9s"), vec!["redis"], false));
        assert_eq!(asked(&["--matrix", "redis"]).matrix, Some(USUAL_TIME));
        assert_eq!(asked(&["--matrix", "9s"]).labs, LABS);
        let all = asked(&["--release"]);
        assert!(all.matrix.is_some() && all.bars && all.wrong_ways && all.labs == LABS);
    }
}
