//! The times that an event took until the page showed it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the page may take.
const LIMIT: u64 = 1_000;

/// The times of one sort of event, in milliseconds.
pub(crate) struct Figures {
    what: String,
    times: Vec<u64>,
}

impl Figures {
    pub(crate) fn of(what: impl Into<String>) -> Self {
        Self { what: what.into(), times: Vec::new() }
    }

    pub(crate) fn add(&mut self, event: u64, shown: u64) {
        self.times.push(shown.saturating_sub(event));
    }

    /// Prints least, median and greatest, and says whether the greatest is within the limit.
    fn tell(mut self) -> bool {
        self.times.sort_unstable();
        let (least, most) = (self.times[0], self.times[self.times.len() - 1]);
        let median = self.times[self.times.len() / 2];
        println!("  {:<36} {least:>5} {median:>5} {most:>5} ms ({} times)", self.what, self.times.len());
        most <= LIMIT
    }
}

/// Prints all of them, and fails where one is too long.
#[track_caller]
pub(crate) fn tell(figures: impl IntoIterator<Item = Figures>) {
    let late = figures.into_iter().map(Figures::tell).filter(|is_in_time| !is_in_time).count();
    assert_eq!(late, 0, "sorts of events that took longer than {LIMIT} ms");
}

/// The present moment, by the clock that the page reads as well.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a moment after 1970");
    millis(since)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("some milliseconds")
}
