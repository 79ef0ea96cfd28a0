//! What a long wait says of itself.

use super::hold::with_process;
use crate::args::RunOptions;
use crate::failure::Failure;
use crate::look::look;
use crate::output;
use leasehold::Client;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// The wait after which a line says what is waited for. A shorter one is no news in the mail of a cron job.
const LONG: Duration = Duration::from_secs(10);

/// Says once, after a long wait for the server, why it does not answer.
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

    /// An attempt has failed that will be repeated.
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

/// Says once what is waited for if that takes long, and never completes.
pub(super) async fn tell(client: &Client, options: &RunOptions, json: bool) -> Infallible {
    if !options.quiet && !options.try_once {
        tokio::time::sleep(LONG).await;
        let name = &options.name;
        let why = match look(client, name).await {
            Ok(Some(seen)) => match seen.holds.first() {
                Some(hold) => format!(", held by {}", with_process(client, &hold.holder.id).await),
                None => String::new(),
            },
            // It was free at this moment, and may be granted to another waiter.
            Ok(None) => String::new(),
            Err(failure) => format!("; {failure}"),
        };
        output::warn("waiting", name, &format!("waiting for the lock {name:?}{why}"), json);
    }
    std::future::pending().await
}
