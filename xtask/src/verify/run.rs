//! One run of `tenure verify`, as its JSON tells it.

use std::{fs, path::PathBuf, process::Command};

use serde_json::Value;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) lab: String,
    pub(super) version: String,
    pub(super) topology: String,
    pub(super) grade: String,
    pub(super) outcome: String,
    pub(super) cells: Vec<Cell>,
}

/// What one fault came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) fault: String,
    pub(super) skipped: bool,
    pub(super) outcome: String,
    pub(super) counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) grants: u64,
    pub(super) updates: u64,
    pub(super) lost: u64,
    pub(super) refused: u64,
    pub(super) plain_lost: u64,
    pub(super) hits: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        self.grants += other.grants;
        self.updates += other.updates;
        self.lost += other.lost;
        self.refused += other.refused;
        self.plain_lost += other.plain_lost;
        self.hits += other.hits;
    }
}

impl Run {
    /// Whether nothing that the engine's grade promises was broken, and enough was tried.
    pub(super) fn is_well(&self) -> bool {
        ["held", "excused"].contains(&self.outcome.as_str())
    }

    pub(super) fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.cells.iter().for_each(|cell| total.add(cell.counts));
        total
    }

    fn read(lab: &str, said: &str) -> Option<Self> {
        let run = said.lines().rev().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line.get("run").cloned()
        })?;
        let text = |name: &str| Some(run.get(name)?.as_str()?.to_owned());
        let cells = run.get("cells")?.as_array()?.iter().map(Cell::read).collect::<Option<_>>()?;
        Some(Self {
            lab: lab.to_owned(),
            version: text("version")?,
            topology: text("topology")?,
            grade: text("grade")?,
            outcome: text("outcome")?,
            cells,
        })
    }
}

impl Cell {
    fn read(cell: &Value) -> Option<Self> {
        let number = |name: &str| cell.get(name)?.as_u64();
        let text = |name: &str| Some(cell.get(name)?.as_str()?.to_owned());
        Some(Self {
            fault: text("fault")?,
            skipped: !cell.get("skipped")?.is_null(),
            outcome: text("outcome")?,
            counts: Counts {
                grants: number("grants")?,
                updates: number("updates")?,
                lost: number("lost")?,
                refused: number("refused")?,
                plain_lost: number("plain_lost")?,
                hits: number("hits")?,
            },
        })
    }
}

/// The program that is run.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    pub(super) program: PathBuf,
    /// Where all that was said is kept if something was broken.
    pub(super) stories: PathBuf,
}

impl Tenure {
    /// Runs `tenure verify --lab LAB --json` with these words.
    pub(super) fn run(&self, lab: &str, words: &[&str]) -> Result<Run, String> {
        let mut args = vec!["verify", "--json", "--lab", lab];
        args.extend(words);
        let said = self.said(&args)?;
        let run =
            Run::read(lab, &said).ok_or_else(|| format!("tenure {}: it told no outcome", args.join(" ")))?;
        // At once: whoever interrupts an hour of this keeps what was seen.
        println!("    {lab}, {}: {}, {:?}", words.join(" "), run.outcome, run.total());
        // What cannot be done on this engine has no story.
        if !run.is_well() && !run.cells.iter().all(|cell| cell.skipped) {
            self.keep(&args, &said)?;
        }
        Ok(run)
    }

    /// Keeps the story of what was broken: another run may not break it again.
    fn keep(&self, args: &[&str], said: &str) -> Result<(), String> {
        let name = args[2..].join(" ").replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = self.stories.join(format!("{}.json", name.trim_start_matches('-')));
        let kept = fs::create_dir_all(&self.stories).and_then(|()| fs::write(&path, said));
        kept.map_err(|err| format!("{}: {err}", path.display()))?;
        println!("    its story is in {}", path.display());
        Ok(())
    }

    /// What it prints; what it complains of is shown as it comes.
    pub(super) fn said(&self, args: &[&str]) -> Result<String, String> {
        println!("    tenure {}", args.join(" "));
        let program = &self.program;
        let done = Command::new(program).args(args).output();
        let done = done.map_err(|err| format!("{}: {err}", program.display()))?;
        eprint!("{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).map_err(|err| format!("tenure {}: {err}", args.join(" ")))
    }
}

#[cfg(test)]
pub(super) fn example(lab: &str, cells: &[(&str, &str, Counts)]) -> Run {
    let cells = cells.iter().map(|(fault, outcome, counts)| Cell {
        fault: (*fault).to_owned(),
        skipped: *outcome == "skipped",
        outcome: (*outcome).to_owned(),
        counts: *counts,
    });
    Run {
        lab: lab.to_owned(),
        version: "1.0".to_owned(),
        topology: "one server".to_owned(),
        grade: "Fenced".to_owned(),
        outcome: "held".to_owned(),
        cells: cells.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_from_its_last_word() {
        let cell = r#"{"fault":"kill","skipped":null,"outcome":"held","grants":5,"updates":4,"lost":0,"refused":1,"plain_lost":2,"hits":3}"#;
        let said = format!(
            "{{\"event\":\"cell\",\"cell\":{cell}}}\n{{\"event\":\"run\",\"run\":{{\"version\":\"7\",\"topology\":\"alone\",\"grade\":\"Fenced\",\"outcome\":\"excused\",\"cells\":[{cell}]}}}}\n"
        );
        let run = Run::read("redis", &said).unwrap();
        assert!(run.is_well() && run.lab == "redis" && !run.cells[0].skipped);
        assert_eq!(
            run.total(),
            Counts { grants: 5, updates: 4, lost: 0, refused: 1, plain_lost: 2, hits: 3 }
        );
        assert!(
            Run::read("redis", &said.replace("\"lost\"", "\"last\"")).is_none(),
            "a missing count is no zero"
        );
        assert!(Run::read("redis", "").is_none());
        assert!(!Run { outcome: "inconclusive".to_owned(), ..run }.is_well());
    }
}
