//! The scripts that a link has called, for servers that may not know them.
//!
//! A server knows what it was given since it started, and replicas do not get it from their primary. So after a restart or a failover each
//! script would cost its first call another round trip. When a connection for calls is made, the link asks which of the scripts
//! *in use* the server lacks, and loads these: one command where it lacks none, and nothing at all on the first connection. Not all scripts of
//! all kinds: each client of a fleet would send them, just when all of them come back to a new primary.
//!
//! It goes beside the calls, and nothing waits for it: a call that meets `NOSCRIPT` is followed up by itself.

use super::connection::{Connection, word};
use crate::telemetry::event;
use leasehold_core::script::Script;
use parking_lot::RwLock;
use std::time::Duration;

/// The scripts in use.
#[derive(Debug, Default)]
pub(super) struct Scripts {
    used: RwLock<Vec<&'static Script>>,
}

impl Scripts {
    /// A script is called.
    pub(super) fn note(&self, script: &'static Script) {
        let is_same = |other: &&'static Script| std::ptr::eq(*other, script);
        if self.used.read().iter().any(is_same) {
            return;
        }
        let mut used = self.used.write();
        if !used.iter().any(is_same) {
            used.push(script);
        }
    }

    /// Gives the server what it lacks. A user who may not do so loses nothing but a round trip later on.
    pub(super) async fn give(&self, connection: &Connection, timeout: Duration) {
        let used = self.used.read().clone();
        if used.is_empty() {
            return;
        }
        let hashes = used.iter().map(|script| word(script.sha1()));
        let asked = std::iter::once(word("EXISTS")).chain(hashes).collect();
        let Ok(answer) = connection.send("SCRIPT", asked, Some(timeout)).await else { return };
        let Some(known) = answer.array() else { return };
        let lacking = used.iter().zip(known).filter(|(_, known)| known.int() == Some(0));
        // One after the other: renewals must not wait behind all of them.
        for (script, _) in lacking {
            let given = vec![word("LOAD"), word(script.source())];
            match connection.send("SCRIPT", given, Some(timeout)).await {
                Ok(answer) if answer.error().is_none() => {}
                _ => return,
            }
            event!(debug, server = %connection.server, script = script.name(), "the script was loaded");
        }
    }
}
