//! Numbers: quantiles, medians of ratios, and what a process uses.

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

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let middle = self.values[self.values.len() / 2];
        let (least, most) = (self.values[0], self.values[self.values.len() - 1]);
        write!(f, "{middle:.2} ({least:.2} to {most:.2} over {} rounds)", self.values.len())
    }
}

/// The processor time that this process has used, in the client and in the kernel on its behalf.
pub(crate) fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The fields after the command's name, which may hold spaces: utime and stime are the 12th and 13th of them, in hundredths.
    let after = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Bytes of memory that this process has in use.
pub(crate) fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default();
    pages * 4096
}
