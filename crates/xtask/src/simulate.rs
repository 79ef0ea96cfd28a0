//! `cargo xtask simulate`: random worlds, in a build that is quick and still checks itself.

use crate::{Outcome, cargo, run};

/// Builds the simulation, and hands it its arguments.
pub(crate) fn simulate(forwarded: &[String]) -> Outcome {
    let build = ["run", "--quiet", "--profile", "simulation", "--package", "leasehold-simulation", "--"];
    run(cargo(&build).args(forwarded))
}
