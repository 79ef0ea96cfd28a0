//! The crates of a new user, `tests/newcomer` and `examples/tasks`: they are no members of this workspace, so they have none of its features
//! and settings. Nor have they a lock file in the repository: they get the versions that a new user gets.

use leasehold_test_support::{Binary, Server};

use crate::{Outcome, cargo, run};

/// Builds them and runs their tests; without a server it builds those that need one.
pub(super) fn build_and_test(binaries: &[Binary]) -> Outcome {
    let test = |folder: &str| {
        let manifest = format!("{folder}/Cargo.toml");
        let mut command = cargo(&["test", "--manifest-path", &manifest, "--target-dir", "target/newcomer"]);
        command.args(["--config", "profile.dev.debug=false"]);
        command
    };
    let first = run(&mut test("tests/newcomer"));
    let tasks = match binaries.first() {
        Some(binary) => {
            let server = Server::builder().binary(binary).start();
            run(test("examples/tasks").env("LEASEHOLD_URL", server.url()))
        }
        None => run(test("examples/tasks").arg("--no-run")),
    };
    first.and(tasks)
}
