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

/// The delay of the message about a wait. A shorter wait is not worth a line in the mail of a cron job.
const LONG: Duration = Duration::from_secs(10);

/// The same with `--verbose`. A free lock is granted before this delay.
const SOON: Duration = Duration::from_millis(200);

/// After a long wait for the server, prints once why it does not answer.
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

/// After a long wait, or soon with `--verbose`, prints once what `run` waits for. Never completes.
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
                // The lock was free at this moment, and another waiter may get it.
                Ok(None) => trouble(target),
                Err(failure) => format!("; {failure}"),
            },
            _ => first_held(client, target).await.map(|who| format!("; {who}")).unwrap_or_default(),
        };
        output::warn("waiting", name, &format!("waiting for the lock {name:?}{why}"), json);
    }
    std::future::pending().await
}

/// Why the last attempt to acquire a free lock failed.
fn trouble(target: &Target<'_>) -> String {
    target.trouble.borrow().as_ref().map(|why| format!("; {why}")).unwrap_or_default()
}

/// With `--verbose`, prints how long the wait took.
pub(super) fn over(target: &Target<'_>, begun: Instant, json: bool) {
    if target.options.verbose {
        let name = &target.shown;
        output::warn("granted", name, &format!("got the lock {name:?} after {}", show(begun.elapsed())), json);
    }
}
