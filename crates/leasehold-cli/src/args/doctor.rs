//! `leasehold doctor`.

use clap::Args;
use clap::builder::PossibleValuesParser;

/// The checks that can find a fault.
pub(crate) const CHECKS: [&str; 22] = [
    "appendfsync",
    "buffers",
    "busy",
    "clock",
    "cluster",
    "connections",
    "eviction",
    "expiry",
    "forks",
    "latency",
    "memory",
    "min-replicas",
    "notices",
    "pace",
    "persistence",
    "replicas",
    "rights",
    "role",
    "scripts",
    "sentinel",
    "timeout",
    "version",
];

/// Check whether the server is safe for locks
///
/// The command reads the configuration of the server, or of every primary of a cluster. It also acquires locks of every
/// kind under its own name, and measures them. Each line is one check, with advice after a semicolon. The verdict is
/// `ok`, `note` or `FAULT`. A `FAULT` can lose locks or prevent acquires. A `note` is a limit that may be intended, or a
/// check that this user may not run. The exit code is 1 for a fault. The command changes no other locks, and takes some
/// seconds.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold doctor\n  leasehold doctor --accept persistence,min-replicas\n  leasehold doctor --json | jq 'select(.verdict == \"fault\")'"
)]
pub(crate) struct DoctorOptions {
    /// Prefix of the test locks, for a user with restricted keys; a unique id follows [default: leasehold:doctor]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Report a fault of this check as a note, which does not change the exit code; separate checks with commas
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = PossibleValuesParser::new(CHECKS))]
    pub(crate) accept: Vec<String>,
}
