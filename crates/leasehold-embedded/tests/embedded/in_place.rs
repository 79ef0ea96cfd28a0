//! A server that takes another's place knows nothing of it.

use crate::support::{call, check, command, now, run, server};
use leasehold_core::link::Link;
use leasehold_core::script::ACQUIRE;
use leasehold_embedded::{EmbeddedServer, ManualClock};
use std::time::Duration;

#[test]
fn a_server_in_place_of_another_has_nothing_of_it() {
    let (old, clock) = server();
    clock.advance(Duration::from_secs(1));
    let link = old.link();
    now(link.subscribe("c".into())).expect("an embedded link can subscribe");
    assert_eq!(run(&old, &ACQUIRE, "k", "me:1 1 1000 -1"), "[1, 1000, 0]");
    old.deny_growth(true);
    old.step_clock(5_000);
    drop(link);
    let new = EmbeddedServer::in_place_of(old, ManualClock::new());
    assert!(new.keys().is_empty());
    assert_eq!((new.calls("lock/acquire"), new.links(), new.subscriptions()), (0, 0, 0));
    assert_eq!(new.wall_millis(), 1_800_000_000_000);
    assert_eq!(run(&new, &ACQUIRE, "k", "you:1 1 500 -1"), "[1, 500, 0]");
    check(&new, "HGETALL k => [\"you:1\", \"1\"]");
    assert_eq!(new.calls("lock/acquire"), 1);
}

#[test]
fn a_server_that_somebody_else_uses_stays_as_it_is() {
    let (old, _clock) = server();
    let other = old.clone();
    command(&old, "SET k 1");
    let new = EmbeddedServer::in_place_of(old, ManualClock::new());
    assert!(new.keys().is_empty());
    check(&other, "GET k => \"1\"");
    assert!(other.execute(&call(&ACQUIRE, "l", "me:1 1 1000 -1")).is_ok());
    assert!(new.keys().is_empty());
}
