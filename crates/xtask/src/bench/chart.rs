//! Bars, as SVG: readable on light and on dark pages, and by those who hear a page.

use super::figures::{Claim, number};
use svg::{
    Document,
    node::element::{Description, Group, Line, Rectangle, Style, Text, Title},
};

/// The way in which a figure becomes a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// For figures that differ by a hundred times and more. A bar begins at 1.
    Logarithmic,
}

/// The bars of one size of the work.
pub(crate) struct Bars<'a> {
    pub(crate) case: &'a str,
    pub(crate) bars: Vec<(&'a str, Claim)>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 180.0;
const RIGHT: f64 = 150.0;
const BAR: f64 = 14.0;
const STEP: f64 = 19.0;
const HEAD: f64 = 30.0;

/// Colours stand for the library alone; every bar has its name and its figure beside it.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.head{font-weight:600}.paper{fill:#fff}.ours{fill:#0969da}\
.other{fill:#8c959f}.spread{stroke:#24292f}.one{stroke:#cf222e;stroke-dasharray:3 3}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.paper{fill:#0d1117}.ours{fill:#2f81f7}.other{fill:#6e7681}.spread{stroke:#e6edf3}\
.one{stroke:#ff7b72}}";

/// A picture of a figure, with a line at 1 where that is the base.
pub(crate) fn draw(title: &str, scale: Scale, has_base: bool, groups: &[Bars<'_>]) -> String {
    let axis = Axis::over(scale, groups);
    let mut drawn = Group::new();
    let mut y = HEAD;
    for group in groups {
        y += STEP;
        drawn = drawn.add(Text::new(group.case).set("x", 8).set("y", y - 5.0).set("class", "head"));
        for (name, claim) in &group.bars {
            drawn = drawn.add(bar(&axis, name, *claim, y));
            y += STEP;
        }
        y += 8.0;
    }
    if has_base {
        let x = axis.x(1.0);
        let line = Line::new().set("x1", x).set("x2", x).set("y1", HEAD).set("y2", y);
        drawn = drawn.add(line.set("class", "one"));
    }
    let heading = Text::new(title).set("x", 8).set("y", 20).set("class", "head");
    let document = Document::new()
        .set("viewBox", (0, 0, WIDTH, y + 4.0))
        .set("role", "img")
        .set("aria-labelledby", "title about")
        .add(Title::new(title).set("id", "title"))
        .add(Description::new().set("id", "about").add(svg::node::Text::new(told(groups))))
        .add(Style::new(STYLE))
        .add(Rectangle::new().set("width", "100%").set("height", "100%").set("class", "paper"))
        .add(heading)
        .add(drawn);
    format!("{document}\n")
}

/// A bar, its name on the left and its figure on the right, and a line from the least to the greatest round.
fn bar(axis: &Axis, name: &str, claim: Claim, y: f64) -> Group {
    let (from, to) = (axis.x(axis.start), axis.x(claim.middle));
    let rectangle = Rectangle::new().set("x", from.min(to)).set("y", y).set("width", (to - from).abs().max(1.0));
    let class = if name.starts_with("leasehold") { "ours" } else { "other" };
    let middle = y + BAR / 2.0;
    let spread = Line::new().set("x1", axis.x(claim.least)).set("x2", axis.x(claim.most)).set("y1", middle);
    let figure = Text::new(claim.to_string()).set("x", WIDTH - RIGHT + 10.0).set("y", y + 11.0);
    Group::new()
        .add(Text::new(name).set("x", LEFT - 8.0).set("y", y + 11.0).set("text-anchor", "end"))
        .add(rectangle.set("height", BAR).set("class", class))
        .add(spread.set("y2", middle).set("class", "spread"))
        .add(figure)
}

/// All figures in words.
fn told(groups: &[Bars<'_>]) -> String {
    let case = |group: &Bars<'_>| {
        let bars: Vec<_> = group.bars.iter().map(|(name, claim)| format!("{name} {}", number(claim.middle))).collect();
        format!("{}: {}.", group.case, bars.join(", "))
    };
    groups.iter().map(case).collect::<Vec<_>>().join(" ")
}

struct Axis {
    scale: Scale,
    /// The figure at which bars begin.
    start: f64,
    least: f64,
    most: f64,
}

impl Axis {
    fn over(scale: Scale, groups: &[Bars<'_>]) -> Self {
        let claims = || groups.iter().flat_map(|group| &group.bars).map(|(_, claim)| claim);
        let most = claims().map(|claim| claim.most).fold(1.0, f64::max);
        match scale {
            Scale::Linear => Self { scale, start: 0.0, least: 0.0, most },
            Scale::Logarithmic => {
                let positive = claims().map(|claim| claim.least).filter(|least| *least > 0.0);
                Self { scale, start: 1.0, least: positive.fold(1.0, f64::min), most }
            }
        }
    }

    fn x(&self, figure: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (figure - self.least) / (self.most - self.least),
            Scale::Logarithmic => {
                let span = (self.most / self.least).ln();
                if span > 0.0 { (figure.max(self.least) / self.least).ln() / span } else { 0.0 }
            }
        };
        // Tenths of a pixel are not seen, and keep the file small.
        ((LEFT + share * (WIDTH - LEFT - RIGHT)) * 10.0).round() / 10.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(middle: f64) -> Claim {
        Claim { middle, least: middle / 2.0, most: middle * 2.0, rounds: 3 }
    }

    #[test]
    fn lengths_follow_the_scale() {
        let bars = [Bars { case: "64 tasks", bars: vec![("a", claim(0.5)), ("b", claim(50.0))] }];
        let linear = Axis::over(Scale::Linear, &bars);
        assert_eq!((linear.x(0.0), linear.x(100.0), linear.x(50.0)), (180.0, 610.0, 395.0));
        let logarithmic = Axis::over(Scale::Logarithmic, &bars);
        assert_eq!((logarithmic.x(0.25), logarithmic.x(100.0)), (180.0, 610.0));
        let (one, ten) = (logarithmic.x(1.0), logarithmic.x(10.0));
        assert!((ten - one - (logarithmic.x(100.0) - ten)).abs() < 0.2, "{one} {ten}");
        assert_eq!(logarithmic.x(0.0), 180.0, "nothing has no logarithm");
    }

    #[test]
    fn picture_is_told_in_words_and_for_both_colour_schemes() {
        let bars = [Bars { case: "64 tasks", bars: vec![("leasehold", claim(0.86)), ("a & b", claim(2.0))] }];
        let drawn = draw("Throughput", Scale::Linear, true, &bars);
        for part in [
            "role=\"img\"",
            "Throughput</title>",
            "64 tasks: leasehold 0.86, a &amp; b 2.00.",
            "prefers-color-scheme:dark",
            "class=\"ours\"",
            "0.86 (0.43 to 1.72)",
        ] {
            assert!(drawn.contains(part), "{part} in {drawn}");
        }
    }
}
