//! The commands that build a program and forward their arguments to it.

use crate::{Outcome, cargo};
use clap::Args;

/// The arguments of the program, including its options and `--help`.
#[derive(Args)]
pub(crate) struct Words {
    /// Arguments for the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) forwarded: Vec<String>,
}

/// The words of `cargo` that build and start a program.
type Program = &'static [&'static str];

/// Random worlds, in an optimized build with assertions.
pub(crate) const SIMULATE: Program =
    &["run", "--quiet", "--profile", "simulation", "--package", "leasehold-simulation", "--"];

/// Small worlds, in every state.
pub(crate) const EXPLORE: Program =
    &["run", "--quiet", "--profile", "simulation", "--package", "leasehold-explorer", "--"];

/// Client processes on real servers with injected faults. A build of the whole workspace compiles no dependency twice with different features.
pub(crate) const CHAOS: Program = &["test", "--workspace", "--all-features", "--test", "chaos", "--"];

/// Benchmarks of leasehold and its peers.
pub(crate) const BENCH: Program = &["run", "--quiet", "--release", "--package", "leasehold-benches", "--"];

/// Builds the program and runs it with these arguments.
pub(crate) fn run(program: Program, words: &[String]) -> Outcome {
    crate::run(cargo(program).args(words))
}
