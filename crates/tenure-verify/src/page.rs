//! The run as one page: verdicts, and a timeline of every lock, with nothing to load.

use std::collections::BTreeMap;

use crate::{
    CellResult, Outcome, RunResult,
    checks::{Promise, Verdict},
    history::{Event, History, KeyId, Nanos, OpId, Wanted, What, WorkerId},
    screen::{headline, stories, story},
};

/// The width of a timeline, without the names before it.
const WIDTH: f64 = 1_000.0;
const LEFT: f64 = 90.0;
/// The height of a worker's row.
const ROW: f64 = 16.0;
/// How much of a cell is shown: where the first fault hits, or the promise breaks.
const WINDOW: Nanos = 4_000_000_000;

/// Writes the page.
#[must_use]
pub fn page(result: &RunResult) -> String {
    let verdict = match result.outcome() {
        Outcome::Held => "Every promise of its grade that was tried held, within this run.",
        Outcome::Excused => "Every promise of its grade that was tried held; what broke is not promised.",
        Outcome::Refuted => "A promise was broken.",
        Outcome::Inconclusive | Outcome::Skipped => "Inconclusive: too few faults hit.",
    };
    let told: String = stories(result)
        .into_iter()
        .map(|(promise, cell, told)| {
            let (promise, fault) = (promise.to_string(), cell.fault.to_string());
            format!(
                "<section class=story><h2>{} broken, under {fault}</h2><pre>{}</pre></section>\n",
                escaped(&promise),
                escaped(&story(told))
            )
        })
        .collect();
    format!(
        include_str!("page.html"),
        headline = escaped(&headline(&result.subject)),
        class = class(result.outcome()),
        verdict = verdict,
        rows = result.cells.iter().map(row).collect::<String>(),
        heads = Promise::ALL
            .map(|promise| { format!("<th title=\"{}\">{}</th>", promise.words(), promise.code()) })
            .concat(),
        promises = Promise::ALL
            .map(|promise| { format!("<li><b>{}</b> {}</li>", promise.code(), promise.words()) })
            .concat(),
        stories = told,
        cells = result.cells.iter().filter(|cell| cell.report.is_some()).map(timelines).collect::<String>(),
    )
}

const fn class(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::Excused => "excused",
        Outcome::Inconclusive => "inconclusive",
        Outcome::Refuted => "refuted",
        Outcome::Skipped => "skipped",
    }
}

fn row(cell: &CellResult) -> String {
    let (fault, counts) = (cell.fault, &cell.counts);
    if let Some(why) = &cell.skipped {
        let columns = Promise::ALL.len() + 5;
        return format!(
            "<tr class=skipped><th>{fault}</th><td colspan={columns}>{}</td></tr>\n",
            escaped(why)
        );
    }
    let verdicts = cell.report.iter().flat_map(|report| &report.verdicts);
    let marks: String = verdicts
        .map(|(promise, verdict)| {
            let excused = cell.excused.iter().any(|(excused, _)| excused == promise);
            let (class, mark, title) = match verdict {
                Verdict::Held { ops: 0, .. } => ("skipped", "·", "nothing could have broken it".into()),
                Verdict::Held { ops, .. } => ("held", "✓", format!("held over {ops} operations")),
                Verdict::Refuted { story, .. } if excused => {
                    ("excused", "✗", format!("not promised: {}", story.why))
                }
                Verdict::Refuted { story, .. } => ("refuted", "✗", story.why.clone()),
                Verdict::Inconclusive { why } => ("inconclusive", "?", why.clone()),
            };
            format!("<td class={class} title=\"{}\">{mark}</td>", escaped(&title))
        })
        .collect();
    format!(
        "<tr><th><a href=\"#{fault}\">{fault}</a></th>{marks}<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
        counts.grants, counts.hits, counts.lost, counts.refused, counts.plain_lost
    )
}

/// When something is to be seen: around a broken promise, else around the first fault that hit.
fn window(cell: &CellResult) -> (Nanos, Nanos) {
    let history = &cell.history;
    let first = history.events.iter().map(|event| event.at).min().unwrap_or_default();
    let broken = cell.report.iter().find_map(|report| report.refuted()).map(|(_, story)| story.at);
    let hit = history.faults.iter().filter(|fault| fault.hit.is_some()).map(|fault| fault.from).min();
    let middle = broken.or(hit.map(|from| from + WINDOW / 3)).unwrap_or(first + WINDOW / 2);
    let from = middle.saturating_sub(WINDOW / 2).max(first);
    (from, from + WINDOW)
}

fn timelines(cell: &CellResult) -> String {
    let (from, to) = window(cell);
    let history = &cell.history;
    let locks: String =
        (0..history.keys.len()).map(|key| timeline(history, key as KeyId, from, to)).collect();
    let hits: String = history
        .faults
        .iter()
        .filter(|fault| fault.from < to && fault.to > from)
        .filter_map(|fault| fault.hit.as_ref().map(|hit| (fault, hit)))
        .map(|(fault, hit)| {
            let whom = fault.worker.map_or("the engine".into(), |worker| format!("worker {worker}"));
            let at = (fault.from.saturating_sub(from)) as f64 / 1e9;
            format!("<li>{at:.2} s, {whom}: {}</li>", escaped(hit))
        })
        .collect();
    format!(
        "<section id=\"{fault}\"><h2>{fault} <small>{story}</small></h2>{locks}<details><summary>What hit in these seconds</summary><ul>{hits}</ul></details></section>\n",
        fault = cell.fault,
        story = cell.fault.story(),
    )
}

/// One lock: a row for each worker that wanted it, waiting and holding as bars, faults as marks.
fn timeline(history: &History, key: KeyId, from: Nanos, to: Nanos) -> String {
    let mut stays: BTreeMap<(WorkerId, OpId), Vec<&Event>> = BTreeMap::new();
    for event in history.events.iter().filter(|event| event.key == key && event.at < to) {
        stays.entry((event.worker, event.op)).or_default().push(event);
    }
    stays.retain(|_, events| events.last().is_some_and(|event| event.at > from));
    let mut rows: Vec<WorkerId> = stays.keys().map(|(worker, _)| *worker).collect();
    rows.dedup();
    let x = |at: Nanos| LEFT + WIDTH * at.clamp(from, to).saturating_sub(from) as f64 / (to - from) as f64;
    let row =
        |worker: WorkerId| rows.iter().position(|&other| other == worker).map(|at| 4.0 + ROW * at as f64);
    let mut drawn = String::new();
    for worker in &rows {
        let y = row(*worker).unwrap_or_default();
        drawn.push_str(&format!(
            "<text x={:.0} y={:.1} class=name>worker {worker}</text>",
            LEFT - 6.0,
            y + 11.0
        ));
    }
    for ((worker, _), events) in &stays {
        let y = row(*worker).unwrap_or_default();
        drawn.push_str(&bars(events, y, &x));
    }
    for fault in history.faults.iter().filter(|fault| fault.from < to && fault.to > from) {
        let (y, height) = match fault.worker {
            None => (2.0, ROW * rows.len() as f64),
            Some(worker) => match row(worker) {
                Some(y) => (y, ROW - 2.0),
                None => continue,
            },
        };
        let (left, right) = (x(fault.from), x(fault.to));
        let what = fault.hit.as_deref().unwrap_or("no proof that it hit");
        let class = if fault.fatal { "fault dead" } else { "fault" };
        drawn.push_str(&format!(
            "<rect class=\"{class}\" x={left:.1} y={y:.1} width={:.1} height={height:.1}><title>{}: {}</title></rect>",
            (right - left).max(2.0),
            fault.kind,
            escaped(what)
        ));
    }
    let height = 8.0 + ROW * rows.len() as f64;
    let seconds: String = (0..=4)
        .map(|second| {
            let at = LEFT + WIDTH * f64::from(second) / 4.0;
            format!("<line x1={at:.1} x2={at:.1} y1=0 y2={height:.0} class=second /><text x={at:.1} y={:.0} class=tick>{second} s</text>", height + 12.0)
        })
        .collect();
    let name = history.keys.get(key as usize).and_then(|name| name.rsplit('/').next()).unwrap_or("?");
    format!(
        "<h3>lock <code>{}</code></h3><svg viewBox=\"0 0 {:.0} {:.0}\" role=img>{seconds}{drawn}</svg>\n",
        escaped(name),
        LEFT + WIDTH + 20.0,
        height + 16.0
    )
}

/// An acquisition: from the wish to the answer, from the grant to the end, with its fence.
fn bars(events: &[&Event], y: f64, x: &dyn Fn(Nanos) -> f64) -> String {
    let find =
        |is_so: &dyn Fn(&What) -> bool| events.iter().find(|event| is_so(&event.what)).map(|event| event.at);
    let asked = find(&|what| matches!(what, What::Asked { .. }));
    let granted = find(&|what| matches!(what, What::Granted { .. }));
    let answered =
        find(&|what| matches!(what, What::Granted { .. } | What::NotGranted | What::Failed { .. }));
    let lost = find(&|what| matches!(what, What::Lost));
    let left = find(&|what| matches!(what, What::Left));
    let last = events.last().map_or(0, |event| event.at);
    let mut text = String::new();
    let mut bar = |class: &str, from: Nanos, to: Nanos, title: &str| {
        let (left, right) = (x(from), x(to));
        text.push_str(&format!(
            "<rect class=\"{class}\" x={left:.1} y={y:.1} width={:.1} height={:.1}><title>{}</title></rect>",
            (right - left).max(0.8),
            ROW - 3.0,
            escaped(title)
        ));
    };
    if let Some(asked) = asked {
        bar("waits", asked, answered.unwrap_or(last), "waits");
    }
    let Some(granted) = granted else { return text };
    let (mut fence, mut until, mut mode) = (None, None, Wanted::Exclusive);
    for event in events {
        match &event.what {
            What::Granted { fence: number, until: to } => (fence, until) = (*number, *to),
            What::Believes { until: to } => until = *to,
            What::Asked { mode: wanted, .. } => mode = *wanted,
            _ => {}
        }
    }
    let end = left.unwrap_or(last);
    let safe = until.map_or(end, |until| until.min(end)).max(granted);
    let fence = fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    let class = if mode == Wanted::Exclusive { "holds" } else { "holds shared" };
    bar(
        class,
        granted,
        lost.map_or(safe, |lost| lost.min(safe)),
        &format!("believes to hold ({mode:?}{fence})"),
    );
    if let Some(lost) = lost {
        bar("lost", lost, lost + 4_000_000, "is told that its lock is lost");
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
