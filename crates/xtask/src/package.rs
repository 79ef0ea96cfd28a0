//! `cargo xtask package`: the rehearsal of a release.

use crate::{Outcome, cargo};

/// Packages every crate that is published, and builds each from its package.
pub(crate) fn run(allow_dirty: bool) -> Outcome {
    let mut command = cargo(&["publish", "--workspace", "--dry-run"]);
    if allow_dirty {
        command.arg("--allow-dirty");
    }
    crate::run(&mut command)
}
