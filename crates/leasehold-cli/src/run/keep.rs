//! `leasehold hold` and `leasehold release`: hold a lock without a command.

use super::target::Target;
use super::times::Times;
use super::{acquired, connect, release as release_held};
use crate::args::{HoldOptions, ReleaseOptions, RunOptions, ServerOptions, UnlockOptions};
use crate::connection::{self, FAREWELL};
use crate::ending::Ending;
use crate::failure::{Exit, Failure};
use crate::look::look;
use crate::output;
use crate::signals::{Signals, asks_to_end, stop_this_process};
use crate::unlock;
use leasehold::{Client, Lost};
use rustix::process::Signal;
use serde_json::json;
use std::fs::OpenOptions;
use std::time::Duration;

/// Holds the lock until a signal.
///
/// # Errors
///
/// The lock was not acquired, was lost, or was held for `--max-hold`.
pub(crate) async fn hold(options: &HoldOptions, server: &ServerOptions) -> Result<Ending, Failure> {
    let mut signals = Signals::listen()?;
    let options = options.as_run();
    let times = Times::of(&options);
    let client = match connect("leasehold hold", &options, times, &mut signals, server, |_| {}).await {
        Ok(client) => client?,
        Err(signal) => return Ok(Ending::by(signal)),
    };
    let result = keep(&client, &options, times, &mut signals, server.json).await;
    // A signal ends the wait for a silent server. The lock is then free at the end of its lease.
    let _ = signals.unless_ended(client.shutdown(FAREWELL)).await;
    result
}

/// How a hold ended.
enum End {
    Signal,
    Lost(Lost),
    MaxHold(Duration),
}

async fn keep(
    client: &Client,
    options: &RunOptions,
    times: Times,
    signals: &mut Signals,
    json: bool,
) -> Result<Ending, Failure> {
    let held = match acquired(client, &Target::of(client, options, None), times, signals, json).await {
        Ok(held) => held?,
        Err(signal) => return Ok(Ending::by(signal)),
    };
    let (name, holder) = (&options.name, held.ids());
    let token = held.fencing_token().map(u64::from);
    output::print(&if json {
        format!("{}\n", json!({ "name": name, "holder": holder, "token": token }))
    } else {
        format!("{holder}\n")
    })?;
    close_stdout();
    let end = tokio::select! {
        biased;
        lost = held.lost() => End::Lost(lost),
        most = over(options.max_hold) => End::MaxHold(most),
        () = ended(signals) => End::Signal,
    };
    let text = match end {
        End::Signal => {
            release_held(held, signals).await.told(name, json);
            return Ok(0.into());
        }
        End::MaxHold(most) => {
            release_held(held, signals).await.told(name, json);
            format!("the lock {name:?} was held for {most:?} (--max-hold)")
        }
        End::Lost(lost) => lost.to_string(),
    };
    Err(Failure::new(Exit::Lost, text).of_lock(name))
}

/// Closes stdout, to complete `$(leasehold hold NAME &)`. After a failure, the caller must read exactly one line.
fn close_stdout() {
    if let Ok(null) = OpenOptions::new().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

async fn over(max_hold: Option<Duration>) -> Duration {
    match max_hold {
        Some(most) => {
            tokio::time::sleep(most).await;
            most
        }
        None => std::future::pending().await,
    }
}

/// Completes with a signal that ends the hold.
async fn ended(signals: &mut Signals) {
    loop {
        match signals.next().await {
            signal if asks_to_end(signal) => return,
            Signal::TSTP => _ = stop_this_process(),
            _ => {}
        }
    }
}

/// Ends the hold with this id.
///
/// # Errors
///
/// The holder option is missing, or another process holds the lock.
pub(crate) async fn release(options: &ReleaseOptions, server: &ServerOptions) -> Result<u8, Failure> {
    let Some(holder) = options.holder.clone() else {
        let text = format!(
            "release needs --holder ID, the line that `leasehold hold` printed; to free the lock of another process, use: leasehold unlock {}",
            options.name
        );
        return Err(Failure::new(Exit::Usage, text).of_lock(&options.name));
    };
    let client = connection::connect(server, "leasehold release").await?;
    let result = release_of(&client, &options.name, holder, server.json).await;
    // This command holds no lock.
    let _ = client.shutdown(FAREWELL).await;
    result
}

async fn release_of(client: &Client, name: &str, holder: String, json: bool) -> Result<u8, Failure> {
    if look(client, name).await?.is_none() {
        let text = format!("no such holder of the lock {name:?}: the lock is free, because the hold has already ended");
        return Err(Failure::new(Exit::Conflict, text).of_lock(name));
    }
    let options = UnlockOptions { holder: Some(holder), yes: true, ..UnlockOptions::default() };
    unlock::free_lock(client, name, &options, json).await
}
