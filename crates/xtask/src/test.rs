//! `cargo xtask test`: everything, on every engine there is, with the sums at the end.

mod left_out;
mod newcomer;
mod tally;

use std::{
    env,
    io::{BufRead, BufReader, Write},
    process::Stdio,
    thread,
};

use leasehold_test_support::Binary;

use self::left_out::LeftOut;
use self::tally::Tally;
use crate::{Outcome, cargo, servers, shown};

/// Runs unit tests, integration tests and documentation tests, compiles the examples, and builds and tests the crates of a new user.
/// Servers that are missing are installed first. If that cannot be done, the tests that need them are left out; everything else runs, and
/// the command fails. Forwarded words are for the workspace alone.
pub(crate) fn run(forwarded: &[String]) -> Outcome {
    let binaries = servers::found_or_installed();
    announce(&binaries);
    let workspace = workspace(forwarded, &binaries);
    if !forwarded.is_empty() {
        return workspace;
    }
    let newcomer = newcomer::build_and_test(&binaries);
    match (workspace, newcomer) {
        (Err(one), Err(other)) => Err(format!("{one}; {other}")),
        (one, other) => one.and(other),
    }
}

fn workspace(forwarded: &[String], binaries: &[Binary]) -> Outcome {
    let list = env::join_paths(binaries.iter().map(|binary| &binary.path))
        .map_err(|error| format!("the path of a server cannot be passed on: {error}"))?;
    let mut command = cargo(&["test", "--workspace", "--all-features", "--no-fail-fast", "--"]);
    command.args(forwarded).stdout(Stdio::piped());
    if env::var_os(THREADS).is_none() {
        command.env(THREADS, threads().to_string());
    }
    // If there are none, the tests find none either, by the same search.
    if !list.is_empty() {
        command.env("LEASEHOLD_SERVERS", list);
    }
    let shown = shown(&command);
    println!("$ {shown}");
    let mut child = command.spawn().map_err(|error| format!("`{shown}` cannot be run: {error}"))?;
    let missing = servers::missing(binaries);
    let left_out = (!missing.is_empty()).then(LeftOut::default);
    let tally = follow(BufReader::new(child.stdout.take().expect("the output that was asked for")), left_out);
    let status = child.wait().map_err(|error| format!("`{shown}` was lost: {error}"))?;
    println!("\n{tally}");
    match tally.left_out() {
        _ if status.success() => Ok(()),
        0 => Err(format!("`{shown}` failed ({status})")),
        count => {
            let missing = missing.iter().map(ToString::to_string).collect::<Vec<_>>().join(", no ");
            let failed = tally.failed();
            let failed = if failed > 0 { format!("{failed} tests failed, and ") } else { String::new() };
            Err(format!(
                "{failed}{count} tests were left out, because there is no {missing}. To run them: {}",
                servers::ADVICE
            ))
        }
    }
}

/// The variable by which a person says how many tests run at once.
const THREADS: &str = "RUST_TEST_THREADS";

/// Number of parallel tests. Most tests wait for a lease or a server, so fewer threads leave two cores half idle.
fn threads() -> usize {
    const AT_LEAST: usize = 8;
    thread::available_parallelism().map_or(AT_LEAST, |processors| processors.get().max(AT_LEAST))
}

fn announce(binaries: &[Binary]) {
    if binaries.is_empty() {
        println!("engines: embedded");
    } else {
        println!("engines: embedded, {}, Cluster and Sentinel of these", servers::list(binaries));
    }
    for flavor in servers::missing(binaries) {
        println!("LEFT OUT: what needs {flavor}, of which there is no server");
    }
}

/// Shows the output as it comes, and counts.
fn follow(mut output: impl BufRead, mut left_out: Option<LeftOut>) -> Tally {
    let mut tally = Tally::default();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let shown = match &mut left_out {
            Some(left_out) => left_out.line(&String::from_utf8_lossy(&line)),
            None => vec![String::from_utf8_lossy(&line).into_owned()],
        };
        for line in shown {
            // The reader of our output may have gone; the tests go on.
            let _ = std::io::stdout().write_all(line.as_bytes());
            tally.count(&line);
        }
        line.clear();
    }
    tally
}
