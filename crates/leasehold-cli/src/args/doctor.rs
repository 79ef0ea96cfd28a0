//! `leasehold doctor`.

use clap::Args;
use clap::builder::PossibleValuesParser;

/// The checks that can find a fault.
pub(crate) const CHECKS: [&str; 21] = [
    "appendfsync",
    "buffers",
    "busy",
    "clock",
    "cluster",
    "connections",
    "eviction",
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

/// Find out whether the server can be trusted with locks
///
/// It reads what the server says of itself, of a cluster every primary, takes locks of every kind under a name of its own, and measures. Each
/// line is one check, with what to do behind a semicolon: `ok`; `note`, which limits what locks promise, or could not be found out, and may
/// be as it is wanted; or `FAULT`, by which locks can be lost or cannot be had. The exit code is 1 if there is a fault. It changes no lock of
/// others, and takes some seconds.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  leasehold doctor\n  leasehold doctor --accept persistence,min-replicas\n  leasehold doctor --json | jq 'select(.verdict == \"fault\")'"
)]
pub(crate) struct DoctorOptions {
    /// How the names of the tried locks begin, for a user who may not use every key; a number of their own follows [default: leasehold:doctor]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Take a fault of this check for a note, which does not change the exit code; several with commas between
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = PossibleValuesParser::new(CHECKS))]
    pub(crate) accept: Vec<String>,
}
