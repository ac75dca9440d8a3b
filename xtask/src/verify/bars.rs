//! What an engine of grade Fenced must show before a release: so many updates under so many pauses, and so many failovers,
//! with nothing lost.

use super::{
    run::{Counts, Run, Tenure},
    table::Table,
};

/// Updates that were acknowledged, and pauses of the holder among them.
const UPDATES: u64 = 10_000;
const PAUSES: u64 = 200;
const FAILOVERS: u64 = 50;
/// Runs until a bar is reached, each with a seed of its own; more than this, and the bar is missed.
const MOST_RUNS: u64 = 8;

/// What one engine has shown.
#[derive(Debug)]
pub(super) struct Shown {
    lab: String,
    pressed: Counts,
    /// None where nobody can be stopped beside others: all of it is one process.
    pauses: Option<u64>,
    /// By which fault, if the engine can fail over at all.
    failovers: Option<(String, Counts)>,
    /// The first thing that went wrong.
    wrong: Option<String>,
}

/// Runs an engine until it has shown enough. Says nothing of one whose grade promises less.
pub(super) fn show(tenure: &Tenure, lab: &str) -> Result<Option<Shown>, String> {
    let look = tenure.run(lab, &["--faults", "none", "--for", "1s"])?;
    if look.grade != "Fenced" {
        return Ok(None);
    }
    let mut shown =
        Shown { lab: lab.to_owned(), pressed: Counts::default(), pauses: None, failovers: None, wrong: None };
    for seed in 1..=MOST_RUNS {
        // Several locks, so that many holders can be stopped at once, and more processes than locks, so that others go on
        // meanwhile.
        let many = ["--for", "30s", "--workers", "16", "--keys", "6"];
        let run = pressed(tenure, lab, "none,pause,failpoint", seed, &many)?;
        shown.press(&run);
        if shown.is_pressed() || shown.wrong.is_some() {
            break;
        }
    }
    // A leader that is killed is a failover; where there is none, the one server that comes back with what it wrote.
    for fault in ["leader-kill", "engine-kill"] {
        for seed in 1..=MOST_RUNS {
            let run = pressed(tenure, lab, fault, seed, &["--for", "60s"])?;
            if !shown.fail_over(&run) || shown.has_failed_over() || shown.wrong.is_some() {
                break;
            }
        }
        if shown.failovers.is_some() {
            break;
        }
    }
    if shown.wrong.is_none() && !(shown.is_pressed() && shown.has_failed_over()) {
        shown.wrong = Some(format!("not enough after {MOST_RUNS} runs"));
    }
    Ok(Some(shown))
}

fn pressed(tenure: &Tenure, lab: &str, faults: &str, seed: u64, more: &[&str]) -> Result<Run, String> {
    let seed = seed.to_string();
    let usual = ["--faults", faults, "--seed", &seed];
    tenure.run(lab, &[&usual, more].concat())
}

impl Shown {
    fn press(&mut self, run: &Run) {
        self.pressed.add(run.total());
        if run.cells.iter().any(|cell| cell.fault != "none" && !cell.skipped) {
            *self.pauses.get_or_insert_default() += run.total().hits;
        }
        self.judge(run);
    }

    /// Whether this engine can be struck like that at all.
    fn fail_over(&mut self, run: &Run) -> bool {
        let Some(cell) = run.cells.iter().find(|cell| !cell.skipped) else { return false };
        let (_, counts) = self.failovers.get_or_insert_with(|| (cell.fault.clone(), Counts::default()));
        counts.add(cell.counts);
        self.judge(run);
        true
    }

    fn judge(&mut self, run: &Run) {
        if self.wrong.is_none() && (!run.is_well() || run.total().lost > 0) {
            let broken = run
                .cells
                .iter()
                .find(|cell| !["held", "excused", "skipped"].contains(&cell.outcome.as_str()));
            let fault = broken.map_or("a fault", |cell| cell.fault.as_str());
            self.wrong = Some(format!("{} under {fault}", run.outcome));
        }
    }

    fn is_pressed(&self) -> bool {
        self.pressed.updates >= UPDATES && self.pauses.is_none_or(|pauses| pauses >= PAUSES)
    }

    fn has_failed_over(&self) -> bool {
        self.failovers.as_ref().is_none_or(|(_, counts)| counts.hits >= FAILOVERS)
    }

    /// What went wrong, with the engine's name.
    pub(super) fn wrong(&self) -> Option<String> {
        self.wrong.as_ref().map(|wrong| format!("{}: {wrong}", self.lab))
    }

    fn row(&self) -> Vec<String> {
        let Self { lab, pressed: all, pauses, failovers, wrong } = self;
        let over = failovers.as_ref().map_or_else(
            || "nothing to fail over".to_owned(),
            |(fault, counts)| {
                format!("{} × {fault}, {} updates, {} lost", counts.hits, counts.updates, counts.lost)
            },
        );
        let pauses = pauses.map_or_else(|| "nobody to pause".to_owned(), |pauses| pauses.to_string());
        let counts = [all.updates, all.lost, all.refused, all.plain_lost].map(|n| n.to_string());
        let verdict = wrong.as_deref().unwrap_or("held").to_owned();
        let first = [lab.clone(), all.grants.to_string(), pauses];
        first.into_iter().chain(counts).chain([over, verdict]).collect()
    }
}

/// The table for people. Engines that were not run now stay as the text that was there has them.
pub(super) fn table(all: &[Shown], older: &str, names: &[&str]) -> String {
    let mut table = Table::new(&[
        "engine",
        "grants",
        "pauses that hit",
        "updates behind the fence",
        "lost",
        "late writes refused",
        "lost without a fence",
        "failovers",
        "",
    ]);
    all.iter().for_each(|shown| table.push(shown.row()));
    table.beside(Table::read_all(older).first(), names).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::run::example;

    fn shown() -> Shown {
        Shown {
            lab: "etcd".to_owned(),
            pressed: Counts::default(),
            pauses: None,
            failovers: None,
            wrong: None,
        }
    }

    #[test]
    fn a_bar_is_reached_by_the_sum_of_all_runs() {
        let mut shown = shown();
        let counts = Counts { updates: 5_000, hits: 150, ..Counts::default() };
        let run = example("etcd", &[("pause", "held", counts)]);
        shown.press(&run);
        assert!(!shown.is_pressed());
        shown.press(&run);
        assert!(shown.is_pressed() && shown.wrong.is_none());
        assert_eq!(shown.row()[2..5], ["300", "10000", "0"]);
        let text = table(&[shown], "", &["etcd"]);
        assert!(
            text.contains("| etcd | 0 | 300 | 10000 | 0 | 0 | 0 | nothing to fail over | held |"),
            "{text}"
        );
    }

    #[test]
    fn where_nobody_can_be_paused_updates_are_enough() {
        let mut shown = shown();
        let counts = Counts { updates: 10_000, ..Counts::default() };
        let skipped = ("pause", "skipped", Counts::default());
        shown.press(&example("memory", &[("none", "held", counts), skipped]));
        assert!(shown.is_pressed() && shown.row()[2] == "nobody to pause", "{:?}", shown.row());
    }

    #[test]
    fn failovers_count_where_there_is_something_to_fail_over() {
        let mut shown = shown();
        let skipped = ("leader-kill", "skipped", Counts::default());
        assert!(!shown.fail_over(&example("file", &[skipped])) && shown.has_failed_over());
        let killed = ("engine-kill", "held", Counts { hits: 49, ..Counts::default() });
        assert!(shown.fail_over(&example("mysql", &[killed])));
        assert!(!shown.has_failed_over() && shown.row()[7].starts_with("49 × engine-kill"));
    }

    #[test]
    fn what_was_lost_or_not_held_is_wrong() {
        let lost = Counts { lost: 1, ..Counts::default() };
        let mut one = shown();
        one.press(&example("etcd", &[("pause", "held", lost)]));
        assert!(one.wrong.is_some(), "a lost update is no success, whatever the run says");
        let mut other = shown();
        let mut run = example("etcd", &[("pause", "inconclusive", Counts::default())]);
        run.outcome = "inconclusive".to_owned();
        other.press(&run);
        assert_eq!(other.wrong.as_deref(), Some("inconclusive under pause"));
    }
}
