//! The crates of a new user below `tests/newcomer`: they are no members of this workspace, so they have none of its features and settings.
//! Nor have they a lock file in the repository: they get the versions that a new user gets.

use leasehold_test_support::{Binary, Server};

use crate::{Outcome, cargo, run};

/// Builds them and runs their tests; without a server it builds those that need one.
pub(super) fn build_and_test(binaries: &[Binary]) -> Outcome {
    let test = |package: &str| {
        // One package at a time: cargo unites the features of what it builds together.
        let mut command = cargo(&["test", "--manifest-path", "tests/newcomer/Cargo.toml"]);
        command.args(["--target-dir", "target/newcomer", "--config", "profile.dev.debug=false", "--package", package]);
        command
    };
    let first = run(&mut test("first"));
    let service = match binaries.first() {
        Some(binary) => {
            let server = Server::builder().binary(binary).start();
            run(test("service").env("LEASEHOLD_URL", server.url()))
        }
        None => run(test("service").arg("--no-run")),
    };
    first.and(service)
}
