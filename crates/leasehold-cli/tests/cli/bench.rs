//! `leasehold bench` prints its figures, and leaves nothing behind.

use crate::support::{Start as _, bare, leasehold, texts};
use leasehold_test_support::{Server, until};
use rustix::process::Signal;

#[test]
fn figures_are_ratios_to_the_ping() {
    let server = Server::start();
    let done = leasehold(&server).args(["bench", "--pairs", "20", "--tasks", "4", "--json"]).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""));
    let figures: Vec<serde_json::Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    assert_eq!((figures.len(), &figures[0]["p50_in_pings"]), (7, &1.0.into()));
    assert!(figures.iter().all(|figure| figure["p50_us"].as_u64() > Some(0)), "{figures:?}");
    let left = texts(&server.command(&["KEYS", "*leasehold:bench*"]));
    assert!(left.is_empty(), "{left:?}");
    let text = leasehold(&server).args(["bench", "--pairs", "10"]).finish().stdout;
    assert!(text.contains("acquire and release, fair") && text.contains("PINGs"), "{text}");
}

#[test]
fn bench_and_doctor_that_are_interrupted_leave_nothing() {
    let server = Server::start();
    let left = || texts(&server.command(&["KEYS", "*leasehold:*"]));
    for words in [&["bench", "--pairs", "1000"][..], &["doctor"]] {
        let running = leasehold(&server).args(words).start();
        let register = |key: &String| key.starts_with("redisson_lock_token:");
        until("a fenced lock was taken", || left().iter().any(register));
        running.signal(Signal::INT);
        assert_eq!(running.finish().signal(), Signal::INT.as_raw());
        let left = left();
        assert!(left.iter().all(|key| key.starts_with("leasehold:1:op:")), "{left:?}");
    }
}

#[test]
fn refused_ping_is_no_server_that_does_not_answer() {
    let server = Server::start();
    server.command(&["ACL", "SETUSER", "few", "on", ">word", "~*", "&*", "+@all", "-ping"]);
    let url = server.url().replace("redis://", "redis://few:word@");
    let done = bare().env("LEASEHOLD_URL", url).args(["bench", "--json"]).finish();
    done.fails_with(77, &["PING failed: NOPERM"]);
}
