//! The options that record runs.

use clap::Args;
use std::path::PathBuf;

/// The records of `run` and `leader`.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct RecordOptions {
    /// Append a JSON line for each run to this file
    ///
    /// The keys are start, name, holder, token, host, pid, waited_ms, held_ms, exit, signal, lost, outcome and exit_code.
    #[arg(long, value_name = "FILE", hide_short_help = true, help_heading = "More options")]
    pub(crate) report: Option<PathBuf>,
    /// Write metrics of the last run to this directory
    ///
    /// The textfile collector of node_exporter reads these metrics.
    #[arg(long, value_name = "DIR", hide_short_help = true, help_heading = "More options")]
    pub(crate) textfile: Option<PathBuf>,
}
