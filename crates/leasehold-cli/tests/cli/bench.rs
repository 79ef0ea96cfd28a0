//! `leasehold bench` prints its figures, and leaves nothing behind.

use crate::support::{Start as _, leasehold, texts};
use leasehold_test_support::Server;

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
