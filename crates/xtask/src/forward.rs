//! The commands that build a program, and hand it what was written behind their names.

use crate::{Outcome, cargo};
use clap::Args;

/// What the program gets as it is, its options and `--help` among it.
#[derive(Args)]
pub(crate) struct Words {
    /// Words for the program
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) forwarded: Vec<String>,
}

/// The words of `cargo` that build and start a program.
type Program = &'static [&'static str];

/// Random worlds, in a build that is quick and still checks itself.
pub(crate) const SIMULATE: Program =
    &["run", "--quiet", "--profile", "simulation", "--package", "leasehold-simulation", "--"];

/// Small worlds in which everything that can happen is followed.
pub(crate) const EXPLORE: Program =
    &["run", "--quiet", "--profile", "simulation", "--package", "leasehold-explorer", "--"];

/// Client processes on real servers, while things go wrong. One build with everything else builds no dependency twice, with other features.
pub(crate) const CHAOS: Program = &["test", "--workspace", "--all-features", "--test", "chaos", "--"];

/// Benchmarks of leasehold and its peers.
pub(crate) const BENCH: Program = &["run", "--quiet", "--release", "--package", "leasehold-benches", "--"];

/// Builds the program, and hands it the words.
pub(crate) fn run(program: Program, words: &[String]) -> Outcome {
    crate::run(cargo(program).args(words))
}
