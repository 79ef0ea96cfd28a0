//! `cargo xtask explore`: small worlds in which everything that can happen is followed.

use crate::{Outcome, cargo, run};

/// Builds the explorer, and hands it its arguments.
pub(crate) fn explore(forwarded: &[String]) -> Outcome {
    let build =
        ["run", "--quiet", "--profile", "simulation", "--package", "leasehold-simulation", "--bin", "explore", "--"];
    run(cargo(&build).args(forwarded))
}
