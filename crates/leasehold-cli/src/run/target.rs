//! The locks of a command.

use super::once;
use crate::args::RunOptions;
use leasehold::Client;
use leasehold::once::{Once, Period};
use std::cell::RefCell;

/// What a command runs under: a lock, several locks, or a job in its period.
pub(super) struct Target<'a> {
    pub(super) options: &'a RunOptions,
    /// The names of the locks, without the prefix.
    pub(super) names: Vec<String>,
    /// The names in messages, joined by ` + `.
    pub(super) shown: String,
    pub(super) job: Option<Job>,
    /// The failure of the last attempt to acquire, after which the wait continues.
    pub(super) trouble: RefCell<Option<String>>,
}

/// The job of `--once`.
pub(super) struct Job {
    pub(super) once: Once,
    /// The key of the period, or the time of its schedule.
    pub(super) period: String,
    /// How long the server remembers that the job is done.
    pub(super) keep: std::time::Duration,
}

impl<'a> Target<'a> {
    pub(super) fn of(client: &Client, options: &'a RunOptions, period: Option<Period>) -> Self {
        let job = period.map(|period| {
            let (shown, keep) = (once::shown(options, &period), period.kept_for());
            Job { once: client.once(&options.name, period), period: shown, keep }
        });
        let names = match &job {
            Some(job) => vec![job.once.lock().name().to_owned()],
            None => options.names(),
        };
        let shown = names.join(" + ");
        Self { options, names, shown, job, trouble: RefCell::default() }
    }

    /// The name for the command: that of the job, or of the locks.
    pub(super) fn own_name(&self) -> &str {
        if self.job.is_some() { &self.options.name } else { &self.shown }
    }
}
