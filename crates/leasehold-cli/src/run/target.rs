//! The locks of a command.

use super::once;
use crate::args::RunOptions;
use leasehold::Client;
use leasehold::once::{Once, Period};
use std::cell::RefCell;

/// The target of a command: a lock, several locks, or a job in its period.
pub(super) struct Target<'a> {
    pub(super) options: &'a RunOptions,
    /// The names of the locks, without the prefix.
    pub(super) names: Vec<String>,
    /// The names for messages, joined by ` + `.
    pub(super) shown: String,
    pub(super) job: Option<Job>,
    /// The temporary failure of the last attempt to acquire.
    pub(super) trouble: RefCell<Option<String>>,
}

/// The job of `--once`.
pub(super) struct Job {
    pub(super) once: Once,
    /// The key of the period, or its scheduled time.
    pub(super) period: String,
    /// The time for which the server remembers that the job is done.
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

    /// Returns the name for the command: the job or the locks.
    pub(super) fn own_name(&self) -> &str {
        if self.job.is_some() { &self.options.name } else { &self.shown }
    }
}
