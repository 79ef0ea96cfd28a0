//! `leasehold leader`: runs a command while this process leads.
//!
//! The leader holds the fenced lock of the name, like a leader in the library. After a loss, the library drops the
//! leader's future, but a command needs SIGTERM and time to exit. So this file runs its own campaign, and supervises
//! the command as `run` does. `leader/health.rs` serves health checks.

mod health;

use super::record::{Fate, Record};
use super::supervise::{End, Why};
use super::target::Target;
use super::times::Times;
use super::{Runner, connect, hold, judge, nested, release, stopped, terminal};
use crate::args::{LeaderOptions, RunOptions, ServerOptions};
use crate::connection::FAREWELL;
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::http;
use crate::output;
use crate::signals::Signals;
use health::Health;
use leasehold::Client;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// Campaigns, and runs the command during each term, until the command ends.
///
/// # Errors
///
/// The campaign failed, or the command cannot be stopped.
pub(crate) async fn lead(options: &LeaderOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    // Threads inherit the blocked signals, so this must come first.
    let unblocks = terminal::allow_changes()?;
    let mut signals = Signals::listen()?;
    let record = Record::begin(&options.records, &options.name, server.json)?;
    let as_run = options.as_run();
    let runner = Runner::of(&as_run, &options.name, unblocks, server.json);
    let health = Arc::new(Health::new(&options.name, runner.is_stopping.clone()));
    let (ended, is_ended) = watch::channel(false);
    let answers = match options.health {
        Some(address) => {
            let listener = listen(address, server.json).await?;
            Some(tokio::spawn(http::serve(listener, health.clone().router(), is_ended)))
        }
        None => None,
    };
    let result = campaign(options, &as_run, server, &runner, &mut signals, record, &health).await;
    ended.send_replace(true);
    if let Some(answers) = answers {
        // The panic hook has printed the panic.
        let _ = answers.await;
    }
    result
}

async fn listen(address: SocketAddr, json: bool) -> Result<TcpListener, Failure> {
    let refused =
        |error| Failure::new(Exit::Usage, format!("cannot listen on {address}: {error}; set another --health"));
    let listener = TcpListener::bind(address).await.map_err(refused)?;
    // Port 0 selects a free port.
    if address.port() == 0 {
        let address = listener.local_addr().map_err(refused)?;
        output::note(&format!("health checks on http://{address}/"), json);
    }
    Ok(listener)
}

async fn campaign(
    options: &LeaderOptions,
    as_run: &RunOptions,
    server: &ServerOptions,
    runner: &Runner<'_>,
    signals: &mut Signals,
    record: Record<'_>,
    health: &Health,
) -> Result<Ending, Failure> {
    let client = match connect("leasehold leader", as_run, Times::of(as_run), signals, server, |failure| {
        health.fails(failure.to_string());
    })
    .await
    {
        Ok(Ok(client)) => client,
        Ok(Err(failure)) => {
            let result = Err(failure);
            record.end(&result);
            return result;
        }
        Err(signal) => {
            let result = Ok(Ending::by(signal));
            record.end(&result);
            return result;
        }
    };
    let mut record = record;
    let result = loop {
        match term(&client, as_run, runner, signals, &mut record, health).await {
            Term::Over(result) => {
                record.end(&result);
                break result;
            }
            Term::Lost(failure) => {
                if !options.quiet {
                    output::warn("lost", &options.name, &format!("{failure}; campaigning again"), server.json);
                }
                record.end(&Err(failure));
                record = Record::begin(&options.records, &options.name, server.json)?;
            }
        }
    };
    let _ = signals.unless_ended(client.shutdown(FAREWELL)).await;
    result
}

/// How a term ended.
enum Term {
    /// The leadership was lost, and `leasehold` stopped the command.
    Lost(Failure),
    Over(Result<Ending, Failure>),
}

/// Campaigns until this process leads. Then runs the command until the command or the leadership ends.
async fn term(
    client: &Client,
    options: &RunOptions,
    runner: &Runner<'_>,
    signals: &mut Signals,
    record: &mut Record<'_>,
    health: &Health,
) -> Term {
    let target = &Target::of(client, options, None);
    let campaigning = async {
        tokio::select! {
            biased;
            acquired = hold::acquire(client, target, Times::of(options)) => acquired,
            never = nested::warn(client, target, runner.json) => match never {},
            never = health.look(client, target) => match never {},
        }
    };
    let held = match signals.unless_ended(campaigning).await {
        Ok(Ok(held)) => held,
        Ok(Err(failure)) => return Term::Over(Err(failure)),
        // Dropping the future rolls back a pending acquire.
        Err(signal) => return Term::Over(Ok(Ending::by(signal))),
    };
    record.granted(&held);
    health.leads(&held);
    if !options.quiet {
        let token = held.fencing_token().map(|token| format!(" with the fencing token {token}")).unwrap_or_default();
        output::note(&format!("leads {:?}{token}", options.name), runner.json);
    }
    let (end, is_asked_to_end) = runner.command_under(target, &held, signals).await;
    health.campaigns();
    let name = runner.name;
    match end {
        End::Done { ended, held_to_the_end, by_key } => {
            record.command_ended(ended);
            let released = release(held, signals).await;
            record.hold_ended(Fate::Kept);
            match judge(name, ended, held_to_the_end, released, runner.json) {
                Err(failure) => {
                    record.hold_ended(Fate::Lost);
                    if is_asked_to_end { Term::Over(Ok(ended.passed_on(by_key))) } else { Term::Lost(failure) }
                }
                Ok(()) => Term::Over(Ok(ended.passed_on(by_key))),
            }
        }
        End::Stopped { why, ended, in_reach } => {
            record.command_ended(ended);
            record.hold_ended(Fate::Lost);
            drop(held);
            let failure = stopped(name, &why, ended, in_reach);
            match why {
                // The old command still runs. Do not campaign, because a second command would run beside it.
                _ if !in_reach => Term::Over(Err(failure)),
                _ if is_asked_to_end => Term::Over(Ok(ended.passed_on(false))),
                Why::Lost(_) | Why::NotRenewed | Why::MaxHold(_) => Term::Lost(failure),
            }
        }
        End::NotStarted(error) => {
            held.release().await.told(name, runner.json);
            Term::Over(Err(super::not_started(name, &error)))
        }
    }
}
