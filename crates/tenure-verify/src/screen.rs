//! What people see of a run: a live line on a terminal, plain lines elsewhere, JSON for scripts, and the table at the end.

use std::io::Write;

use serde_json::{Value, json};

use crate::{
    CellResult, FaultKind, Outcome, RunResult, Subject, Tick, Watch,
    checks::{Promise, Story, Verdict},
    history::{Done, Freed, Nanos, What},
    mutants::Caught,
};

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// One line for each cell, once it has ended.
#[derive(Debug)]
pub struct Plain<W>(pub W);

impl<W: Write> Watch for Plain<W> {
    fn starts(&mut self, subject: &Subject) {
        // Somebody who does not listen any more is no reason to stop.
        let _ = writeln!(self.0, "{}\n", headline(subject));
    }

    fn cell_ends(&mut self, cell: &CellResult) {
        let _ = writeln!(self.0, "{}", line(cell, false)).and_then(|()| self.0.flush());
    }
}

/// The same, with a line for the cell that runs.
#[derive(Debug)]
pub struct Live<W: Write> {
    out: W,
    width: usize,
}

impl<W: Write> Live<W> {
    /// A screen so wide.
    pub const fn new(out: W, width: usize) -> Self {
        Self { out, width }
    }

    fn replace(&mut self, text: &str, end: &str) {
        let _ = write!(self.out, "\r\x1b[2K{text}{PLAIN}{end}").and_then(|()| self.out.flush());
    }
}

impl<W: Write> Watch for Live<W> {
    fn starts(&mut self, subject: &Subject) {
        let _ = writeln!(self.out, "{}\n", headline(subject));
    }

    fn cell_starts(&mut self, fault: FaultKind) {
        self.replace(&format!("{fault:<13}{DIM} ..."), "");
    }

    fn tick(&mut self, tick: Tick) {
        const CELLS: usize = 20;
        let share = tick.elapsed.as_secs_f64() / tick.time.as_secs_f64().max(0.001);
        let full = ((share * CELLS as f64) as usize).min(CELLS);
        let bar = "█".repeat(full) + &"░".repeat(CELLS - full);
        let text = format!(
            "{:<13} {bar} {:>4.0} s  {:>6} grants  {:>4} faults",
            tick.fault.to_string(),
            tick.elapsed.as_secs_f64(),
            tick.grants,
            tick.faults
        );
        let text: String = text.chars().take(self.width.saturating_sub(1)).collect();
        self.replace(&text, "");
    }

    fn cell_ends(&mut self, cell: &CellResult) {
        self.replace(&line(cell, true), "\n");
    }
}

/// One JSON object for each cell, and one for the run.
#[derive(Debug)]
pub struct Json<W>(pub W);

impl<W: Write> Watch for Json<W> {
    fn cell_ends(&mut self, cell: &CellResult) {
        let _ = writeln!(self.0, "{}", json!({ "event": "cell", "cell": cell_json(cell) }));
    }
}

impl<W: Write> Json<W> {
    /// Says what the whole run came to.
    pub fn outcome(&mut self, result: &RunResult) {
        let _ = writeln!(self.0, "{}", json!({ "event": "run", "run": run_json(result) }));
    }
}

/// What a run is about, in a line.
#[must_use]
pub fn headline(subject: &Subject) -> String {
    let Subject { engine, version, topology, guarantees, ttl, seed, workers, tried: (faults, time) } =
        subject;
    let grade = guarantees.grade;
    format!(
        "{engine}: {version}, {topology}; grade {grade}, lease {ttl:?}, {workers} workers, seed {seed}, {faults} faults of {time:?}"
    )
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Excused => "as said",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Refuted => "REFUTED",
        Outcome::Skipped => "-",
    }
}

fn line(cell: &CellResult, colours: bool) -> String {
    let fault = cell.fault;
    if let Some(why) = &cell.skipped {
        let (on, off) = if colours { (DIM, PLAIN) } else { ("", "") };
        return format!("{on}{fault:<13} {:<13} {why}{off}", "-");
    }
    let outcome = cell.outcome();
    let colour = match outcome {
        _ if !colours => "",
        Outcome::Held => GREEN,
        Outcome::Excused | Outcome::Inconclusive => YELLOW,
        Outcome::Refuted => RED,
        Outcome::Skipped => DIM,
    };
    let off = if colours { PLAIN } else { "" };
    let counts = &cell.counts;
    let mut text = format!(
        "{fault:<13} {colour}{:<13}{off} {:>6} grants {:>4} hits  fenced: {} lost of {}, {} refused; plain: {} lost",
        word(outcome),
        counts.grants,
        counts.hits,
        counts.lost,
        counts.updates,
        counts.refused,
        counts.plain_lost,
    );
    if counts.stalls > 0 {
        let stalls = counts.stalls;
        text.push_str(&format!(
            "\n  the machine let workers stand still {stalls} times, who were given the time"
        ));
    }
    for (promise, verdict) in cell.report.iter().flat_map(|report| &report.verdicts) {
        let excuse = cell.excused.iter().find(|(excused, _)| excused == promise);
        match (verdict, excuse) {
            (Verdict::Refuted { story, .. }, Some((_, why))) => {
                text.push_str(&format!("\n  {promise}: {} ({why})", story.why));
            }
            (Verdict::Refuted { story, .. }, None) => {
                text.push_str(&format!("\n  {colour}{promise}: {}{off}", story.why));
            }
            (Verdict::Inconclusive { why }, _) if *promise == Promise::Bit => {
                text.push_str(&format!("\n  {promise}: {why}"));
                if let Some(why) = &cell.missed {
                    text.push_str(&format!("\n  the last one that did not: {why}"));
                }
            }
            _ => {}
        }
    }
    text
}

/// Promise by promise, over all cells; then the shortest story of each that was broken.
#[must_use]
pub fn table(result: &RunResult) -> String {
    let mut text = String::new();
    for promise in Promise::ALL {
        let mut outcome = None;
        let (mut ops, mut hits, mut in_cells) = (0, 0, Vec::new());
        for cell in &result.cells {
            let Some(verdict) = verdict_of(cell, promise) else { continue };
            let excused = cell.excused.iter().any(|(excused, _)| *excused == promise);
            let this = match verdict {
                Verdict::Held { ops: more, .. } => {
                    ops += more;
                    hits += cell.counts.hits;
                    Outcome::Held
                }
                Verdict::Refuted { .. } if excused => Outcome::Excused,
                Verdict::Refuted { .. } => Outcome::Refuted,
                Verdict::Inconclusive { .. } => Outcome::Inconclusive,
            };
            if this > Outcome::Held {
                in_cells.push(cell.fault.to_string());
            }
            outcome = outcome.max(Some(this));
        }
        let Some(outcome) = outcome else { continue };
        // A promise that nothing could have broken was not kept, but not asked for.
        let word = if outcome == Outcome::Held && ops == 0 { "not tried" } else { word(outcome) };
        let under =
            if in_cells.is_empty() { String::new() } else { format!("  under {}", in_cells.join(", ")) };
        text.push_str(&format!(
            "{:<36}{:<13} {ops:>7} operations {hits:>5} hits{under}\n",
            promise.to_string(),
            word
        ));
    }
    for (promise, cell, told) in stories(result) {
        text.push_str(&format!("\n{promise}, under {}:\n{}", cell.fault, story(told)));
    }
    text
}

fn verdict_of(cell: &CellResult, promise: Promise) -> Option<&Verdict> {
    cell.report
        .iter()
        .flat_map(|report| &report.verdicts)
        .find(|(of, _)| *of == promise)
        .map(|(_, verdict)| verdict)
}

/// The shortest story of each promise that was made and broken.
pub(crate) fn stories(result: &RunResult) -> Vec<(Promise, &CellResult, &Story)> {
    let of = |promise: Promise| {
        let broken = result.cells.iter().filter(move |cell| cell.broken().contains(&promise));
        let told = broken.filter_map(move |cell| match verdict_of(cell, promise)? {
            Verdict::Refuted { story, .. } => Some((promise, cell, story)),
            Verdict::Held { .. } | Verdict::Inconclusive { .. } => None,
        });
        told.min_by_key(|(_, _, story)| story.events.len() + story.effects.len())
    };
    Promise::ALL.into_iter().filter_map(of).collect()
}

/// A story, line by line, with times from its beginning.
#[must_use]
pub fn story(story: &Story) -> String {
    let mut lines: Vec<(Nanos, String)> = Vec::new();
    for event in &story.events {
        lines.push((event.at, format!("worker {:<3} {}", event.worker, words(&event.what))));
    }
    for effect in &story.effects {
        let what = match &effect.what {
            Done::Claim => "claim".to_owned(),
            Done::Read => "read".to_owned(),
            Done::Write { lost } if lost.is_empty() => "write".to_owned(),
            Done::Write { lost } => format!("write that loses {} updates", lost.len()),
        };
        let fence = effect.fence.map(|fence| format!(" with fence {fence}")).unwrap_or_default();
        let took = if effect.accepted { "took" } else { "refused" };
        let register = format!("{:?}", effect.register).to_lowercase();
        lines.push((
            effect.at,
            format!("the {register} register {took} worker {}'s {what}{fence}", effect.worker),
        ));
    }
    for fault in &story.faults {
        let whom = fault.worker.map_or("the engine".into(), |worker| format!("worker {worker}"));
        lines.push((fault.from, format!("FAULT: {} of {whom} begins", fault.kind)));
        lines.push((fault.to, format!("FAULT: {} of {whom} is over", fault.kind)));
    }
    lines.sort();
    let start = lines.first().map_or(0, |(at, _)| *at);
    let mut text = format!("  {}\n", story.why);
    for (at, line) in lines {
        text.push_str(&format!("  {:>10.3} ms  {line}\n", (at - start) as f64 / 1e6));
    }
    text
}

fn words(what: &What) -> String {
    let fence = |fence: &Option<u64>| fence.map(|fence| format!(" with fence {fence}")).unwrap_or_default();
    match what {
        What::Asked { mode, patience } => format!("asks ({mode:?}, for {:.0} ms)", *patience as f64 / 1e6),
        What::Granted { fence: number, .. } => format!("is told that it holds{}", fence(number)),
        What::Reentered { fence: number } => format!("goes in again{}", fence(number)),
        What::NotGranted => "is told that it does not get it".into(),
        What::Failed { maybe, why } => {
            format!("is told of an error{}: {why}", if *maybe { ", and may hold" } else { "" })
        }
        What::Believes { .. } => "looks, and believes to hold".into(),
        What::Lost => "is told that its lock is lost".into(),
        What::Left => "does nothing more under it".into(),
        What::ReleaseAsked => "gives it back".into(),
        What::Released { freed: Freed::Yes } => "is told that it was its own until then".into(),
        What::Released { freed: Freed::NotHeld } => "is told that it was not its own any more".into(),
        What::Released { freed: Freed::Unknown } => "is not told what became of that".into(),
    }
}

pub(crate) fn cell_json(cell: &CellResult) -> Value {
    let counts = &cell.counts;
    let verdicts: Vec<Value> = cell
        .report
        .iter()
        .flat_map(|report| &report.verdicts)
        .map(|(promise, verdict)| {
            let excused = cell.excused.iter().find(|(excused, _)| excused == promise).map(|(_, why)| *why);
            match verdict {
                Verdict::Held { ops, hits } => {
                    json!({ "promise": promise.code(), "verdict": "held", "operations": ops, "hits": hits })
                }
                Verdict::Refuted { story, .. } => {
                    json!({ "promise": promise.code(), "verdict": "refuted", "excused": excused, "story": story })
                }
                Verdict::Inconclusive { why } => {
                    json!({ "promise": promise.code(), "verdict": "inconclusive", "why": why })
                }
            }
        })
        .collect();
    json!({
        "fault": cell.fault.to_string(),
        "skipped": cell.skipped,
        "outcome": format!("{:?}", cell.outcome()).to_lowercase(),
        "seconds": cell.seconds,
        "grants": counts.grants,
        "updates": counts.updates,
        "lost": counts.lost,
        "refused": counts.refused,
        "plain_updates": counts.plain,
        "plain_lost": counts.plain_lost,
        "faults": counts.faults,
        "hits": counts.hits,
        "stalls": counts.stalls,
        "missed": cell.missed,
        "verdicts": verdicts,
    })
}

fn run_json(result: &RunResult) -> Value {
    let Subject { engine, version, topology, guarantees, ttl, seed, workers, .. } = &result.subject;
    json!({
        "engine": engine,
        "version": version,
        "topology": topology,
        "grade": guarantees.grade.to_string(),
        "ttl_ms": ttl.as_millis() as u64,
        "seed": seed,
        "workers": workers,
        "interrupted": result.interrupted.is_some(),
        "outcome": format!("{:?}", result.outcome()).to_lowercase(),
        "cells": result.cells.iter().map(cell_json).collect::<Vec<_>>(),
    })
}

/// What became of a wrong way, in a line.
#[must_use]
pub fn mutants_line(caught: &Caught) -> String {
    let Caught { mutant, by, seconds, cell } = caught;
    let by: Vec<_> = by.iter().map(|promise| promise.code()).collect();
    let what = if by.is_empty() {
        format!(
            "GOT AWAY for {seconds:.0} s with {} grants and {} hits",
            cell.counts.grants, cell.counts.hits
        )
    } else {
        format!("refuted by {:<9} in {seconds:>4.1} s", by.join(", "))
    };
    let (fault, lab) = (mutant.fault().to_string(), mutant.lab().to_string());
    format!("{:<23} {what}  on {lab}, under {fault}: {}\n", mutant.to_string(), mutant.story())
}

/// The same, for scripts.
#[must_use]
pub fn mutants_json(caught: &Caught) -> String {
    let Caught { mutant, by, seconds, cell } = caught;
    let by: Vec<_> = by.iter().map(|promise| promise.code()).collect();
    let json = json!({
        "event": "mutant",
        "mutant": mutant.to_string(),
        "story": mutant.story(),
        "lab": mutant.lab().to_string(),
        "refuted_by": by,
        "seconds": seconds,
        "cell": cell_json(cell),
    });
    format!("{json}\n")
}
