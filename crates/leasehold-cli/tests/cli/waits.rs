//! How long `run` waits for a server and for a lock, and what it says of it.

use crate::support::{Start as _, held_by_a_jvm, run};
use leasehold_test_support::Server;
use std::time::{Duration, Instant};

#[test]
fn silent_server_holds_a_try_and_a_wait_up_for_their_time() {
    let server = Server::start();
    server.stop();
    let place = format!("redis://127.0.0.1:{} did not answer within", server.port());
    for (options, said, least) in [
        (&["--try"][..], "3s", Duration::from_secs(3)),
        (&["--wait", "2s"], "2s", Duration::from_secs(2)),
        (&["--wait", "10ms"], "1s", Duration::from_secs(1)),
    ] {
        let begun = Instant::now();
        let done = run(&server, &[options, &["x", "--", "true"]].concat()).finish();
        let took = begun.elapsed();
        done.fails_with(69, &[&place, said]);
        assert!((least..least * 2).contains(&took), "{options:?} took {took:?}");
    }
    server.resume();
}

#[test]
fn time_to_connect_is_a_part_of_the_wait() {
    let server = Server::start();
    held_by_a_jvm(&server, "x", "60000");
    server.stop();
    let begun = Instant::now();
    let waiting = run(&server, &["x", "--wait", "3s", "--", "true"]).start();
    std::thread::sleep(Duration::from_millis(1_500));
    server.resume();
    waiting.finish().fails_with(75, &["stayed busy for the whole wait of 3s"]);
    let took = begun.elapsed();
    assert!(took < Duration::from_millis(4_300), "{took:?}");
}
