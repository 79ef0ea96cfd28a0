//! The records of `run` and `leader`: a report line, and metrics in a text file.

mod textfile;

use super::child::Ended;
use super::hold::Held;
use crate::args::RecordOptions;
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::moment;
use crate::output;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};
use textfile::TextFile;
pub(super) use textfile::escaped_label;

/// The record of one run.
pub(super) struct Record<'a> {
    options: &'a RecordOptions,
    name: &'a str,
    json: bool,
    start: String,
    begun: Instant,
    grant: Option<Grant>,
    ended: Option<Ended>,
    fate: Fate,
}

struct Grant {
    holder: String,
    token: Option<u64>,
    waited: Duration,
    at: Instant,
    held: Option<Duration>,
}

/// What happened to the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Kept,
    Lost,
    MaxHold,
}

impl<'a> Record<'a> {
    /// Begins the record with the start of the wait for server and lock.
    ///
    /// # Errors
    ///
    /// A file cannot be written. A job must not run without its report.
    pub(super) fn begin(options: &'a RecordOptions, name: &'a str, json: bool) -> Result<Self, Failure> {
        if let Some(path) = &options.report {
            OpenOptions::new().append(true).create(true).open(path).map_err(|error| unwritten(path, &error))?;
        }
        if let Some(folder) = &options.textfile {
            TextFile::of(folder, name).check().map_err(|error| unwritten(folder, &error))?;
        }
        let (start, begun) = (moment::now(), Instant::now());
        Ok(Self { options, name, json, start, begun, grant: None, ended: None, fate: Fate::Kept })
    }

    /// Records the grant of the lock.
    pub(super) fn granted(&mut self, held: &Held) {
        let at = Instant::now();
        let token = held.fencing_token().map(u64::from);
        let (holder, waited) = (held.ids(), at - self.begun);
        self.grant = Some(Grant { holder, token, waited, at, held: None });
        self.write_metrics(|file| file.started(waited));
    }

    /// Records the end of the command.
    pub(super) const fn command_ended(&mut self, ended: Ended) {
        self.ended = Some(ended);
    }

    /// Records the end of the hold.
    pub(super) fn hold_ended(&mut self, fate: Fate) {
        self.fate = fate;
        if let Some(grant) = &mut self.grant {
            grant.held = Some(grant.at.elapsed());
        }
    }

    /// Writes the record at the end of the run. A failed write is only a warning, because the run is over.
    pub(super) fn end(mut self, result: &Result<Ending, Failure>) {
        if self.grant.as_ref().is_some_and(|grant| grant.held.is_none()) {
            self.hold_ended(self.fate);
        }
        let code = match result {
            Ok(ending) => ending.code(),
            Err(failure) => failure.code(),
        };
        let outcome = self.outcome(result);
        self.write_metrics(|file| match &self.grant {
            Some(grant) => {
                file.ended(code, grant.held.unwrap_or_default(), self.fate == Fate::Lost, code == 0);
            }
            None if outcome == "busy" => file.was_busy(),
            None => file.failed(code),
        });
        if let Some(path) = &self.options.report
            && let Err(error) = self.append(path, outcome, code)
        {
            self.warn(path, &error);
        }
    }

    /// Returns the result in one word.
    fn outcome(&self, result: &Result<Ending, Failure>) -> &'static str {
        match (self.fate, result) {
            (Fate::Lost, _) => "lost",
            (Fate::MaxHold, _) => "max_hold",
            (_, Err(failure)) => failure.exit().word(),
            (_, Ok(_)) if self.grant.is_none() => "interrupted",
            (_, Ok(_)) => "done",
        }
    }

    fn append(&self, path: &Path, outcome: &str, code: u8) -> std::io::Result<()> {
        let (exit, signal) = match self.ended {
            Some(Ended::Exited(code)) => (Some(code), None),
            Some(Ended::Killed(signal)) => (None, Some(signal)),
            None => (None, None),
        };
        let (waited, grant) = match &self.grant {
            Some(grant) => (grant.waited, Some(grant)),
            None => (self.begun.elapsed(), None),
        };
        let line = json!({
            "start": self.start,
            "name": self.name,
            "holder": grant.map(|grant| &grant.holder),
            "token": grant.and_then(|grant| grant.token),
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "pid": std::process::id(),
            "waited_ms": millis(waited),
            "held_ms": grant.and_then(|grant| grant.held).map(millis),
            "exit": exit,
            "signal": signal,
            "lost": self.fate == Fate::Lost,
            "outcome": outcome,
            "exit_code": code,
        });
        // Write the line with one call, because several processes may share the file.
        OpenOptions::new().append(true).create(true).open(path)?.write_all(format!("{line}\n").as_bytes())
    }

    fn write_metrics(&self, change: impl FnOnce(&mut TextFile)) {
        let Some(folder) = &self.options.textfile else { return };
        let mut file = TextFile::of(folder, self.name);
        change(&mut file);
        if let Err(error) = file.write() {
            self.warn(folder, &error);
        }
    }

    fn warn(&self, path: &Path, error: &std::io::Error) {
        let text = format!("cannot record the run of {:?}: {}: {error}", self.name, path.display());
        output::warn("not_recorded", self.name, &text, self.json);
    }
}

fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Io, format!("{} cannot be written: {error}", path.display()))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
