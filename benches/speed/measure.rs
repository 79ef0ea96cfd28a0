//! Numbers: quantiles, medians of ratios, and what a process and a server use.

use leasehold_test_support::Server;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// The value below which `share` of the sample lies.
pub(crate) fn quantile(sample: &mut [Duration], share: f64) -> Duration {
    sample.sort_unstable();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = ((sample.len() - 1) as f64 * share).round() as usize;
    sample[index]
}

/// The median, least and greatest of ratios.
pub(crate) struct Ratio {
    values: Vec<f64>,
}

impl Ratio {
    pub(crate) fn of(ours: &[f64], theirs: &[f64]) -> Self {
        let mut values: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
        values.sort_unstable_by(f64::total_cmp);
        Self { values }
    }
}

/// The middle one of some figures, for what is no ratio.
pub(crate) fn middle(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let middle = self.values[self.values.len() / 2];
        let (least, most) = (self.values[0], self.values[self.values.len() - 1]);
        write!(f, "{middle:.2} ({least:.2} to {most:.2} over {} rounds)", self.values.len())
    }
}

/// The processor time that this process has used, in the client and in the kernel on its behalf.
pub(crate) fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(u64::try_from(used.tv_sec).unwrap_or_default(), u32::try_from(used.tv_nsec).unwrap_or_default())
}

/// How many scripts the server has run, and for how many microseconds.
pub(crate) fn scripts(server: &Server) -> (u64, u64) {
    let info = server.command(&["INFO", "commandstats"]);
    let info = info.as_str().unwrap_or_default();
    let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap_or_default();
    let field = |name: &str| {
        line.split([':', ','])
            .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
            .and_then(|value| value.parse().ok())
            .unwrap_or_default()
    };
    (field("calls"), field("usec"))
}
