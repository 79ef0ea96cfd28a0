//! Every example ends well and tells its story, on the embedded engine and on a server.
//!
//! `cargo test` builds the examples beside the tests; they are run as they are, as a reader of them would run them.

use leasehold_test_support::{Rounds, Server};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Every story takes a few seconds, and that of a thousand buyers half a minute on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder into which cargo has put the examples of the profile that this test was built with.
fn program(example: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("tests are in <target>/<profile>/deps");
    let program = profile.join("examples").join(format!("{example}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        program.exists(),
        "the example is not built: run `cargo test` without `--test`, or `cargo build --profile test --examples` first"
    );
    program
}

/// Runs an example to its end and returns its lines, without times. Leases of examples are short. A machine that is held up for most of one spoils a
/// story, and what is wrong with an example spoils each.
fn story(example: &str, url: Option<&str>) -> Vec<String> {
    let mut rounds = Rounds::default();
    loop {
        let told = told_by(example, url);
        if rounds.end_with(told.is_ok(), told.as_ref().err()) {
            return told.expect("a good round");
        }
    }
}

/// The lines of an example, or what went wrong.
fn told_by(example: &str, url: Option<&str>) -> Result<Vec<String>, String> {
    let mut command = Command::new(program(example));
    command.env_remove("LEASEHOLD_URL").stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(url) = url {
        command.env("LEASEHOLD_URL", url);
    }
    let mut child = command.spawn().expect("the example starts");
    let end = Instant::now() + PATIENCE;
    let ended = loop {
        if child.try_wait().expect("the example can be waited for").is_some() {
            break true;
        }
        if Instant::now() >= end {
            child.kill().expect("the example can be ended");
            break false;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    let output = child.wait_with_output().expect("the example can be read");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(ended, "{example} does not come to its end; it said:\n{text}{errors}");
    if !output.status.success() {
        return Err(format!("{example} failed ({}); it said:\n{text}{errors}", output.status));
    }
    Ok(text.lines().map(|line| line.split_once(" ms  ").map_or(line, |(_, told)| told).to_owned()).collect())
}

/// The lines hold these, in this order.
#[track_caller]
fn assert_told(lines: &[String], expected: &[&str]) {
    let mut rest = lines.iter();
    for part in expected {
        assert!(rest.any(|line| line.contains(part)), "{part:?} is missing, or out of order, in {lines:#?}");
    }
}

/// Runs an example on each engine.
fn on_each_engine(example: &str, expected: &[&str]) {
    on_each_engine_leaving(example, expected, &[], &[]);
}

/// As [`on_each_engine`], for an example that may leave keys on the server: those whose names begin so stay for a while, or for ever.
fn on_each_engine_leaving(example: &str, expected: &[&str], for_a_while: &[&str], for_ever: &[&str]) {
    assert_told(&story(example, None), &[&["an engine inside this process"], expected].concat());
    let server = Server::start();
    assert_told(&story(example, Some(&server.url())), &[&["on the server"], expected].concat());
    for key in server.command(&["KEYS", "*"]).elements() {
        let key = key.as_str().expect("a key in UTF-8");
        let begins_so = |names: &[&str]| names.iter().any(|name| key.starts_with(name));
        let ends = server.command(&["PTTL", key]).as_int() != Some(-1);
        assert!(
            if ends { begins_so(for_a_while) } else { begins_so(for_ever) },
            "{example} leaves {key} on the server"
        );
    }
}

#[test]
fn quickstart() {
    on_each_engine(
        "quickstart",
        &[
            "A holds the lock",
            "hold count 2",
            "hold count 1",
            "busy, which is not an error",
            "the lease was renewed",
            "the lease was renewed",
            "the lease was renewed",
            "the server shows the holder",
            "A held it to the end",
            "the release notice wakes B",
            "nothing is left",
        ],
    );
}

#[test]
fn long_job() {
    on_each_engine(
        "long_job",
        &[
            "the job blocks all 2 worker threads",
            "the executor runs again",
            "the server agrees",
            "kept its lock",
            "force-released the lock of",
            "was lost: the server no longer has it",
            "no further step",
        ],
    );
}

#[test]
fn nested_calls() {
    let nested = ["hold count 1", "hold count 2", "hold count 3", "hold count 2", "hold count 1", "free on the server"];
    on_each_engine("nested_calls", &nested);
    let lines = story("nested_calls", None);
    let both = lines.iter().filter(|line| line.contains("ship wants the lock")).count();
    assert_eq!(both, 3, "one call, and two branches: {lines:#?}");
    // Both branches want the lock before a branch has finished. The second branch enters after the first has left.
    assert_told(
        &lines,
        &["left: ship wants", "right: ship wants", "deduct has left: hold count 1", "ship holds the lock"],
    );
}

#[test]
fn graceful_shutdown() {
    on_each_engine(
        "graceful_shutdown",
        &[
            "awaits client.shutdown",
            "its job ended under the lock, which it released",
            "its waiter fails",
            "\"reports\" is free on the server",
            "the cron job holds",
            "the cron job has ended",
            "\"nightly\" is free on the server",
        ],
    );
}

#[test]
fn nightly_job() {
    // The lock of a night stays busy for a while, and the token of the leader's lock outlives it. Prefixes of names come first.
    let expected = [
        "one of three leads",
        "another instance leads at once",
        "it lost its lock",
        "4 nights, 3 timers each, 4 reports",
    ];
    let prefixed = ["leasehold-example:", "redisson_lock_token:{leasehold-example:"];
    on_each_engine_leaving("nightly_job", &expected, &prefixed[..1], &prefixed[1..]);
}

#[test]
fn opentelemetry() {
    on_each_engine(
        "opentelemetry",
        &[
            "found it busy once",
            "Name         : leasehold_acquire_seconds",
            "Unit         : s",
            "Count        : 4",
            // A bucket of leasehold.
            "-inf to 0.0005",
            "Name         : leasehold_held",
            "Value        : 1.0",
            "Name         : leasehold_hold_seconds",
            "exported the metrics while the lock is held",
        ],
    );
}

#[test]
fn paused_time() {
    let told = story("paused_time", None);
    let expected =
        ["in sequence", "was lost after", "a day later", "half a minute without a server", "all examples took"];
    assert_told(&told, &expected);
}

/// The rules for all ways in which the thousand buyers come to their turns.
const SALES: [&str; 4] = [
    "fair lock: served 1000, sold 100, oversold 0;",
    "plain lock: served 1000, sold 100, oversold 0;",
    "semaphore: served 1000, sold 100, oversold 0;",
    "no lock: served 1000, sold ",
];

#[test]
fn inventory() {
    let deaths = ["died in its turn, and 9 buyers in the queue"; 5];
    let end = ["fair lock, and deaths: served 955, sold 100, oversold 0;", "the longest stall was "];
    // The records of the semaphore stay for a while so that nothing is done twice, and so do the marks of a fair queue.
    let for_a_while = ["leasehold:1:op:{", "leasehold:1:fair:{"];
    on_each_engine_leaving("inventory", &[&SALES[..], &deaths, &end].concat(), &for_a_while, &[]);
}

#[test]
fn orders() {
    let expected =
        ["with a lock for each user: 100 requests, 20 orders, at most 1 a user", "without locks: 100 requests, "];
    on_each_engine("orders", &expected);
}

#[test]
fn balance() {
    // A token, and the greatest token that a store has seen, outlive every lock: the next are compared with them.
    let for_ever = ["redisson_lock_token:{", "leasehold:1:fence:{"];
    on_each_engine_leaving(
        "balance",
        &[
            "the store ignores tokens",
            "about to write 90",
            "B holds the lock and has read 100",
            "the store accepts its 90",
            "B has written 80",
            "the balance is 80 instead of 70: an update is lost",
            "the store registers a token at the first read",
            "B holds the lock and has read 100",
            "refuses its write",
            "refuses its read",
            "B has written 80",
            "read 80 and written 70",
            "the balance is 70, which is correct",
        ],
        &[],
        &for_ever,
    );
}
