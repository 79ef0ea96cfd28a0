//! `cargo xtask interleave`: the models that loom runs in every order of their threads.

use crate::{Outcome, cargo};
use std::path::Path;
use std::process::Command;

/// Builds the models, and runs those whose name has one of the words in it.
pub(crate) fn run(words: &[String]) -> Outcome {
    let mut command = with_loom(cargo(&["test", "--lib"]), Path::new("target"));
    command.args(["--package", "leasehold-core", "--package", "leasehold", "--features", "leasehold/embedded", "--"]);
    if words.is_empty() {
        command.arg("interleavings")
    } else {
        command.args(words)
    };
    crate::run(&mut command)
}

/// Has cargo build with the types of loom. The models have a target directory of their own below `target`, because every crate is built anew
/// for them.
pub(crate) fn with_loom(mut command: Command, target: &Path) -> Command {
    command.env("RUSTFLAGS", "--cfg leasehold_loom").env("CARGO_TARGET_DIR", target.join("loom"));
    command
}
