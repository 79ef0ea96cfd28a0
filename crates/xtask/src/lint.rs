//! `cargo xtask lint`: format, lints and documentation, with warnings as errors.

use crate::{Outcome, cargo, features};

/// Runs all checks even when one fails, so that one run shows every complaint.
pub(crate) fn run() -> Outcome {
    let clippy = ["clippy", "--workspace", "--all-targets", "--all-features", "--", "--deny", "warnings"];
    // `--all-targets` leaves out what `cargo test` does not run.
    let programs = ["--package", "leasehold-workspace", "--test", "chaos", "--test", "interop"];
    let mut apart = cargo(&["clippy"]);
    apart.args(programs).args(["--all-features", "--", "--deny", "warnings"]);
    let mut doc = cargo(&["doc", "--workspace", "--all-features", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    // Packages that are no members of the workspace.
    let outside = ["tests/newcomer/Cargo.toml", "tests/browser/Cargo.toml", "examples/axum-inventory/Cargo.toml"].map(
        |manifest| {
            let mut fmt = cargo(&["fmt", "--all", "--check"]);
            fmt.args(["--manifest-path", manifest]);
            fmt
        },
    );
    let mut checks = Vec::from(outside);
    checks.extend([cargo(&["fmt", "--all", "--check"]), cargo(&clippy), apart, doc]);
    let mut complaints: Vec<_> = checks.iter_mut().filter_map(|check| crate::run(check).err()).collect();
    complaints.extend(features::lint().err());
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}
