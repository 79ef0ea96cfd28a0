//! Metrics for Prometheus. No label contains a lock name, so the number of series is bounded.

use super::sample::Sample;
use crate::args::KindWord;
use crate::overview::{Server, Totals};
use clap::ValueEnum as _;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Counters of unlock requests.
#[derive(Debug, Default)]
pub(super) struct Unlocks {
    pub(super) freed: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) failed: AtomicU64,
}

/// Returns the text of `/metrics`.
pub(super) fn text(sample: &Sample, listeners: usize, unlocks: &Unlocks, now: Instant) -> String {
    let mut text = Text(String::new());
    let answers = sample.picture.server == Server::Answers && sample.picture.table.is_some();
    text.one("up", "gauge", "1 if the server replied to the last scan", f64::from(u8::from(answers)));
    text.many(
        "looks_total",
        "counter",
        "scans by outcome",
        &[("outcome=\"done\"", sample.done as f64), ("outcome=\"failed\"", sample.failed as f64)],
    );
    text.one("listeners", "gauge", "browsers with live updates", listeners as f64);
    let count = |count: &AtomicU64| count.load(Ordering::Relaxed) as f64;
    let of_unlocks = [
        ("outcome=\"freed\"", count(&unlocks.freed)),
        ("outcome=\"refused\"", count(&unlocks.refused)),
        ("outcome=\"failed\"", count(&unlocks.failed)),
    ];
    text.many("unlocks_total", "counter", "unlock requests by outcome", &of_unlocks);
    let Some(table) = &sample.picture.table else { return text.0 };
    text.one("look_seconds", "gauge", "duration of the last scan", table.took.as_secs_f64());
    let age = now.saturating_duration_since(table.begun);
    text.one("look_age_seconds", "gauge", "age of the metrics of locks", age.as_secs_f64());
    // Omit outdated metrics.
    if answers {
        of_locks(&mut text, sample);
        text.one("cut", "gauge", "1 if the last scan reached its limit of locks", f64::from(u8::from(table.is_cut)));
    }
    text.0
}

fn of_locks(text: &mut Text, sample: &Sample) {
    let rows = || sample.picture.rows.iter().filter(|row| !row.is_gone);
    let kinds: Vec<_> = KindWord::value_variants().iter().map(|kind| kind.found()).collect();
    let labels: Vec<_> = kinds.iter().map(|kind| format!("kind=\"{}\"", kind.word())).collect();
    let counts = kinds.iter().map(|kind| rows().filter(|row| row.found.kind == *kind).count() as f64);
    let by_kind: Vec<_> = labels.iter().map(String::as_str).zip(counts).collect();
    text.many("locks", "gauge", "locks by kind", &by_kind);
    let Totals { held, waiting, problems, .. } = sample.picture.totals();
    text.one("held_locks", "gauge", "held locks", held as f64);
    text.one("waiters", "gauge", "waiters, as `leasehold top` counts them", waiting as f64);
    text.one("problem_locks", "gauge", "locks with a problem", problems as f64);
    let longest = |times: Option<Duration>| times.unwrap_or_default().as_secs_f64();
    let held = longest(rows().filter_map(|row| row.held.time()).max());
    text.one("longest_held_seconds", "gauge", "longest hold, as published by holders or observed", held);
    let wait = longest(rows().filter_map(|row| row.found.wait).max());
    text.one("longest_wait_seconds", "gauge", "longest wait in the queue of a fair lock", wait);
}

/// Text in the Prometheus exposition format.
struct Text(String);

impl Text {
    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.many(name, kind, help, &[("", value)]);
    }

    fn many(&mut self, name: &str, kind: &str, help: &str, values: &[(&str, f64)]) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP leasehold_serve_{name} {help}\n# TYPE leasehold_serve_{name} {kind}");
        for (label, value) in values {
            let label = if label.is_empty() { String::new() } else { format!("{{{label}}}") };
            let _ = writeln!(self.0, "leasehold_serve_{name}{label} {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::Overview;
    use crate::overview::row::Found;
    use crate::overview::sample::lock;
    use crate::overview::scans::{Scan, Told};

    fn sample(found: Vec<Found>, is_away: bool) -> String {
        let (mut overview, now) = (Overview::default(), Instant::now());
        overview.take(Told::Done(Scan { begun: now, ended: now, found, is_cut: false, unseen: None }));
        if is_away {
            overview.take(Told::Failed { at: now, why: "gone".to_owned() });
        }
        let sample = Sample { picture: overview.picture().clone(), done: 1, failed: u64::from(is_away) };
        text(&sample, 2, &Unlocks::default(), now)
    }

    #[test]
    fn every_figure_is_documented() {
        let page = include_str!("../../README.md");
        let told = sample(vec![lock("stock")], false);
        let names: Vec<_> = told.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        for name in names.iter().filter_map(|line| line.split(' ').next()) {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
        assert_eq!(page.matches("| `leasehold_serve_").count(), names.len(), "a row for each");
    }

    #[test]
    fn number_of_figures_does_not_grow_with_locks() {
        let many = (0..1_000).map(|at| Found { wait: Some(Duration::from_secs(at)), ..lock(&format!("a\n{at}")) });
        let (one, many) = (sample(vec![lock("stock")], false), sample(many.collect(), false));
        assert_eq!(one.lines().count(), many.lines().count());
        assert!(many.contains("leasehold_serve_locks{kind=\"lock\"} 1000\n"), "{many}");
        assert!(many.contains("leasehold_serve_longest_wait_seconds 999\n"), "{many}");
    }

    #[test]
    fn figures_of_an_outage_are_left_out() {
        let away = sample(vec![lock("stock")], true);
        assert!(away.contains("leasehold_serve_up 0\n") && !away.contains("leasehold_serve_locks{"), "{away}");
        assert!(sample(vec![lock("stock")], false).contains("leasehold_serve_up 1\n"));
    }
}
