//! `cargo xtask lint`: format, lints and documentation, with warnings as errors.

use crate::{Outcome, cargo, root};
use std::fs;

/// Packages outside the workspace.
const OUTSIDE: [&str; 4] = [
    "tests/newcomer/Cargo.toml",
    "tests/browser/Cargo.toml",
    "examples/axum-inventory/Cargo.toml",
    "examples/tasks/Cargo.toml",
];

/// Runs all checks even when one fails, so that one run shows every complaint.
pub(crate) fn run() -> Outcome {
    let mut checks: Vec<_> =
        OUTSIDE.iter().map(|manifest| cargo(&["fmt", "--all", "--check", "--manifest-path", manifest])).collect();
    checks.push(cargo(&["fmt", "--all", "--check"]));
    // `--all-targets` leaves out what `cargo test` does not run.
    for targets in [&["--all-targets"][..], &["--test", "chaos", "--test", "interop"]] {
        let mut clippy = cargo(&["clippy", "--workspace", "--all-features"]);
        clippy.args(targets).args(["--", "--deny", "warnings"]);
        checks.push(clippy);
    }
    // Finds code that uses a feature without its `cfg`: without features, and with each feature alone. No code needs
    // two features.
    for feature in [vec![String::new()], features()?].concat() {
        let library = ["clippy", "--package", "leasehold", "--lib", "--no-default-features", "--features", &feature];
        let mut clippy = cargo(&library);
        clippy.args(["--", "--deny", "warnings"]);
        checks.push(clippy);
    }
    let mut doc = cargo(&["doc", "--workspace", "--all-features", "--no-deps"]);
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    checks.push(doc);
    let complaints: Vec<_> = checks.iter_mut().filter_map(|check| crate::run(check).err()).collect();
    if complaints.is_empty() { Ok(()) } else { Err(complaints.join("; ")) }
}

/// The features that the manifest of leasehold declares.
fn features() -> Result<Vec<String>, String> {
    let path = root().join("crates/leasehold/Cargo.toml");
    let manifest = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let section =
        manifest.lines().skip_while(|line| *line != "[features]").skip(1).take_while(|line| !line.starts_with('['));
    let names = section.filter_map(|line| line.split_once(" = ")).map(|(name, _)| name.to_owned());
    let features: Vec<_> = names.filter(|name| !name.starts_with('#') && name != "default").collect();
    if features.is_empty() { Err(format!("{} declares no features", path.display())) } else { Ok(features) }
}
