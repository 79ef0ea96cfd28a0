//! `cargo xtask package`: the rehearsal of a release.

use crate::{Outcome, cargo};
use std::time::{SystemTime, UNIX_EPOCH};

/// Packages every crate that is published, and builds each from its package.
///
/// It builds in a directory of its own, which is gone afterwards. Cargo takes a packaged crate of one version for unchangeable,
/// and would build the next rehearsal of the same version from what it kept of the last.
pub(crate) fn run(allow_dirty: bool) -> Outcome {
    let moment = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let target = std::env::temp_dir().join(format!("leasehold-package-{}-{moment}", std::process::id()));
    let mut command = cargo(&["publish", "--workspace", "--dry-run", "--target-dir"]);
    // The build is faster without debug information.
    command.arg(&target).args(["--config", "profile.dev.debug=false"]);
    if allow_dirty {
        command.arg("--allow-dirty");
    }
    let outcome = crate::run(&mut command);
    // A file that cannot be removed lies in the directory for temporary files, and does no harm there.
    let _ = std::fs::remove_dir_all(&target);
    outcome
}
