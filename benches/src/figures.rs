//! The figures of all rounds, and what is claimed of them.

use crate::row::{Metric, Row, Shown};

/// The figures of one metric of one peer, round by round.
pub(crate) struct Series {
    row: Row,
    /// The size of the work, such as `64 tasks`.
    case: String,
    peer: &'static str,
    metric: &'static Metric,
    rounds: Vec<f64>,
}

/// All series, in the order in which they were measured.
#[derive(Default)]
pub(crate) struct Figures {
    series: Vec<Series>,
}

/// A claim: the middle of the rounds, the least and the greatest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Claim {
    pub(crate) middle: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) rounds: usize,
}

impl Figures {
    pub(crate) fn add(&mut self, row: Row, case: &str, peer: &'static str, metric: &'static Metric, figure: f64) {
        let known = self
            .series
            .iter_mut()
            .find(|one| one.row == row && one.case == case && one.peer == peer && one.metric == metric);
        match known {
            Some(series) => series.rounds.push(figure),
            None => self.series.push(Series { row, case: case.to_owned(), peer, metric, rounds: vec![figure] }),
        }
    }

    fn rounds(&self, row: Row, case: &str, peer: &str, metric: &Metric) -> Option<&[f64]> {
        let mut all = self.series.iter();
        let found = all.find(|one| one.row == row && one.case == case && one.peer == peer && one.metric == metric);
        found.map(|series| &series.rounds[..])
    }

    /// The claim: a ratio to the row's base, or the figure itself. `None` where it was not measured, or its base was not.
    pub(crate) fn claim(&self, row: Row, case: &str, peer: &str, metric: &Metric) -> Option<Claim> {
        let figures = self.rounds(row, case, peer, metric)?;
        match metric.shown {
            Shown::AsItIs => Claim::of(figures.to_vec()),
            Shown::ToBase => {
                let base = self.rounds(row, case, row.base(), metric)?;
                Claim::of(figures.iter().zip(base).map(|(figure, base)| figure / base).collect())
            }
        }
    }

    /// The middle of the figures as they were measured.
    pub(crate) fn middle(&self, row: Row, case: &str, peer: &str, metric: &Metric) -> Option<f64> {
        Claim::of(self.rounds(row, case, peer, metric)?.to_vec()).map(|claim| claim.middle)
    }

    /// The cases of a row.
    pub(crate) fn cases(&self, row: Row) -> Vec<&str> {
        distinct(self.series.iter().filter(|one| one.row == row).map(|one| &one.case[..]))
    }

    /// The peers of a case.
    pub(crate) fn peers(&self, row: Row, case: &str) -> Vec<&'static str> {
        distinct(self.series.iter().filter(|one| one.row == row && one.case == case).map(|one| one.peer))
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    for one in all {
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

impl Claim {
    /// `None` of no figures, and of figures that are no numbers: a base of nothing has no ratio.
    pub(crate) fn of(mut figures: Vec<f64>) -> Option<Self> {
        if figures.iter().any(|figure| !figure.is_finite()) {
            return None;
        }
        figures.sort_unstable_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        Some(Self { middle: figures[figures.len() / 2], least, most, rounds: figures.len() })
    }
}

impl std::fmt::Display for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [middle, least, most] = [self.middle, self.least, self.most].map(number);
        if self.rounds == 1 { f.write_str(&middle) } else { write!(f, "{middle} ({least} to {most})") }
    }
}

/// As many digits behind the point as say something.
pub(crate) fn number(figure: f64) -> String {
    match figure.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.095 => format!("{figure:.3}"),
        middle if middle < 100.0 => format!("{figure:.2}"),
        _ => grouped(&format!("{figure:.0}")),
    }
}

/// `12345678` as `12 345 678`.
fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) && digits.len() > 4 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{BYTES, P50};

    fn figures() -> Figures {
        let mut figures = Figures::default();
        for (peer, rounds) in [("bare fred", [100.0, 200.0, 400.0]), ("leasehold", [150.0, 200.0, 200.0])] {
            for figure in rounds {
                figures.add(Row::Pairs, "1 task", peer, &P50, figure);
            }
        }
        figures
    }

    #[test]
    fn claim_is_the_median_of_the_ratios_of_rounds() {
        let claim = figures().claim(Row::Pairs, "1 task", "leasehold", &P50).expect("a claim");
        assert_eq!(claim, Claim { middle: 1.0, least: 0.5, most: 1.5, rounds: 3 });
        assert_eq!(claim.to_string(), "1.00 (0.50 to 1.50)");
    }

    #[test]
    fn figure_without_its_base_is_no_claim() {
        let mut figures = figures();
        figures.add(Row::Pairs, "64 tasks", "leasehold", &P50, 3.0);
        assert_eq!(figures.claim(Row::Pairs, "64 tasks", "leasehold", &P50), None);
        figures.add(Row::Pairs, "64 tasks", "bare fred", &P50, 0.0);
        assert_eq!(figures.claim(Row::Pairs, "64 tasks", "leasehold", &P50), None, "nothing is no base");
        assert_eq!(figures.middle(Row::Pairs, "64 tasks", "leasehold", &P50), Some(3.0));
    }

    #[test]
    fn sizes_are_claimed_as_they_are() {
        let mut figures = Figures::default();
        figures.add(Row::Held, "10 000 locks", "leasehold", &BYTES, 1_650.0);
        let claim = figures.claim(Row::Held, "10 000 locks", "leasehold", &BYTES).expect("a claim");
        assert_eq!(claim.to_string(), "1650");
        assert_eq!(number(123_456.7), "123 457");
        assert_eq!([99.994, 0.51, 0.0042, 0.0].map(number), ["99.99", "0.51", "0.004", "0"]);
    }
}
