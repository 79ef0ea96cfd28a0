//! `leasehold run`: runs a command under a lock.
//!
//! `run/hold.rs` acquires and releases, `run/once.rs` computes the periods of `--once`, and `run/nested.rs` warns of a
//! deadlock with an enclosing run. `run/child.rs` manages the command's process group, `run/reaper.rs` reaps it, and
//! `run/terminal.rs` manages the terminal. `run/times.rs` computes time limits, `run/waiting.rs` reports a long wait,
//! and `run/record.rs` writes the records. `run/supervise.rs` handles events, `run/stops.rs` resumes stopped commands,
//! and `run/target.rs` names the locks. `run/leader.rs` is `leasehold leader`, `run/keep.rs` `leasehold hold`.

mod child;
mod hold;
pub(crate) mod keep;
pub(crate) mod leader;
mod nested;
mod once;
mod reaper;
mod record;
mod stops;
mod supervise;
mod target;
pub(crate) mod terminal;
mod times;
mod waiting;

use crate::args::{RunOptions, ServerOptions};
use crate::connection::{self, FAREWELL, Patience};
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::output;
use crate::signals::Signals;
use child::{Child, Ended};
use hold::{Held, Released};
use leasehold::Client;
use leasehold::once::Period;
pub(crate) use nested::around;
use reaper::Reaper;
use record::{Fate, Record};
use rustix::process::Signal;
use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use supervise::{End, Limits, Supervised, Why};
use target::Target;
use terminal::Terminal;
use times::Times;

/// Acquires the lock, runs the command, and releases.
///
/// # Errors
///
/// The lock was not acquired, or was lost.
pub(crate) async fn run(options: &RunOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    // Threads inherit the blocked signals, so this must come first.
    let unblocks = terminal::allow_changes()?;
    let mut signals = Signals::listen()?;
    // Read the clock before the connect, which may be slow.
    let (period, times) = (once::period(options)?, Times::of(options));
    let title = options.names().join(" + ");
    let mut record = Record::begin(&options.records, &title, server.json)?;
    let result = match connect("leasehold run", options, times, &mut signals, server, |_| {}).await {
        Ok(Ok(client)) => {
            let runner = Runner::of(options, &title, unblocks, server.json);
            let result = with_client(&client, options, period, times, &runner, &mut signals, &mut record).await;
            // A signal ends the wait for a silent server. The lock is then free at the end of its lease.
            let _ = signals.unless_ended(client.shutdown(FAREWELL)).await;
            result
        }
        Ok(Err(failure)) => Err(failure),
        Err(signal) => Ok(Ending::by(signal)),
    };
    record.end(&result);
    result
}

/// Connects within the time limits of the options. Each temporary failure calls `hears`.
///
/// # Errors
///
/// The signal that ended the wait.
async fn connect(
    verb: &str,
    options: &RunOptions,
    times: Times,
    signals: &mut Signals,
    server: &ServerOptions,
    hears: impl Fn(&Failure),
) -> Result<Result<Client, Failure>, Signal> {
    let mut waiting = waiting::ForServer::new(options, server.json);
    // Announce only the program name. The arguments may be secret.
    let program = options.command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let application = format!("{verb} {}", program.display());
    let patience = Patience {
        lease: options.lease,
        as_whom: application.trim_end(),
        note: options.note.as_deref(),
        limit: times.for_server(),
        option: times.option(),
        waits: times.waits(),
    };
    let connecting = connection::connect_with(&patience, server, |failure| {
        hears(failure);
        waiting.hears(failure);
    });
    signals.unless_ended(connecting).await
}

/// Starts and supervises commands under a lock.
struct Runner<'a> {
    command: &'a [OsString],
    name: &'a str,
    grace: Duration,
    max_hold: Option<Duration>,
    terminal: Terminal,
    reaper: Reaper,
    unblocks: bool,
    json: bool,
    /// Whether `leasehold` is stopping the command.
    is_stopping: Arc<AtomicBool>,
}

impl<'a> Runner<'a> {
    fn of(options: &'a RunOptions, name: &'a str, unblocks: bool, json: bool) -> Self {
        let RunOptions { command, grace, max_hold, .. } = options;
        let (terminal, reaper, is_stopping) = (Terminal::of_this_process(), Reaper::default(), Arc::default());
        Self { command, name, grace: *grace, max_hold: *max_hold, terminal, reaper, unblocks, json, is_stopping }
    }

    /// Runs the command to its end. Also returns whether a signal requested the end of this process.
    async fn command_under(&self, target: &Target<'_>, held: &Held, signals: &mut Signals) -> (End, bool) {
        let Self { terminal, json, is_stopping, .. } = self;
        let name = &*target.shown;
        is_stopping.store(false, Ordering::Release);
        // The whole lease remains right after the grant.
        let limits = Limits { grace: self.grace, lease: held.remaining(), max_hold: self.max_hold };
        let environment = held.environment(target);
        match Child::start(&self.reaper, self.command, &environment, terminal, self.unblocks, *json) {
            Ok(mut child) => {
                let (child, passed) = (&mut child, Vec::new());
                let mut supervised =
                    Supervised { child, held, signals, terminal, limits, name, json: *json, is_stopping, passed };
                (supervised.follow().await, supervised.is_asked_to_end())
            }
            Err(error) => (End::NotStarted(error), false),
        }
    }
}

async fn with_client(
    client: &Client,
    options: &RunOptions,
    period: Option<Period>,
    times: Times,
    runner: &Runner<'_>,
    signals: &mut Signals,
    record: &mut Record<'_>,
) -> Result<Ending, Failure> {
    let (target, json) = (&Target::of(client, options, period), runner.json);
    let held = match acquired(client, target, times, signals, json).await {
        Ok(held) => held?,
        Err(signal) => return Ok(Ending::by(signal)),
    };
    record.granted(&held);
    let name = &*target.shown;
    let (end, _) = runner.command_under(target, &held, signals).await;
    match end {
        End::Done { ended, held_to_the_end, by_key } => {
            record.command_ended(ended);
            held.mark_done(ended, options.retry_failed);
            let released = release(held, signals).await;
            record.hold_ended(Fate::Kept);
            judge(name, ended, held_to_the_end, released, json).inspect_err(|_| record.hold_ended(Fate::Lost))?;
            Ok(ended.passed_on(by_key))
        }
        End::Stopped { why, ended, in_reach } => {
            record.command_ended(ended);
            let is_over = matches!(why, Why::MaxHold(_));
            if is_over && held.is_held() {
                release(held, signals).await.told(name, json);
            } else {
                // The server may not reply. The background retries the release until the client is closed.
                drop(held);
            }
            record.hold_ended(if is_over { Fate::MaxHold } else { Fate::Lost });
            Err(stopped(name, &why, ended, in_reach))
        }
        End::NotStarted(error) => {
            held.release().await.told(name, json);
            Err(not_started(name, &error))
        }
    }
}

/// Returns the failure of a stopped command.
fn stopped(name: &str, why: &Why, ended: Ended, in_reach: bool) -> Failure {
    let stopped = if in_reach { "was stopped" } else { "could not be stopped" };
    let text = format!("{}; the command {stopped} and ended with {ended}", why.told(name));
    Failure::new(Exit::Lost, text).of_lock(name)
}

fn not_started(name: &str, error: &std::io::Error) -> Failure {
    Failure::new(Exit::Other, format!("cannot start the command: {error}")).of_lock(name)
}

/// Acquires the lock, with messages about a long wait.
///
/// # Errors
///
/// The signal that ended the wait. Dropping the future rolls back a pending acquire.
async fn acquired(
    client: &Client,
    target: &Target<'_>,
    times: Times,
    signals: &mut Signals,
    json: bool,
) -> Result<Result<Held, Failure>, Signal> {
    let begun = Instant::now();
    let acquiring = async {
        tokio::select! {
            biased;
            acquired = hold::acquire(client, target, times) => acquired,
            never = nested::warn(client, target, json) => match never {},
            never = waiting::tell(client, target, json) => match never {},
        }
    };
    let held = signals.unless_ended(acquiring).await?;
    if held.is_ok() {
        waiting::over(target, begun, json);
    }
    Ok(held)
}

/// Releases the lock. After a signal, the background retries the release until the client is closed.
async fn release(held: Held, signals: &mut Signals) -> Released {
    match signals.unless_ended(held.release()).await {
        Ok(released) => released,
        Err(signal) => Released::NotConfirmed(format!("signal {} ended the wait for the reply", signal.as_raw())),
    }
}

impl Why {
    fn told(&self, name: &str) -> String {
        match self {
            Self::Lost(lost) => lost.to_string(),
            Self::NotRenewed => {
                format!("renewals of the lock {name:?} failed until shortly before the end of its lease")
            }
            Self::MaxHold(most) => format!("the lock {name:?} was held for {most:?} (--max-hold)"),
        }
    }
}

/// Checks that the lock was held until the command ended.
fn judge(name: &str, ended: Ended, held_to_the_end: bool, released: Released, json: bool) -> Result<(), Failure> {
    match released {
        // A hold that is missing on the server may have been lost before the command ended. A hold that expired after
        // the command's end is fine.
        Released::Lost { error, on_server } if on_server || !held_to_the_end => {
            Err(Failure::new(Exit::Lost, format!("{error}; the command had already ended with {ended}")).of_lock(name))
        }
        other => {
            other.told(name, json);
            Ok(())
        }
    }
}

impl Released {
    /// Warns about an unconfirmed release, which is not a failure after the end of the command.
    fn told(&self, name: &str, json: bool) {
        let error = match self {
            Self::Done => return,
            Self::Lost { error, .. } => error.to_string(),
            Self::NotConfirmed(why) => why.clone(),
        };
        let text = format!("the command ended, but the release failed; the lock is free when its lease ends: {error}");
        output::warn("not_released", name, &text, json);
    }
}
