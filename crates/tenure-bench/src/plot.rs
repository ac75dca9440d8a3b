//! Plots as SVG that needs nothing else, light or dark as the reader has it.

use std::fmt::Write;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// What is left for words.
const LEFT: f64 = 70.0;
const RIGHT: f64 = 150.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 46.0;
const COLOURS: [&str; 8] =
    ["#2761b5", "#c5303b", "#1a7f4b", "#b07700", "#7a4bb5", "#0b8a99", "#a33f82", "#5a6270"];

/// What stands at an axis.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Its words, with the unit.
    pub label: String,
    /// Whether each step is ten times the last.
    pub log: bool,
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub struct Line {
    /// Whose it is.
    pub name: String,
    /// Where it goes, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// Lines between two axes.
#[derive(Clone, Debug)]
pub struct Plot {
    /// What is seen.
    pub title: String,
    /// The axis below.
    pub x: Axis,
    /// The axis at the left.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// From values to places on an axis.
struct Scale {
    log: bool,
    low: f64,
    high: f64,
}

impl Scale {
    fn new(axis: &Axis, values: impl Iterator<Item = f64> + Clone) -> Self {
        let values = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 10.0) };
        if axis.log {
            let (low, high) = (low.log10().floor(), high.log10().ceil());
            return Self { log: true, low, high: if high > low { high } else { low + 1.0 } };
        }
        Self { log: false, low: 0.0, high: if high > 0.0 { high } else { 1.0 } }
    }

    fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn ticks(&self) -> Vec<f64> {
        if self.log {
            return (self.low as i32..=self.high as i32).map(|power| 10_f64.powi(power)).collect();
        }
        let rough = self.high / 5.0;
        let unit = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * unit).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        (0..=(self.high / step) as u32).map(|count| f64::from(count) * step).collect()
    }
}

impl Plot {
    /// The plot as an SVG file.
    #[must_use]
    pub fn svg(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let xs = Scale::new(&self.x, points().map(|point| point.0));
        let ys = Scale::new(&self.y, points().map(|point| point.1));
        let x = |value: f64| LEFT + xs.at(value) * (WIDTH - LEFT - RIGHT);
        let y = |value: f64| HEIGHT - BOTTOM - ys.at(value) * (HEIGHT - TOP - BOTTOM);
        let mut svg = head(WIDTH, HEIGHT, &self.title);
        for tick in ys.ticks() {
            let at = y(tick);
            let (end, words) = (WIDTH - RIGHT, short(tick));
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{end}\"/><text class=\"end\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for tick in xs.ticks() {
            let (at, low) = (x(tick), HEIGHT - BOTTOM);
            let _ = writeln!(
                svg,
                "<path class=\"grid\" d=\"M{at:.1} {TOP}V{low}\"/><text class=\"mid\" x=\"{at:.1}\" y=\"{:.1}\">{}</text>",
                low + 16.0,
                short(tick)
            );
        }
        for (number, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            let mut path = String::new();
            for (index, point) in line.points.iter().enumerate() {
                let _ =
                    write!(path, "{}{:.1} {:.1}", if index == 0 { "M" } else { "L" }, x(point.0), y(point.1));
                let _ = writeln!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"{colour}\"/>",
                    x(point.0),
                    y(point.1)
                );
            }
            let (at, words) = (TOP + 14.0 + number as f64 * 18.0, escaped(&line.name));
            let left = WIDTH - RIGHT + 12.0;
            let _ = writeln!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/><path d=\"M{left} {at}h14\" stroke=\"{colour}\" stroke-width=\"3\"/><text x=\"{}\" y=\"{}\">{words}</text>",
                left + 20.0,
                at + 4.0
            );
        }
        let middle = LEFT + (WIDTH - LEFT - RIGHT) / 2.0;
        let _ = writeln!(
            svg,
            "<text class=\"mid\" x=\"{middle}\" y=\"{}\">{}</text>",
            HEIGHT - 10.0,
            escaped(&self.x.label)
        );
        let _ = writeln!(svg, "<text x=\"8\" y=\"{}\">{}</text></svg>", TOP - 6.0, escaped(&self.y.label));
        svg
    }
}

/// Bars on an axis where each step is ten times the last: the name of each, its value, and whether it stands out.
#[must_use]
pub fn bars(title: &str, rows: &[(String, f64, bool)]) -> String {
    let height = TOP + 22.0 * rows.len() as f64 + 8.0;
    let scale = Scale::new(&Axis { label: String::new(), log: true }, rows.iter().map(|row| row.1));
    let (left, end) = (150.0, WIDTH - 90.0);
    let mut svg = head(WIDTH, height, title);
    for (number, (name, value, ours)) in rows.iter().enumerate() {
        let top = TOP + 22.0 * number as f64;
        let width = (scale.at(*value) * (end - left)).max(1.0);
        let colour = if *ours { COLOURS[0] } else { "#9aa1ad" };
        let _ = writeln!(
            svg,
            "<rect x=\"{left}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"16\" fill=\"{colour}\"/><text class=\"end\" x=\"{}\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            left - 6.0,
            top + 12.0,
            escaped(name),
            left + width + 6.0,
            top + 12.0,
            short(*value)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn head(width: f64, height: f64, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{title}\" font-family=\"system-ui, sans-serif\" font-size=\"11\">\n\
         <style>text{{fill:#1c1f24}}.grid{{stroke:#dcdad4;fill:none}}.end{{text-anchor:end}}.mid{{text-anchor:middle}}.title{{font-size:13px;font-weight:600}}.paper{{fill:#fff}}\
         @media(prefers-color-scheme:dark){{text{{fill:#e8e6e1}}.grid{{stroke:#32363f}}.paper{{fill:#15171b}}}}</style>\n\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/><text class=\"title\" x=\"8\" y=\"16\">{title}</text>\n",
        title = escaped(title)
    )
}

/// A number as it stands at an axis.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = if value.abs() >= 100.0 || value == value.trunc() {
        format!("{value:.0}")
    } else if value.abs() >= 1.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.3}").trim_end_matches('0').to_owned()
    };
    text + unit
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(log: bool) -> Axis {
        Axis { label: "waiters".into(), log }
    }

    #[test]
    fn scales_reach_from_end_to_end() {
        let log = Scale::new(&axis(true), [1.0, 10_000.0].into_iter());
        assert_eq!((log.at(1.0), log.at(100.0), log.at(10_000.0)), (0.0, 0.5, 1.0));
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        let flat = Scale::new(&axis(false), [3.0, 9.0].into_iter());
        assert_eq!((flat.at(0.0), flat.at(9.0)), (0.0, 1.0));
        assert_eq!(flat.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn words_cannot_break_out() {
        let lines = vec![Line { name: "<b>&\"".into(), points: vec![(1.0, 2.0), (10.0, 20.0)] }];
        let svg = Plot { title: "a < b".into(), x: axis(true), y: axis(true), lines }.svg();
        assert!(svg.contains("&lt;b&gt;&amp;&quot;") && svg.contains("a &lt; b"));
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn numbers_at_an_axis_are_short() {
        let said = [0.05, 2.5, 40.0, 1_500.0, 188_000.0, 1e6].map(short);
        assert_eq!(said, ["0.05", "2.5", "40", "1.5k", "188k", "1M"]);
    }
}
