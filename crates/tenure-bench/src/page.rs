use std::fmt::Write;

use crate::{
    Figures, Growth, Spread, Watch,
    plot::{Axis, Line, Plot, escaped},
    screen,
};

/// The page of a bench: what the table says, how the times are spread, and who got how much of the hot key.
///
/// It is one file that needs nothing else.
#[must_use]
pub fn page(figures: &Figures) -> String {
    let mut plots = String::new();
    let spreads = spreads(figures);
    if !spreads.is_empty() {
        let _ = write!(
            plots,
            "<figure>{}<figcaption>How the times are spread: the share that was shorter.</figcaption></figure>",
            distribution(&spreads).svg()
        );
    }
    if let Some(hot) = &figures.hot {
        let _ = write!(
            plots,
            "<figure>{}<figcaption>What each task got of the hot key; a colour for each process. Jain's index is {:.3}: 1 if all got \
             the same.</figcaption></figure>",
            fairness(&hot.grants),
            hot.jain
        );
    }
    let lost = match figures.lost() {
        0 => "No update was lost.".to_owned(),
        lost => format!("{lost} updates were lost: this lock does not lock."),
    };
    let verdict = format!(
        "{lost} Every figure was measured in turns with the round trip ({}); ratios within one run are what counts.",
        figures.round_trip
    );
    format!(
        include_str!("page.html"),
        engine = escaped(&figures.engine),
        table = escaped(&screen::table(figures)),
        verdict = verdict,
        plots = plots,
    )
}

/// The page of [`grow`](crate::grow): a plot for each curve.
#[must_use]
pub fn growth_page(growth: &Growth) -> String {
    let plots: String =
        growth.plots().iter().map(|(_, plot)| format!("<figure>{}</figure>", plot.svg())).collect();
    format!(
        include_str!("page.html"),
        engine = escaped(growth.engine),
        table = escaped(&screen::growth_table(growth)),
        verdict = "How costs grow: medians, on axes where each step is ten times the last.",
        plots = plots,
    )
}

fn spreads(figures: &Figures) -> Vec<(&'static str, &Spread)> {
    let mut all = Vec::new();
    if let Some(alone) = &figures.alone {
        all.extend([
            ("round trip", &alone.trip),
            ("alone", &alone.one_key),
            ("alone, new key", &alone.new_key),
        ]);
    }
    all.extend(figures.handoff.as_ref().map(|handoff| ("hand-off", &handoff.time)));
    all.extend(figures.hot.as_ref().map(|hot| ("hot key: wait", &hot.wait)));
    all
}

fn distribution(spreads: &[(&str, &Spread)]) -> Plot {
    let line = |(name, spread): &(&str, &Spread)| {
        let mut seen = 0;
        let points = spread.buckets.iter().map(|&(us, count)| {
            seen += count;
            (us, seen as f64 / spread.count.max(1) as f64 * 100.0)
        });
        Line { name: (*name).to_owned(), points: points.collect() }
    };
    Plot {
        title: "Latency".into(),
        x: Axis { label: "microseconds".into(), log: true },
        y: Axis { label: "% shorter".into(), log: false },
        lines: spreads.iter().map(line).collect(),
    }
}

/// A bar for each task.
fn fairness(grants: &[Vec<u64>]) -> String {
    const COLOURS: [&str; 4] = ["#2761b5", "#1a7f4b", "#b07700", "#7a4bb5"];
    let most = grants.iter().flatten().copied().max().unwrap_or(1).max(1) as f64;
    let count = grants.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let width = 600.0 / count;
    let mut bars = String::new();
    let mut at = 0.0;
    for (process, tasks) in grants.iter().enumerate() {
        for &got in tasks {
            let height = got as f64 / most * 180.0;
            let colour = COLOURS[process % COLOURS.len()];
            let _ = write!(
                bars,
                "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{height:.2}\" fill=\"{colour}\"><title>process {}: {got} grants</title></rect>",
                20.0 + at * width,
                210.0 - height,
                width * 0.86,
                process + 1
            );
            at += 1.0;
        }
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 230\" role=\"img\" aria-label=\"Grants of each task\" font-size=\"11\">\
         <text x=\"20\" y=\"16\" class=\"name\">Grants of each task, {most} at most</text>{bars}<path class=\"axis\" d=\"M20 210.5H620\"/></svg>"
    )
}

/// Nobody watches.
impl Watch for () {
    fn begins(&mut self, _what: &str, _number: usize, _of: usize) {}

    fn ends(&mut self, _what: &str) {}
}
