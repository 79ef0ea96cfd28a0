//! Whether the server is identified, and the facts about it.
//!
//! A link may exist before its server is identified. It then sends nothing: its calls fail as not sent, with the
//! reason.

use crate::telemetry::event;
use leasehold_core::link::{LinkError, ServerInfo};
use parking_lot::Mutex;
use std::sync::OnceLock;

/// The state of the identification.
#[derive(Debug)]
pub(super) struct Met {
    server: OnceLock<ServerInfo>,
    /// The facts that follow from the URL.
    unmet: ServerInfo,
    /// Why the server is not identified.
    kept_back: Mutex<String>,
}

impl Met {
    /// The server is not identified.
    pub(super) fn new(cluster: bool) -> Self {
        let mut unmet = ServerInfo::default();
        unmet.cluster = cluster;
        Self { server: OnceLock::new(), unmet, kept_back: Mutex::new("no attempt has come to its end".to_owned()) }
    }

    /// The facts about the server.
    pub(super) fn server(&self) -> &ServerInfo {
        self.server.get().unwrap_or(&self.unmet)
    }

    /// Records the facts about the server, once. From now on calls are sent.
    pub(super) fn is(&self, server: ServerInfo) {
        drop(self.server.set(server));
    }

    /// Records a failed identification. Logs a reason once if time does not fix it.
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
    /// The server is not identified.
    pub(super) fn check(&self) -> Result<(), LinkError> {
        if self.server.get().is_some() {
            return Ok(());
        }
        Err(LinkError::NotSent(format!("not connected yet: {}", self.kept_back.lock())))
    }
}
