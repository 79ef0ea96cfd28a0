//! `cargo xtask chaos`: client processes on real servers, while things go wrong.

use crate::{Outcome, cargo};

/// Builds the clients, and hands the run its arguments.
pub(crate) fn run(forwarded: &[String]) -> Outcome {
    // In one build with everything else, so that no dependency is built twice, with other features.
    let run = ["test", "--workspace", "--all-features", "--test", "chaos", "--"];
    crate::run(cargo(&run).args(forwarded))
}
