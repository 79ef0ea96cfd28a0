//! Whether the server has been met, and what is known of it.
//!
//! A link is made after its server has been met, or before. A link whose server has not been met sends nothing: its calls have certainly
//! not left, and say what keeps it.

use crate::telemetry::event;
use leasehold_core::link::{LinkError, ServerInfo};
use parking_lot::Mutex;
use std::sync::OnceLock;

/// The knowledge about the server of a link.
#[derive(Debug)]
pub(super) struct Met {
    server: OnceLock<ServerInfo>,
    /// The facts that the URL gives by itself.
    unmet: ServerInfo,
    /// The reason why the server is not met.
    kept_back: Mutex<String>,
}

impl Met {
    /// The server has not been met.
    pub(super) fn new(cluster: bool) -> Self {
        let mut unmet = ServerInfo::default();
        unmet.cluster = cluster;
        Self { server: OnceLock::new(), unmet, kept_back: Mutex::new("no attempt has come to its end".to_owned()) }
    }

    /// The facts about the server.
    pub(super) fn server(&self) -> &ServerInfo {
        self.server.get().unwrap_or(&self.unmet)
    }

    /// The server is this one. Said once; from here on calls are sent.
    pub(super) fn is(&self, server: ServerInfo) {
        drop(self.server.set(server));
    }

    /// The server has not been met for this reason. A reason that time does not mend is logged once.
    pub(super) fn is_kept_back(&self, reason: String, for_good: bool) {
        let mut known = self.kept_back.lock();
        if *known == reason {
            return;
        }
        if for_good {
            event!(warn, reason, "a client that connects in the background is kept back, and tries on");
        } else {
            event!(debug, reason, "not connected yet");
        }
        *known = reason;
    }

    /// Whether calls can be sent.
    ///
    /// # Errors
    ///
    /// The server has not been met.
    pub(super) fn check(&self) -> Result<(), LinkError> {
        if self.server.get().is_some() {
            return Ok(());
        }
        Err(LinkError::NotSent(format!("not connected yet: {}", self.kept_back.lock())))
    }
}
