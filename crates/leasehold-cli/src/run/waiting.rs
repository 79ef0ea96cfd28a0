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
        if self.begun.elapsed() >= LONG && !std::mem::replace(&mut self.told, true) {
            let name = &self.options.name;
            output::warn(
                "waiting",
                name,
                &format!("waiting for the server of the lock {name:?}: {failure}"),
                self.json,
            );
        }
    }
}

/// After a long wait, prints once what `run` waits for. Never completes.
pub(super) async fn tell(client: &Client, options: &RunOptions, json: bool) -> Infallible {
    if !options.quiet && !options.try_once {
        tokio::time::sleep(LONG).await;
        let name = &options.name;
        let why = match look(client, name).await {
            Ok(Some(seen)) => match seen.holds.first() {
                Some(hold) => format!(", held by {}", with_process(client, &hold.holder.id).await),
                None => String::new(),
            },
            // The lock was free at this moment, and another waiter may get it.
            Ok(None) => String::new(),
            Err(failure) => format!("; {failure}"),
        };
        output::warn("waiting", name, &format!("waiting for the lock {name:?}{why}"), json);
    }
    std::future::pending().await
}
