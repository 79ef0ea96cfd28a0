//! `cargo xtask bench`: the benchmarks of the workspace.

use crate::{Outcome, cargo};

/// Runs the benchmarks; what is forwarded filters them by name.
pub(crate) fn run(forwarded: &[String]) -> Outcome {
    crate::run(cargo(&["bench", "--package", "leasehold-benches", "--benches", "--"]).args(forwarded))
}
