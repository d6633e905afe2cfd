//! Cost against recall as a picture: a point a policy, its name in a column beside, so that no two
//! names ever lie on one another.

use std::fmt::Write as _;
use std::path::Path;

use baton_core::problem::Problem;

use crate::reply::{Failure, USAGE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Svg,
    Html,
}

impl Kind {
    /// By the ending of a file's name.
    pub(super) fn of(file: &Path) -> Result<Kind, Failure> {
        let ending = file.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some("svg") => Ok(Kind::Svg),
            Some("html" | "htm") => Ok(Kind::Html),
            other => {
                let problem = Problem::new("plot-kind", "this kind of picture is not known")
                    .found(other.unwrap_or_default())
                    .one_of(other.unwrap_or_default(), &[".svg", ".html"]);
                Err(Failure::problems(USAGE, "--plot", vec![problem], None))
            }
        }
    }
}

pub(super) struct Point {
    pub(super) name: String,
    pub(super) cost: f64,
    pub(super) recall: f64,
}

pub(super) fn drawn(kind: Kind, points: &[Point]) -> String {
    let picture = svg(points);
    match kind {
        Kind::Svg => picture,
        Kind::Html => format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{TITLE}</title>\n\
             <body style=\"margin:2em;background:#fff\">\n{picture}</body>\n</html>\n"
        ),
    }
}

const TITLE: &str = "What each policy costs, and what it still shows";
const WIDTH: f64 = 920.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 50.0;
const PLOT_WIDTH: f64 = 500.0;
/// Where the names begin.
const NAMES: f64 = LEFT + PLOT_WIDTH + 40.0;
/// Between two names.
const LINE: f64 = 20.0;
const COLOURS: [&str; 6] = ["#1b6ca8", "#c2410c", "#15803d", "#7e22ce", "#b91c1c", "#4b5563"];

/// A range with round ends, and the distance of its marks.
struct Axis {
    from: f64,
    to: f64,
    step: f64,
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, least: f64, most: f64) -> Axis {
        let from = values.clone().fold(least, f64::min);
        let to = values.fold(most, f64::max);
        // Five to twelve marks.
        let rough = (to - from).max(0.01) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|step| *step >= rough).unwrap_or(power * 10.0);
        Axis { from: (from / step).floor() * step, to: (to / step).ceil() * step, step }
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.from) / (self.to - self.from).max(f64::EPSILON)
    }

    fn marks(&self) -> impl Iterator<Item = f64> {
        let count = ((self.to - self.from) / self.step).round() as usize;
        (0..=count).map(|mark| self.from + mark as f64 * self.step)
    }
}

fn svg(points: &[Point]) -> String {
    let height = (points.len() as f64 * LINE).max(360.0);
    let costs = Axis::over(points.iter().map(|point| point.cost), 1.0, 1.0);
    let recalls = Axis::over(points.iter().map(|point| point.recall), 0.95, 1.0);
    let x = |cost: f64| LEFT + costs.share(cost) * PLOT_WIDTH;
    let y = |recall: f64| TOP + height - recalls.share(recall) * height;
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{full}\" \
         viewBox=\"0 0 {WIDTH} {full}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <title>{TITLE}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">{TITLE}</text>\n",
        full = height + TOP + 60.0,
    );
    for mark in costs.marks() {
        let (at, bottom) = (x(mark), TOP + height);
        let _ = write!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#e5e7eb\"/>\n\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#374151\">{mark:.2}</text>\n",
            bottom + 18.0
        );
    }
    for mark in recalls.marks() {
        let (at, right) = (y(mark), LEFT + PLOT_WIDTH);
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e5e7eb\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#374151\">{mark:.3}</text>\n",
            LEFT - 8.0,
            at + 4.0
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">cost, with fetching again what was \
         forgotten (full = 1)</text>\n\
         <text x=\"18\" y=\"{middle:.1}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 18 {middle:.1})\">needed-fact recall</text>\n",
        LEFT + PLOT_WIDTH / 2.0,
        TOP + height + 42.0,
        middle = TOP + height / 2.0,
    );
    if points.is_empty() {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">no action needed a fact</text>",
            LEFT + 20.0,
            TOP + 30.0
        );
    }
    let places: Vec<(f64, f64)> = points.iter().map(|own| (x(own.cost), y(own.recall))).collect();
    let names = spread(&places.iter().map(|place| place.1).collect::<Vec<_>>(), height);
    for (((point, (x, y)), name), colour) in
        points.iter().zip(places).zip(names).zip(COLOURS.iter().cycle())
    {
        let _ = write!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{:.1}\" y2=\"{name:.1}\" stroke=\"{colour}\" \
             stroke-opacity=\"0.4\"/>\n\
             <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"{colour}\"/>\n\
             <text x=\"{NAMES}\" y=\"{:.1}\" fill=\"{colour}\">{}: recall {:.3}, cost {:.2}</text>\n",
            NAMES - 6.0,
            name + 4.0,
            escaped(&point.name),
            point.recall,
            point.cost,
        );
    }
    out.push_str("</svg>\n");
    out
}

/// The heights of the names: each as near to its point as the others let it, in the same order.
fn spread(wanted: &[f64], height: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..wanted.len()).collect();
    order.sort_by(|one, other| wanted[*one].total_cmp(&wanted[*other]));
    let mut places = vec![0.0; wanted.len()];
    let mut least = TOP;
    for (rank, own) in order.iter().enumerate() {
        let below = (wanted.len() - rank - 1) as f64 * LINE;
        let place = wanted[*own].min(TOP + height - below).max(least);
        places[*own] = place;
        least = place + LINE;
    }
    places
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
