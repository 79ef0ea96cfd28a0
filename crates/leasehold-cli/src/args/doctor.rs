//! `leasehold doctor`.

use clap::Args;
use clap::builder::PossibleValuesParser;

/// The names of the checks that can report a fault.
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
/// The command reads the configuration of the server, or of every primary of a cluster. It also acquires and times a
/// test lock of each kind. Each line reports one check, with advice after a semicolon. The verdict is `ok`, `note` or
/// `FAULT`. A `FAULT` can lose locks or prevent acquires. A `note` is a limit that may be intended, or a check that
/// this user may not run. The exit code is 1 if any check finds a fault. The command does not touch your locks, and
/// takes a few seconds.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold doctor\n  leasehold doctor --accept persistence,min-replicas\n  leasehold doctor --json | jq 'select(.verdict == \"fault\")'"
)]
pub(crate) struct DoctorOptions {
    /// Prefix of the test locks, for a user with restricted keys; a unique id follows [default: leasehold:doctor]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Report a fault in this check as a note, without exit code 1; separate checks with commas
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = PossibleValuesParser::new(CHECKS))]
    pub(crate) accept: Vec<String>,
}
