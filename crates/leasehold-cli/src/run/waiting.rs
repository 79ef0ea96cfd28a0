//! The messages of a long wait.

use super::hold::with_process;
use crate::args::RunOptions;
use crate::failure::Failure;
use crate::look::look;
use crate::output;
use leasehold::Client;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// The delay of the message about a wait. A shorter wait is not worth a line in the mail of a cron job.
const LONG: Duration = Duration::from_secs(10);

/// This delay with `--verbose`. A free lock is granted before.
const SOON: Duration = Duration::from_millis(200);

/// After a long wait for the server, prints once why it does not answer.
pub(super) struct ForServer<'a> {
    options: &'a RunOptions,
    json: bool,
    begun: Instant,
    told: bool,
}

impl<'a> ForServer<'a> {
    pub(super) fn new(options: &'a RunOptions, json: bool) -> Self {
        Self { options, json, begun: Instant::now(), told: options.quiet }
    }

    /// Handles a failed attempt before its retry.
    pub(super) fn hears(&mut self, failure: &Failure) {
        if self.begun.elapsed() >= delay(self.options) && !std::mem::replace(&mut self.told, true) {
            let name = self.options.title();
            let text = format!("waiting for the server of the lock {name:?}: {failure}");
            output::warn("waiting", &name, &text, self.json);
        }
    }
}

/// Prints once what `run` waits for, after a long wait or, with `--verbose`, soon. Never completes.
pub(super) async fn tell(client: &Client, options: &RunOptions, json: bool) -> Infallible {
    // With --once the lock has another name.
    if !options.quiet && !options.try_once && options.once.is_none() {
        tokio::time::sleep(delay(options)).await;
        let title = options.title();
        let mut why = String::new();
        for name in options.names() {
            match look(client, name).await {
                Ok(Some(seen)) => {
                    if let Some(hold) = seen.holds.first() {
                        let which = if options.lock.is_empty() { String::new() } else { format!("{name:?} is ") };
                        why = format!(", {which}held by {}", with_process(client, &hold.holder.id).await);
                        break;
                    }
                }
                // The lock was free at this moment, and another waiter may get it.
                Ok(None) => {}
                Err(failure) => why = format!("; {failure}"),
            }
        }
        output::warn("waiting", &title, &format!("waiting for the lock {title:?}{why}"), json);
    }
    std::future::pending().await
}

/// The delay of the message about a wait.
const fn delay(options: &RunOptions) -> Duration {
    if options.verbose { SOON } else { LONG }
}
