//! `cargo xtask test`: everything, on every engine there is, with the sums at the end.

mod tally;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use leasehold_test_support::{Binary, Flavor, binaries};

use self::tally::Tally;
use crate::{Outcome, cargo, servers, shown};

/// Runs unit tests, integration tests and documentation tests, and compiles the examples.
pub(crate) fn run(forwarded: &[String]) -> Outcome {
    let binaries = binaries();
    if binaries.is_empty() {
        return Err("there is no server to test on. Install some with:  cargo xtask servers".to_owned());
    }
    announce(&binaries);
    let list = env::join_paths(binaries.iter().map(|binary| &binary.path))
        .map_err(|error| format!("the path of a server cannot be passed on: {error}"))?;
    let mut command = cargo(&["test", "--workspace", "--all-features", "--no-fail-fast", "--"]);
    command.args(forwarded).env("LEASEHOLD_SERVERS", list).stdout(Stdio::piped());
    let shown = shown(&command);
    println!("$ {shown}");
    let mut child = command.spawn().map_err(|error| format!("`{shown}` cannot be run: {error}"))?;
    let tally = follow(BufReader::new(child.stdout.take().expect("the output that was asked for")));
    let status = child.wait().map_err(|error| format!("`{shown}` was lost: {error}"))?;
    println!("\n{tally}");
    if status.success() { Ok(()) } else { Err(format!("`{shown}` failed ({status})")) }
}

fn announce(binaries: &[Binary]) {
    println!("engines: embedded, {}, Cluster and Sentinel of these", servers::list(binaries));
    for flavor in [Flavor::Redis, Flavor::Valkey] {
        if !binaries.iter().any(|binary| binary.flavor == flavor) {
            println!("NOT TESTED: {flavor}, of which there is no server; see `cargo xtask servers`");
        }
    }
}

/// Shows the output as it comes, and counts.
fn follow(mut output: impl BufRead) -> Tally {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        // Whoever reads our output may have gone; the tests go on.
        let _ = std::io::stdout().write_all(&line);
        tally.count(&String::from_utf8_lossy(&line));
        line.clear();
    }
    tally
}
