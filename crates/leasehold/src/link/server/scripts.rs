//! The scripts that a link has called, to load them into new servers.
//!
//! A server forgets its scripts at a restart, and replicas do not get them from their primary. So after a restart or a
//! failover, the first call of each script would need another round trip. After a connect, the link asks which of the
//! scripts *in use* the server lacks, and loads these. This takes one command if none is missing, and nothing on the
//! first connection. Loading all scripts would burden a new primary when the whole fleet reconnects.
//!
//! Loading runs beside the calls, and nothing waits for it: a call with `NOSCRIPT` recovers on its own.

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
    /// Records the call of a script.
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

    /// Loads the missing scripts. Without permission this only costs a later round trip.
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
        // Sequentially, so that renewals do not wait behind all of them.
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
