//! Every engine under every fault, as one table.

use super::{
    run::{Cell, Run},
    table::Table,
};

/// What became of each fault on each engine, then what each engine is. Engines that were not run now stay as the text that
/// was there has them.
pub(super) fn tables(runs: &[(String, Run)], older: &str, names: &[&str]) -> String {
    let older = Table::read_all(older);
    let mut head = vec!["fault".to_owned()];
    let faults = runs.iter().flat_map(|(_, run)| &run.cells).map(|cell| &cell.fault).fold(Vec::new(), once);
    head.extend(faults.iter().map(|fault| format!("`{fault}`")));
    let mut outcomes = Table::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    let mut engines = Table::new(&[
        "engine",
        "version",
        "topology",
        "grade",
        "each fault for",
        "grants",
        "faults that hit",
        "updates behind the fence",
        "lost",
        "lost without a fence",
        "",
    ]);
    for (time, run) in runs {
        let Run { lab, version, topology, grade, outcome, .. } = run;
        let cell = |fault: &&String| run.cells.iter().find(|cell| cell.fault == **fault);
        let words = faults.iter().map(|fault| cell(fault).map_or_else(|| "–".to_owned(), word));
        outcomes.push([lab.clone()].into_iter().chain(words).collect());
        let all = run.total();
        let said = [lab, name(version), topology, grade, time].map(str::to_owned);
        let counts = [all.grants, all.hits, all.updates, all.lost, all.plain_lost].map(|n| n.to_string());
        let outcome = if outcome == "excused" { "as said" } else { outcome };
        engines.push(said.into_iter().chain(counts).chain([outcome.to_owned()]).collect());
    }
    let turned = older.first().map(Table::turned);
    let outcomes = outcomes.beside(turned.as_ref(), names).turned();
    format!("{outcomes}\n{}", engines.beside(older.get(1), names))
}

/// The version alone, of what an engine's doctor says of it.
fn name(version: &str) -> &str {
    let of_one = version.strip_prefix("127.0.0.1:").and_then(|rest| Some(rest.split_once(' ')?.1));
    let bare = of_one.map_or(version, |rest| rest.strip_prefix("is ").unwrap_or(rest));
    bare.split([',', ':']).next().unwrap_or(bare)
}

fn once<'a>(mut seen: Vec<&'a String>, fault: &'a String) -> Vec<&'a String> {
    if !seen.contains(&fault) {
        seen.push(fault);
    }
    seen
}

/// One word, and how many faults are behind it.
fn word(cell: &Cell) -> String {
    let hits = cell.counts.hits;
    match cell.outcome.as_str() {
        "skipped" => "–".to_owned(),
        "held" if cell.fault == "none" => "held".to_owned(),
        "held" => format!("held, {hits}"),
        "excused" => format!("as said, {hits}"),
        other => format!("**{other}**, {hits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::run::{Counts, example};

    #[test]
    fn a_row_is_a_fault_and_a_column_an_engine() {
        let hits = Counts { hits: 7, ..Counts::default() };
        let runs = [
            example("file", &[("none", "held", Counts::default()), ("kill", "held", hits)]),
            example(
                "redis",
                &[("kill", "refuted", hits), ("flush", "excused", hits), ("sleep", "skipped", hits)],
            ),
        ];
        let runs = runs.map(|run| ("9s".to_owned(), run));
        let names = ["file", "redis"];
        let text = tables(&runs, "", &names);
        assert!(text.contains("| fault | file | redis |\n|---|---|---|\n"), "{text}");
        assert!(text.contains("| `none` | held | – |\n| `kill` | held, 7 | **refuted**, 7 |\n"), "{text}");
        assert!(text.contains("| `flush` | – | as said, 7 |\n| `sleep` | – | – |\n"), "{text}");
        assert!(text.contains("| redis | 1.0 | one server | Fenced | 9s | 0 | 21 |"), "{text}");
    }

    #[test]
    fn a_version_is_no_more_than_that() {
        assert_eq!(name("127.0.0.1:30615 is ZooKeeper 3.8.0, follower"), "ZooKeeper 3.8.0");
        assert_eq!(name("127.0.0.1:24107: Redis 7.0.15"), "Redis 7.0.15");
        assert_eq!(name("etcd 3.4.23: upgrade to 3.4.42"), "etcd 3.4.23");
        assert_eq!(
            name("PostgreSQL 15.18 (Debian 15.18-0+deb12u1)"),
            "PostgreSQL 15.18 (Debian 15.18-0+deb12u1)"
        );
    }

    #[test]
    fn a_run_of_one_engine_leaves_the_others() {
        let run = |lab: &str, hits| {
            let counts = Counts { hits, ..Counts::default() };
            ("9s".to_owned(), example(lab, &[("none", "held", Counts::default()), ("kill", "held", counts)]))
        };
        let names = ["file", "redis"];
        let text = tables(&[run("file", 7), run("redis", 8)], "Not run yet.", &names);
        let text = tables(&[run("redis", 9)], &text, &names);
        assert_eq!(text, tables(&[run("file", 7), run("redis", 9)], "", &names));
    }
}
