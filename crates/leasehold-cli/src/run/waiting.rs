//! The messages of a long wait.

use super::hold::{first_held, with_process};
use super::target::Target;
use crate::args::RunOptions;
use crate::duration::show;
use crate::failure::Failure;
use crate::look::look;
use crate::output;
use leasehold::Client;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// Delay of the message about a wait. A cron job must not send mail about a shorter wait.
const LONG: Duration = Duration::from_secs(10);

/// Delay of the message with `--verbose`. The server grants a free lock sooner.
const SOON: Duration = Duration::from_millis(200);

/// Prints once, after a long wait for the server, why the server does not reply.
pub(super) struct ForServer<'a> {
    options: &'a RunOptions,
    json: bool,
    begun: Instant,
    after: Duration,
    told: bool,
}

impl<'a> ForServer<'a> {
    pub(super) fn new(options: &'a RunOptions, json: bool) -> Self {
        let after = if options.verbose { SOON } else { LONG };
        Self { options, json, begun: Instant::now(), after, told: options.quiet }
    }

    /// Handles a failed attempt before its retry.
    pub(super) fn hears(&mut self, failure: &Failure) {
        if self.begun.elapsed() >= self.after && !std::mem::replace(&mut self.told, true) {
            let name = &self.options.names().join(" + ");
            output::warn(
                "waiting",
                name,
                &format!("waiting for the server of the lock {name:?}: {failure}"),
                self.json,
            );
        }
    }
}

/// Prints once what `run` waits for, after a long wait or with `--verbose` after a short wait. Never completes.
pub(super) async fn tell(client: &Client, target: &Target<'_>, json: bool) -> Infallible {
    let options = target.options;
    if !options.quiet && !options.try_once {
        tokio::time::sleep(if options.verbose { SOON } else { LONG }).await;
        let name = &target.shown;
        let why = match &target.names[..] {
            [name] => match look(client, name).await {
                Ok(Some(seen)) => match seen.holds.first() {
                    Some(hold) => format!(", held by {}", with_process(client, hold.holder.id.as_str()).await),
                    None => trouble(target),
                },
                // The lock was just free, and the server may grant it to another waiter.
                Ok(None) => trouble(target),
                Err(failure) => format!("; {failure}"),
            },
            _ => first_held(client, target).await.map(|who| format!("; {who}")).unwrap_or_default(),
        };
        output::warn("waiting", name, &format!("waiting for the lock {name:?}{why}"), json);
    }
    std::future::pending().await
}

/// Describes why the last attempt to acquire a free lock failed.
fn trouble(target: &Target<'_>) -> String {
    target.trouble.borrow().as_ref().map(|why| format!("; {why}")).unwrap_or_default()
}

/// Prints the duration of the wait, with `--verbose`.
pub(super) fn over(target: &Target<'_>, begun: Instant, json: bool) {
    if target.options.verbose {
        let name = &target.shown;
        output::warn("granted", name, &format!("got the lock {name:?} after {}", show(begun.elapsed())), json);
    }
}
