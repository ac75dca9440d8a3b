//! What people see on a terminal.

use std::fmt::Write;

use crate::{Figures, Growth, Measure, figures::Spread};

/// Everything that was measured, as a table.
#[must_use]
pub fn table(figures: &Figures) -> String {
    let mut text =
        format!("{:<44} {:>10} {:>10} {:>10} {:>13}\n", "", "median", "p99", "longest", "x round trip");
    let mut row = |what: &str, spread: &Spread, ratio: f64| {
        let times = [spread.p50_us, spread.p99_us, spread.max_us].map(micros);
        let [p50, p99, max] = times;
        let _ = writeln!(text, "{what:<44} {p50:>10} {p99:>10} {max:>10} {:>13}", number(ratio));
    };
    let trip = figures.alone.as_ref().map(|alone| &alone.trip);
    let trip = trip.or(figures.handoff.as_ref().map(|handoff| &handoff.trip));
    if let Some(trip) = trip.or(figures.hot.as_ref().map(|hot| &hot.trip)) {
        row("round trip", trip, 1.0);
    }
    if let Some(alone) = &figures.alone {
        row("acquire + release, alone", &alone.one_key, alone.ratio);
        row("the same, a new key each time", &alone.new_key, alone.new_key_ratio);
    }
    if let Some(handoff) = &figures.handoff {
        row(&format!("hand-off between {}", handoff.between), &handoff.time, handoff.ratio);
    }
    if let Some(hot) = &figures.hot {
        let each = Spread { p50_us: 1e6 / hot.grants_per_second, ..Spread::default() };
        let p50 = micros(each.p50_us);
        let what = format!("one hot key, {} x {}: time per grant", hot.processes, hot.tasks);
        let _ = writeln!(text, "{what:<44} {p50:>10} {:>10} {:>10} {:>13}", "-", "-", number(hot.ratio));
        let waits = [hot.wait.p50_us, hot.wait.p99_us, hot.wait.max_us].map(micros);
        let [p50, p99, max] = waits;
        let _ = writeln!(text, "{:<44} {p50:>10} {p99:>10} {max:>10} {:>13}", "    waits", "-");
    }
    text.push('\n');
    for measure in [Measure::Hot, Measure::Crash, Measure::Held] {
        let line = line(figures, measure);
        if !line.is_empty() {
            let _ = writeln!(text, "{}: {line}", measure.title());
        }
    }
    let _ = writeln!(text, "engine {}; a round trip is {}.", figures.engine, figures.round_trip);
    if figures.lost() > 0 {
        let _ = writeln!(text, "UPDATES WERE LOST: {}. This lock does not lock.", figures.lost());
    }
    text
}

/// How costs grow, as tables.
#[must_use]
pub fn growth_table(growth: &Growth) -> String {
    let mut text = format!("engine {}; medians\n", growth.engine);
    let all = [
        ("places in the line", &growth.waiters),
        ("held keys", &growth.keys),
        ("processes", &growth.processes),
    ];
    for (what, curves) in all {
        let _ = write!(text, "\n{what:<20}");
        for curve in curves {
            let _ = write!(text, " {:>16}", curve.name);
        }
        text.push('\n');
        let steps = curves.first().map_or(&[][..], |curve| &curve.points);
        for (row, (step, _)) in steps.iter().enumerate() {
            let _ = write!(text, "{step:<20}");
            for point in curves.iter().filter_map(|curve| curve.points.get(row)) {
                let _ = write!(text, " {:>16}", micros(point.1));
            }
            text.push('\n');
        }
    }
    if !growth.weights.is_empty() {
        text.push_str("\nmemory\n");
    }
    for weight in &growth.weights {
        let _ = writeln!(text, "{:<34} {:>8} bytes, of {}", weight.what, weight.bytes, weight.of);
    }
    for ended in &growth.ended {
        let _ = writeln!(text, "\nended early, the time was over: {ended}");
    }
    text
}

/// One measurement in one line; nothing if it was not made.
pub(crate) fn line(figures: &Figures, measure: Measure) -> String {
    let skipped = figures.skipped.iter().find(|(name, _)| *name == measure.name());
    if let Some((_, why)) = skipped {
        return format!("not measured, {why}");
    }
    let said = match measure {
        Measure::Alone => figures.alone.as_ref().map(|alone| {
            let (time, trip) = (micros(alone.one_key.p50_us), micros(alone.trip.p50_us));
            format!("{time}, {} round trips of {trip}", number(alone.ratio))
        }),
        Measure::Handoff => figures.handoff.as_ref().map(|handoff| {
            let (time, ratio) = (micros(handoff.time.p50_us), number(handoff.ratio));
            format!("{time} between {}, {ratio} round trips", handoff.between)
        }),
        Measure::Hot => figures.hot.as_ref().map(|hot| {
            format!(
                "{} grants/s, waits {} (p99 {}, longest {}), Jain {:.3}, {:.2} engine verbs per grant, \
                 {} of {} updates lost",
                hot.grants_per_second.round(),
                micros(hot.wait.p50_us),
                micros(hot.wait.p99_us),
                micros(hot.wait.max_us),
                hot.jain,
                hot.verbs_per_grant,
                hot.lost,
                hot.updates
            )
        }),
        Measure::Crash => figures.crash.as_ref().map(|crash| {
            let (count, median) = (crash.seconds.len(), micros(crash.median_seconds * 1e6));
            let late = micros(crash.late_seconds.abs() * 1e6);
            match crash.lease_seconds {
                None => format!("the next one held {median} after the kill, at most {late}, {count} times"),
                Some(lease) => {
                    let side = if crash.late_seconds < 0.0 { "before" } else { "after" };
                    format!(
                        "the next one held {median} after the kill, at most {late} {side} the end of the lease of {lease} s, \
                         {count} times"
                    )
                }
            }
        }),
        Measure::Held => figures.held.as_ref().map(|held| {
            format!(
                "{} locks, {} bytes each, {:.2} % of a core to keep them, {:.0} leases renewed in {:.1} calls a second, \
                 taken in {:.1} s, {} lost",
                held.locks,
                held.bytes_each,
                held.cpu_percent,
                held.renewed_per_second,
                held.calls_per_second,
                held.taken_seconds,
                held.lost
            )
        }),
    };
    said.unwrap_or_default()
}

/// A time as people read it.
pub(crate) fn micros(us: f64) -> String {
    match us {
        us if us < 10.0 => format!("{us:.2} µs"),
        us if us < 1_000.0 => format!("{us:.0} µs"),
        us if us < 10_000.0 => format!("{:.2} ms", us / 1e3),
        us if us < 1_000_000.0 => format!("{:.0} ms", us / 1e3),
        us => format!("{:.2} s", us / 1e6),
    }
}

fn number(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 1.0 => format!("{ratio:.3}"),
        ratio if ratio < 100.0 => format!("{ratio:.2}"),
        ratio => format!("{ratio:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let said = [0.76, 31.0, 250.4, 1_430.0, 12_600.0, 2_040_000.0].map(micros);
        assert_eq!(said, ["0.76 µs", "31 µs", "250 µs", "1.43 ms", "13 ms", "2.04 s"]);
    }
}
