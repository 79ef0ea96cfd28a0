//! How a client of fred is set up. There is one profile, for every connection.

use super::settings::LinkSettings;
use fred::socket2::TcpKeepalive;
use fred::types::config::{ConnectionConfig, PerformanceConfig, TcpConfig};
use std::time::Duration;

/// Messages that fred holds for us at most. Our event loop only moves them on, so it takes a stalled process to fill it.
pub(super) const MESSAGES: usize = 4_096;

/// The settings of a connection.
///
/// - One write attempt: fred sends nothing twice. It has no need to, because it never follows a redirection here: every
///   client of fred is told that it talks to a single server, and redirections are ours (`call.rs`).
/// - No list of errors to reconnect on: we see them as replies, and decide ourselves.
/// - No unresponsive check: it is refreshed by every write, so a connection that is written to often enough never counts as
///   unresponsive. The background's connections are pinged instead, and a foreground connection is asked when it is settled.
/// - `nodelay`, because fred flushes after every script.
/// - TCP keep-alive: what forgets connections on which nothing passes, a firewall or a balancer, sees something pass; and a foreground
///   connection that was dropped in silence is found out while no call waits for it.
/// - The queue is unbounded. A bounded one would refuse fred's own messages to its router too, and end it.
pub(super) fn connection(settings: &LinkSettings) -> ConnectionConfig {
    ConnectionConfig {
        connection_timeout: settings.attempt(),
        internal_command_timeout: settings.attempt(),
        max_command_attempts: 1,
        max_redirections: 1,
        reconnect_on_auth_error: false,
        auto_client_setname: false,
        disable_cluster_health_check: true,
        max_command_buffer_len: 0,
        reconnect_errors: Vec::new(),
        tcp: TcpConfig { nodelay: Some(true), keepalive: Some(keepalive()), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    }
}

/// A connection that is idle is probed, and given up by the system after as many probes without an answer as it is set to send.
fn keepalive() -> TcpKeepalive {
    let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(15));
    // Elsewhere the system's own numbers hold.
    #[cfg(any(target_os = "linux", target_os = "macos"))]
    let keepalive = keepalive.with_interval(Duration::from_secs(5));
    keepalive
}

/// The settings of a client. `capacity` is how many messages it holds for us.
pub(super) fn performance(capacity: usize) -> PerformanceConfig {
    PerformanceConfig { broadcast_channel_capacity: capacity, ..PerformanceConfig::default() }
}
