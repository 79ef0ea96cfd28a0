//! `leasehold run`: a command that runs while a lock is held.
//!
//! `run/hold.rs` acquires and releases, `run/nested.rs` warns of a deadlock with an enclosing run, `run/child.rs`
//! manages the command's process group, `run/terminal.rs` the terminal, `run/times.rs` the time limits,
//! `run/waiting.rs` the messages of a long wait, `run/target.rs` the names of the locks, `run/once.rs` the periods. `run/supervise.rs` handles events, `run/stops.rs` resumes stopped
//! commands, and this file combines them.

mod child;
mod hold;
mod nested;
mod once;
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
use std::path::Path;
use std::time::Instant;
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
    // The clock at the start decides, because the connect may take long.
    let period = once::period(options)?;
    let (application, times) = (application(options), Times::of(options));
    let mut waiting = waiting::ForServer::new(options, server.json);
    let patience = Patience {
        lease: options.lease,
        as_whom: &application,
        note: options.note.as_deref(),
        limit: times.for_server(),
        option: times.option(),
        waits: times.waits(),
    };
    let connecting = connection::connect_with(&patience, server, |failure| waiting.hears(failure));
    let client = match signals.unless_ended(connecting).await {
        Ok(client) => client?,
        Err(signal) => return Ok(Ending::by(signal)),
    };
    let result = with_client(&client, options, period, times, &mut signals, unblocks, server.json).await;
    // A signal ends the wait for a silent server. The lock is then free when its lease ends.
    let _ = signals.unless_ended(client.shutdown(FAREWELL)).await;
    result
}

/// The announced name: the program without its arguments, which may be secret.
fn application(options: &RunOptions) -> String {
    let program = options.command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    format!("leasehold run {}", program.display())
}

#[expect(clippy::too_many_arguments, reason = "the parts of one run")]
async fn with_client(
    client: &Client,
    options: &RunOptions,
    period: Option<Period>,
    times: Times,
    signals: &mut Signals,
    unblocks: bool,
    json: bool,
) -> Result<Ending, Failure> {
    let (target, begun) = (&Target::of(client, options, period), Instant::now());
    let acquiring = async {
        tokio::select! {
            biased;
            acquired = hold::acquire(client, target, times) => acquired,
            never = nested::warn(client, target, json) => match never {},
            never = waiting::tell(client, target, json) => match never {},
        }
    };
    let held = match signals.unless_ended(acquiring).await {
        Ok(held) => held?,
        // The drop of the future rolls back a pending acquire.
        Err(signal) => return Ok(Ending::by(signal)),
    };
    waiting::over(target, begun, json);
    // Right after the grant the whole lease remains.
    let limits = Limits { grace: options.grace, lease: held.remaining(), max_hold: options.max_hold };
    let terminal = Terminal::of_this_process();
    let name = &*target.shown;
    let end = match Child::start(&options.command, &held.environment(target), &terminal, unblocks, json) {
        Ok(mut child) => {
            let (child, held, terminal) = (&mut child, &held, &terminal);
            Supervised { child, held, signals, terminal, limits, name, json, passed: Vec::new() }.follow().await
        }
        Err(error) => End::NotStarted(error),
    };
    match end {
        End::Done { ended, held_to_the_end, by_key } => {
            held.mark_done(ended, options.retry_failed);
            let released = release(held, signals).await;
            judge(name, ended, held_to_the_end, released, json).map(|()| ended.passed_on(by_key))
        }
        End::Stopped { why, ended, in_reach } => {
            if matches!(why, Why::MaxHold(_)) && held.is_held() {
                release(held, signals).await.told(name, json);
            } else {
                // The server may not answer; the background retries the release until the client is closed.
                drop(held);
            }
            let stopped = if in_reach { "was stopped" } else { "could not be stopped" };
            Err(Failure::new(Exit::Lost, format!("{}; the command {stopped} and ended with {ended}", why.told(name)))
                .of_lock(name))
        }
        End::NotStarted(error) => {
            held.release().await.told(name, json);
            Err(Failure::new(Exit::Other, format!("cannot start the command: {error}")).of_lock(name))
        }
    }
}

/// Releases the lock. A signal ends the wait for the reply; the background continues the release until the client is
/// closed.
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
        // A hold that is missing on the server may have been lost before the command ended. A hold that only expired after
        // the end of the command was not.
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
