//! The sale as one page: a plot and a story for each lane, with nothing to load.

use crate::{LaneResult, Outcome, Verdict, audit::thousands, strategy::Expected};

/// The size of a plot, and the room for its axes.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 150.0;

/// Writes the page.
#[must_use]
pub fn page(outcome: &Outcome) -> String {
    let longest = outcome.lanes.iter().filter_map(|lane| lane.points.last()).map(|point| point.0).max();
    let longest = longest.unwrap_or(1).max(1);
    let lanes: String = outcome.lanes.iter().map(|lane| card(lane, longest)).collect();
    let rows: String = outcome.lanes.iter().map(row).collect();
    let stock = outcome.lanes.iter().map(|lane| lane.stock).max().unwrap_or_default();
    let verdict = if outcome.as_expected() {
        "Every right way sold exactly what there was. Every wrong way was seen to go wrong."
    } else {
        "Not everything went as it should: look for the lanes marked <b>failed</b>."
    };
    format!(
        include_str!("page.html"),
        stock = thousands(stock),
        buyers = thousands(outcome.buyers.into()),
        hosts = outcome.hosts,
        engine = escaped(&outcome.engine),
        store = escaped(&outcome.store),
        seed = outcome.seed,
        verdict = verdict,
        lanes = lanes,
        rows = rows,
    )
}

fn card(lane: &LaneResult, longest: u64) -> String {
    let (class, word) = badge(lane);
    let faults: String = lane.faults.iter().map(|what| format!("<li>{}</li>", escaped(what))).collect();
    let faults = if faults.is_empty() { String::new() } else { format!("<ul class=faults>{faults}</ul>") };
    format!(
        "<article id=\"{name}\" class={class}><header><h2>{title}</h2><span class=badge>{word}</span></header>\
         {plot}<p class=result>{sentence}</p><p>{story}</p>{faults}\
         <details><summary>The code it ran</summary><pre><code>{code}</code></pre></details></article>\n",
        name = lane.strategy,
        title = escaped(lane.title),
        plot = plot(lane, longest),
        sentence = escaped(&lane.sentence()),
        story = escaped(lane.strategy.story()),
        code = escaped(lane.strategy.code()),
    )
}

fn badge(lane: &LaneResult) -> (&'static str, &'static str) {
    match (&lane.verdict, lane.expected) {
        (Verdict::Failed(_), _) => ("failed", "failed"),
        (Verdict::Skipped(_), _) => ("skipped", "skipped"),
        (Verdict::Expected, Expected::Safe) => ("safe", "safe"),
        (Verdict::Expected, Expected::Stuck) => ("wrong", "stuck"),
        (Verdict::Expected, Expected::Oversells) => ("wrong", "oversold"),
    }
}

fn row(lane: &LaneResult) -> String {
    let (class, word) = badge(lane);
    let cells = match &lane.verdict {
        Verdict::Skipped(why) => format!("<td colspan=6>{}</td>", escaped(why)),
        _ => format!(
            "<td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.0}</td><td>{:.1} ms</td>",
            thousands(lane.sold),
            thousands(lane.oversold),
            thousands(lane.double_orders),
            thousands(lane.refused),
            lane.orders_per_second,
            lane.p99_ms
        ),
    };
    format!(
        "<tr class={class}><th scope=row><a href=\"#{name}\">{name}</a></th>{cells}<td>{word}</td></tr>\n",
        name = lane.strategy
    )
}

/// What was left over time. All lanes have the same axes: from the stock to as far below zero, and what falls further is
/// named where it leaves.
fn plot(lane: &LaneResult, longest: u64) -> String {
    let (left, top, bottom) = (44.0, 12.0, 22.0);
    let stock = lane.stock.max(1) as f64;
    let x = |millis: u64| left + (WIDTH - left - 12.0) * millis as f64 / longest as f64;
    let y = |value: f64| top + (HEIGHT - top - bottom) * (stock - value.clamp(-stock, stock)) / (2.0 * stock);
    let mut line = String::new();
    let mut last = y(stock);
    for (at, &(millis, value)) in lane.points.iter().enumerate() {
        // It stays where it was until somebody buys.
        let (x, y) = (x(millis), y(value as f64));
        line.push_str(&if at == 0 { format!("M{x:.1} {y:.1}") } else { format!("H{x:.1}V{y:.1}") });
        last = y;
    }
    let end = lane.points.last().map_or(left, |point| x(point.0));
    let lowest = lane.points.iter().map(|point| point.1).min().unwrap_or_default();
    let note = if (lowest as f64) < -stock {
        format!(
            "<text x={:.1} y={:.1} class=off>to −{}</text>",
            (end + 4.0).min(WIDTH - 60.0),
            last - 4.0,
            thousands(lowest.unsigned_abs())
        )
    } else {
        String::new()
    };
    let (zero, floor, clip) = (y(0.0), HEIGHT - bottom, lane.strategy);
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img aria-label=\"Stock of {name} over time\">\
         <clipPath id=\"above-{clip}\"><rect x=0 y=0 width={WIDTH} height={zero:.1} /></clipPath>\
         <clipPath id=\"below-{clip}\"><rect x=0 y={zero:.1} width={WIDTH} height={HEIGHT} /></clipPath>\
         <line x1={left} x2={WIDTH} y1={zero:.1} y2={zero:.1} class=zero />\
         <line x1={left} x2={left} y1={top} y2={floor} class=axis />\
         <text x=38 y={y_stock:.1} class=tick>{stock}</text><text x=38 y={y_zero:.1} class=tick>0</text>\
         <text x=38 y={y_floor:.1} class=tick>−{stock}</text>\
         <text x={left} y={y_time:.1} class=time>0</text>\
         <text x={WIDTH} y={y_time:.1} class=\"time end\">{seconds:.1} s</text>\
         <path d=\"{line}\" class=stock clip-path=\"url(#above-{clip})\" />\
         <path d=\"{line}\" class=debt clip-path=\"url(#below-{clip})\" />\
         <circle cx={end:.1} cy={last:.1} r=3 class=dot />{note}</svg>",
        name = lane.strategy,
        y_stock = top + 4.0,
        y_zero = zero + 4.0,
        y_floor = floor + 4.0,
        y_time = HEIGHT - 6.0,
        seconds = longest as f64 / 1_000.0,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
