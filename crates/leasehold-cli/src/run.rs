//! `leasehold run`: a command that runs while a lock is held.
//!
//! `run/hold.rs` acquires and releases, `run/nested.rs` warns of a deadlock with an enclosing run, `run/child.rs`
//! manages the command's process group, `run/terminal.rs` the terminal, `run/times.rs` the time limits,
//! `run/waiting.rs` the messages of a long wait. `run/supervise.rs` handles events, `run/stops.rs` resumes stopped
//! commands, and this file combines them.

mod child;
mod hold;
mod nested;
mod stops;
mod supervise;
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
pub(crate) use nested::around;
use std::path::Path;
use supervise::{End, Limits, Supervised, Why};
use terminal::Terminal;
use times::Times;

/// Acquires the lock, runs the command, and releases.
///
/// # Errors
///
/// The lock was not acquired, or was lost.
pub(crate) async fn run(options: &RunOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    // Before the first thread starts, because each takes over what this one has blocked.
    let unblocks = terminal::allow_changes()?;
    let mut signals = Signals::listen()?;
    let (application, times) = (application(options), Times::of(options));
    let mut waiting = waiting::ForServer::new(options, server.json);
    let patience = Patience {
        lease: options.lease,
        as_whom: &application,
        limit: times.for_server(),
        option: times.option(),
        waits: times.waits(),
    };
    let connecting = connection::connect_with(&patience, server, |failure| waiting.hears(failure));
    let client = match signals.unless_ended(connecting).await {
        Ok(client) => client?,
        Err(signal) => return Ok(Ending::by(signal)),
    };
    let result = with_client(&client, options, times, &mut signals, unblocks, server.json).await;
    // A lock that could not be released in time is free when its lease has run out, and was told of.
    // A server that does not answer keeps this waiting, and a signal ends that.
    let _ = signals.unless_ended(client.shutdown(FAREWELL)).await;
    result
}

/// The name under which the client announces itself: the program, and none of its arguments, which may be secret.
fn application(options: &RunOptions) -> String {
    let program = options.command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    format!("leasehold run {}", program.display())
}

async fn with_client(
    client: &Client,
    options: &RunOptions,
    times: Times,
    signals: &mut Signals,
    unblocks: bool,
    json: bool,
) -> Result<Ending, Failure> {
    let acquiring = async {
        tokio::select! {
            biased;
            acquired = hold::acquire(client, options, times) => acquired,
            never = nested::warn(client, options, json) => match never {},
            never = waiting::tell(client, options, json) => match never {},
        }
    };
    let held = match signals.unless_ended(acquiring).await {
        Ok(held) => held?,
        // The future is dropped, so the client takes back whatever it has asked for.
        Err(signal) => return Ok(Ending::by(signal)),
    };
    // Right after the grant the whole lease remains.
    let limits = Limits { grace: options.grace, lease: held.remaining(), max_hold: options.max_hold };
    let terminal = Terminal::of_this_process();
    let name = &*options.name;
    let end = match Child::start(&options.command, &held.environment(name), &terminal, unblocks, json) {
        Ok(mut child) => {
            let (child, held, terminal) = (&mut child, &held, &terminal);
            Supervised { child, held, signals, terminal, limits, name, json, passed: Vec::new() }.follow().await
        }
        Err(error) => End::NotStarted(error),
    };
    match end {
        End::Done { ended, held_to_the_end, by_key } => {
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
            Err(Failure::new(Exit::Lost, format!("{}; the command {stopped}, and ended with {ended}", why.told(name)))
                .of_lock(name))
        }
        End::NotStarted(error) => {
            held.release().await.told(name, json);
            Err(Failure::new(Exit::Other, format!("the command cannot be started: {error}")).of_lock(name))
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
                format!("the lock {name:?} could not be renewed in time, and its lease was about to end")
            }
            Self::MaxHold(most) => format!("the lock {name:?} was held for {most:?}, as --max-hold says"),
        }
    }
}

/// Whether the command ended on its own while the lock was held.
fn judge(name: &str, ended: Ended, held_to_the_end: bool, released: Released, json: bool) -> Result<(), Failure> {
    match released {
        // A hold that the server did not have any more may have been missing before the command was done. One that was held by its own
        // deadline at the end, and ran out only then, was not.
        Released::Lost { error, on_server } if on_server || !held_to_the_end => Err(Failure::new(
            Exit::Lost,
            format!("{error}; the command was not stopped, and had ended by then with {ended}"),
        )
        .of_lock(name)),
        other => {
            other.told(name, json);
            Ok(())
        }
    }
}

impl Released {
    /// Says a release that is not certain. The command is done, so this is no failure.
    fn told(&self, name: &str, json: bool) {
        let error = match self {
            Self::Done => return,
            Self::Lost { error, .. } => error.to_string(),
            Self::NotConfirmed(why) => why.clone(),
        };
        let text = format!("the command is done, and the lock is free when its lease has run out: {error}");
        output::warn("not_released", name, &text, json);
    }
}
