//! What people see of a sale: a live screen on a terminal, plain lines elsewhere, JSON for scripts, and the table at the
//! end.

use std::io::Write;

use crate::{LaneResult, Outcome, Strategy, Tick, Verdict, Watch, audit::thousands, strategy::Expected};

/// How many moments of a lane a screen shows, and how long each is: the same for all lanes.
const CELLS: usize = 24;
const CELL_MILLIS: u64 = 125;
/// A bar that falls.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// A live screen: one line for each lane, drawn anew several times a second.
#[derive(Debug)]
pub struct Live<W: Write> {
    out: W,
    lanes: Vec<(Strategy, String)>,
    drawn: bool,
    skipped: u32,
    width: usize,
}

impl<W: Write> Live<W> {
    /// A screen so wide, for these lanes.
    pub fn new(mut out: W, strategies: &[Strategy], width: usize) -> Self {
        let waiting = |&strategy: &Strategy| (strategy, format!("{DIM}{strategy:<13}{PLAIN}"));
        // The cursor would run over the lines.
        let _ = out.write_all(b"\x1b[?25l");
        let lanes = strategies.iter().map(waiting).collect();
        let mut live = Self { out, lanes, drawn: false, skipped: 0, width };
        live.draw();
        live
    }

    fn set(&mut self, strategy: Strategy, line: String) {
        if let Some(lane) = self.lanes.iter_mut().find(|(lane, _)| *lane == strategy) {
            lane.1 = line;
        }
        self.draw();
    }

    fn draw(&mut self) {
        let mut text = if self.drawn { format!("\x1b[{}A", self.lanes.len()) } else { String::new() };
        for (_, line) in &self.lanes {
            text.push_str("\x1b[2K");
            text.push_str(&clipped(line, self.width));
            text.push_str(PLAIN);
            text.push('\n');
        }
        self.drawn = true;
        // A terminal that went away is no reason to stop.
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

impl<W: Write> Drop for Live<W> {
    fn drop(&mut self) {
        let _ = self.out.write_all(b"\x1b[?25h").and_then(|()| self.out.flush());
    }
}

impl<W: Write> Watch for Live<W> {
    fn lane_starts(&mut self, _: Strategy) {}

    fn tick(&mut self, tick: &Tick<'_>) {
        self.skipped += 1;
        if self.skipped < 4 {
            return;
        }
        self.skipped = 0;
        let seconds = tick.millis.max(1) as f64 / 1_000.0;
        let line = line(&Standing {
            strategy: tick.strategy,
            points: tick.points,
            stock: tick.stock,
            left: tick.left,
            per_second: tick.orders as f64 / seconds,
            oversold: tick.orders.saturating_sub(tick.stock),
            refused: tick.refused,
        });
        self.set(tick.strategy, line);
    }

    fn lane_ends(&mut self, result: &LaneResult) {
        let mark = mark(result);
        let line = line(&Standing {
            strategy: result.strategy,
            points: &result.points,
            stock: result.stock,
            left: i64::try_from(result.stock).unwrap_or(i64::MAX)
                - i64::try_from(result.sold).unwrap_or(i64::MAX),
            per_second: result.orders_per_second,
            oversold: result.oversold,
            refused: result.refused,
        });
        self.set(result.strategy, format!("{line}  {mark}"));
    }
}

/// How a lane stands, for one line.
struct Standing<'a> {
    strategy: Strategy,
    points: &'a [(u64, i64)],
    stock: u64,
    left: i64,
    per_second: f64,
    oversold: u64,
    refused: u64,
}

fn line(lane: &Standing<'_>) -> String {
    let sign = if lane.left < 0 { "-" } else { "" };
    let left = format!("{sign}{}", thousands(lane.left.unsigned_abs()));
    let (colour, oversold) =
        if lane.oversold > 0 { (RED, thousands(lane.oversold)) } else { ("", "0".into()) };
    format!(
        "{:<13} {} {colour}{left:>6} left{PLAIN} {:>6.0}/s {colour}{oversold:>6} oversold{PLAIN} {:>3} refused",
        lane.strategy,
        bars(lane.points, lane.stock),
        lane.per_second,
        lane.refused
    )
}

/// The stock falling, a bar for each moment: red below zero.
fn bars(points: &[(u64, i64)], stock: u64) -> String {
    let mut cells: Vec<i64> = Vec::new();
    for &(millis, left) in points {
        let cell = usize::try_from(millis / CELL_MILLIS).unwrap_or(usize::MAX).min(10 * CELLS);
        let last = cells.last().copied().unwrap_or(left);
        while cells.len() < cell {
            cells.push(last);
        }
        cells.truncate(cell);
        cells.push(left);
    }
    let from = cells.len().saturating_sub(CELLS);
    let mut text = String::new();
    let mut red = false;
    for &left in &cells[from..] {
        if (left < 0) != red {
            red = left < 0;
            text.push_str(if red { RED } else { PLAIN });
        }
        let share = left.unsigned_abs().min(stock) * (BARS.len() as u64 - 1) / stock.max(1);
        text.push(BARS[usize::try_from(share).unwrap_or_default()]);
    }
    text.push_str(PLAIN);
    text.push_str(&" ".repeat(CELLS.saturating_sub(cells.len())));
    text
}

/// As much of a line as fits, without its colours being counted.
fn clipped(line: &str, width: usize) -> String {
    let (mut text, mut seen, mut in_code) = (String::new(), 0, false);
    for c in line.chars() {
        match c {
            '\x1b' => in_code = true,
            _ if in_code => {
                text.push(c);
                in_code = c != 'm';
                continue;
            }
            _ if seen >= width => continue,
            _ => seen += 1,
        }
        text.push(c);
    }
    text
}

fn mark(result: &LaneResult) -> String {
    match (&result.verdict, result.expected) {
        (Verdict::Failed(_), _) => format!("{RED}FAILED{PLAIN}"),
        (Verdict::Skipped(_), _) => format!("{DIM}skipped{PLAIN}"),
        (Verdict::Expected, Expected::Safe) => format!("{GREEN}safe{PLAIN}"),
        (Verdict::Expected, Expected::Stuck) => format!("{RED}stuck{PLAIN}"),
        (Verdict::Expected, Expected::Oversells) => format!("{RED}oversold{PLAIN}"),
    }
}

/// One line for each lane, when it has ended.
#[derive(Debug)]
pub struct Plain<W: Write>(pub W);

impl<W: Write> Watch for Plain<W> {
    fn lane_starts(&mut self, _: Strategy) {}

    fn tick(&mut self, _: &Tick<'_>) {}

    fn lane_ends(&mut self, result: &LaneResult) {
        let _ = self.0.write_all(sentence(result).as_bytes()).and_then(|()| self.0.flush());
    }
}

/// One JSON object on each line: `tick`, `lane`.
#[derive(Debug)]
pub struct Json<W: Write> {
    out: W,
    ticks: u32,
}

impl<W: Write> Json<W> {
    /// Writes there.
    pub fn new(out: W) -> Self {
        Self { out, ticks: 0 }
    }

    /// Writes the last line, `sale`.
    pub fn outcome(&mut self, outcome: &Outcome) {
        self.write(&serde_json::json!({ "event": "sale", "ok": outcome.as_expected(), "sale": outcome }));
    }

    fn write(&mut self, value: &serde_json::Value) {
        let _ = writeln!(self.out, "{value}").and_then(|()| self.out.flush());
    }
}

impl<W: Write> Watch for Json<W> {
    fn lane_starts(&mut self, _: Strategy) {}

    fn tick(&mut self, tick: &Tick<'_>) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(5) {
            let Tick { strategy, left, orders, refused, millis, .. } = tick;
            self.write(&serde_json::json!({
                "event": "tick", "strategy": strategy, "ms": millis, "left": left, "orders": orders, "refused": refused
            }));
        }
    }

    fn lane_ends(&mut self, result: &LaneResult) {
        let sentence = result.sentence();
        self.write(&serde_json::json!({ "event": "lane", "lane": result, "sentence": sentence }));
    }
}

/// One sentence for each lane.
#[must_use]
pub fn sentences(outcome: &Outcome) -> String {
    outcome.lanes.iter().map(sentence).collect()
}

fn sentence(lane: &LaneResult) -> String {
    format!("{:<13} {}\n", lane.strategy, lane.sentence())
}

/// The table at the end.
#[must_use]
pub fn table(outcome: &Outcome) -> String {
    let mut text = format!(
        "{:<13} {:>6} {:>9} {:>7} {:>6} {:>9} {:>9}\n",
        "way", "sold", "oversold", "double", "stuck", "orders/s", "p99"
    );
    for lane in &outcome.lanes {
        if let Verdict::Skipped(why) = &lane.verdict {
            text.push_str(&format!("{:<13} skipped: {why}\n", lane.strategy));
            continue;
        }
        let p99 = if lane.p99_ms < 100.0 {
            format!("{:.1} ms", lane.p99_ms)
        } else {
            format!("{:.0} ms", lane.p99_ms)
        };
        text.push_str(&format!(
            "{:<13} {:>6} {:>9} {:>7} {:>6} {:>9.0} {p99:>9}\n",
            lane.strategy,
            thousands(lane.sold),
            thousands(lane.oversold),
            thousands(lane.double_orders),
            if lane.stuck { "yes" } else { "no" },
            lane.orders_per_second,
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fall_and_turn_red_below_zero() {
        let text = bars(&[(0, 100), (130, 50), (260, 0), (400, -100)], 100);
        assert!(text.starts_with("█▄▁\x1b[31m█\x1b[0m"), "{text:?}");
        assert_eq!(text.matches(' ').count(), CELLS - 4);
        assert_eq!(bars(&[], 100).trim_start_matches("\x1b[0m").len(), CELLS);
        let long: Vec<(u64, i64)> = (0..100).map(|at| (at * CELL_MILLIS, 100)).collect();
        assert_eq!(bars(&long, 100).matches('█').count(), CELLS, "the last of a long lane");
    }

    #[test]
    fn a_line_is_cut_at_the_width_and_keeps_its_colours() {
        assert_eq!(clipped("a\x1b[31mbcd\x1b[0m", 2), "a\x1b[31mb\x1b[0m");
    }
}
