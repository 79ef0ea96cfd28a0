//! The five scripts of the reentrant lock, row by row.

use crate::support::{check, command, now, poll, run, server};
use leasehold_core::link::Link;
use leasehold_core::script::{ACQUIRE, FORCE_RELEASE, INSPECT, RELEASE, RENEW};
use leasehold_embedded::{EmbeddedLink, EmbeddedServer};
use std::pin::pin;
use std::time::Duration;

const MILLI: Duration = Duration::from_millis(1);

fn acquire(server: &EmbeddedServer, args: &str) -> String {
    run(server, &ACQUIRE, "k", args)
}

fn release(server: &EmbeddedServer, args: &str) -> String {
    run(server, &RELEASE, "k c", &format!("{args} PUBLISH 0 -"))
}

/// How many notices wait.
fn notices(link: &EmbeddedLink) -> usize {
    std::iter::from_fn(|| poll(pin!(link.event())).is_ready().then_some(())).count()
}

#[test]
fn acquire_grants_a_free_lock_and_raises_a_count_by_one() {
    let (server, clock) = server();
    assert_eq!(acquire(&server, "me:1 1 1000 -1"), "[1, 1000, 0]");
    check(&server, "HGETALL k => [\"me:1\", \"1\"]\nPTTL k => 1000");
    clock.advance(400 * MILLI);
    assert_eq!(acquire(&server, "me:1 2 500 -1"), "[1, 600, 0]", "a shorter lease does not shorten");
    assert_eq!(acquire(&server, "me:1 3 2000 -1"), "[1, 2000, 0]");
    check(&server, "HGETALL k => [\"me:1\", \"3\"]\nPTTL k => 2000");
}

#[test]
fn a_copy_of_an_acquire_changes_nothing() {
    let (server, clock) = server();
    acquire(&server, "me:1 1 1000 -1");
    clock.advance(100 * MILLI);
    assert_eq!(acquire(&server, "me:1 1 1000 -1"), "[2, 1000, 0]", "held");
    acquire(&server, "me:1 2 1000 -1");
    clock.advance(100 * MILLI);
    assert_eq!(acquire(&server, "me:1 1 9000 -1"), "[3, 900, 0]", "past, and the lease is untouched");
    assert_eq!(acquire(&server, "me:1 4 9000 -1"), "[-1, 2, 0]", "mismatch");
    check(&server, "HGETALL k => [\"me:1\", \"2\"]\nPTTL k => 900");
}

#[test]
fn acquire_refuses_what_is_not_there_or_not_ours() {
    let (server, clock) = server();
    assert_eq!(acquire(&server, "me:1 2 1000 -1"), "[-2, 0, 0]", "lost: the lock is free");
    check(&server, "EXISTS k => 0");
    acquire(&server, "other:1 1 1000 -1");
    clock.advance(250 * MILLI);
    assert_eq!(acquire(&server, "me:1 1 1000 -1"), "[0, 750, 0]", "busy");
    assert_eq!(acquire(&server, "me:1 2 1000 -1"), "[-2, 0, 0]", "lost: another has it");
    check(&server, "PERSIST k => 1");
    assert_eq!(acquire(&server, "me:1 1 1000 -1"), "[0, -1, 0]", "busy without an end");
    check(&server, "HGETALL k => [\"other:1\", \"1\"]");
}

#[test]
fn acquire_reads_the_servers_time_where_it_is_asked_to() {
    let (server, clock) = server();
    clock.advance(5 * MILLI);
    let time = 1_800_000_000_005_i64;
    assert_eq!(acquire(&server, &format!("me:1 1 1000 {}", time - 1)), format!("[-3, 0, {time}]"), "too late");
    check(&server, "EXISTS k => 0");
    assert_eq!(acquire(&server, &format!("me:1 1 1000 {time}")), format!("[1, 1000, {time}]"));
    clock.advance(10 * MILLI);
    let late = time + 10;
    assert_eq!(
        acquire(&server, &format!("me:1 1 1000 {time}")),
        format!("[2, 1000, {late}]"),
        "a copy is never too late"
    );
    assert_eq!(acquire(&server, &format!("me:1 2 1000 {time}")), format!("[1, 1000, {late}]"), "nor is a re-entry");
    assert_eq!(acquire(&server, "you:1 1 1000 0"), format!("[0, 1000, {late}]"));
}

#[test]
fn every_script_names_a_key_of_another_kind() {
    let (server, _) = server();
    check(&server, "RPUSH k x => 1");
    assert_eq!(acquire(&server, "me:1 1 1000 -1"), "[-4, \"list\"]");
    assert_eq!(release(&server, "me:1 0"), "-4");
    assert_eq!(run(&server, &FORCE_RELEASE, "k c", "me:1 PUBLISH"), "-4");
    assert_eq!(run(&server, &INSPECT, "k", ""), "[-4, \"list\"]");
    check(&server, "LRANGE k 0 -1 => [\"x\"]\nDEL k => 1\nHSET k mode read you:1 1 => 2");
    assert_eq!(acquire(&server, "me:1 1 1000 -1"), "[-4, \"read-write lock\"]");
    assert_eq!(run(&server, &FORCE_RELEASE, "k c", "you:1 PUBLISH"), "-4");
    assert_eq!(run(&server, &INSPECT, "k", ""), "[-4, \"read-write lock\"]");
    check(&server, "HLEN k => 2");
}

#[test]
fn release_lowers_a_count_and_leaves_the_lease() {
    let (server, clock) = server();
    for count in 1..=3 {
        acquire(&server, &format!("me:1 {count} 1000 -1"));
    }
    clock.advance(100 * MILLI);
    assert_eq!(release(&server, "me:1 1"), "2", "lowered, from any greater count");
    check(&server, "HGET k me:1 => \"1\"\nPTTL k => 900");
    assert_eq!(release(&server, "me:1 1"), "3", "same");
    assert_eq!(release(&server, "me:1 2"), "4", "below");
    check(&server, "HGET k me:1 => \"1\"\nPTTL k => 900");
}

#[test]
fn release_ends_a_hold_once_and_tells_the_waiters_once() {
    let (server, _) = server();
    let link = server.link();
    now(link.subscribe("c".into())).expect("the link is up");
    for count in 1..=2 {
        acquire(&server, &format!("me:1 {count} 1000 -1"));
    }
    assert_eq!(release(&server, "me:1 0"), "6");
    check(&server, "EXISTS k => 0");
    assert_eq!(release(&server, "me:1 0"), "0", "absent");
    acquire(&server, "other:1 1 1000 -1");
    assert_eq!(release(&server, "me:1 0"), "-1", "other");
    assert_eq!(release(&server, "me:1 1"), "-1", "other");
    check(&server, "HGETALL k => [\"other:1\", \"1\"]");
    assert_eq!(notices(&link), 1, "a copy publishes nothing");
}

#[test]
fn renew_treats_each_key_alone() {
    let (server, clock) = server();
    run(&server, &ACQUIRE, "a", "me:1 1 1000 -1");
    run(&server, &ACQUIRE, "b", "other:1 1 1000 -1");
    check(&server, "SET text x => \"OK\"");
    run(&server, &ACQUIRE, "d", "me:4 1 5000 -1");
    run(&server, &ACQUIRE, "d", "me:4 2 5000 -1");
    clock.advance(500 * MILLI);
    assert_eq!(
        run(&server, &RENEW, "a b text none d", "me:1 1000 me:2 1000 me:3 1000 me:5 1000 me:4 1000"),
        "[1, 1000, 0, 0, -4, 0, 0, 0, 2, 4500]"
    );
    check(&server, "PTTL a => 1000\nPTTL b => 500\nPTTL text => -1\nEXISTS none => 0\nPTTL d => 4500");
}

#[test]
fn renew_creates_nothing_after_the_lease() {
    let (server, clock) = server();
    acquire(&server, "me:1 1 1000 -1");
    clock.advance(1_001 * MILLI);
    assert_eq!(run(&server, &RENEW, "k", "me:1 1000"), "[0, 0]");
    assert!(server.keys().is_empty());
}

#[test]
fn force_release_ends_the_named_hold_only() {
    let (server, _) = server();
    let force = |holder: &str| run(&server, &FORCE_RELEASE, "k c", &format!("{holder} PUBLISH"));
    assert_eq!(force("me:1"), "0", "absent");
    acquire(&server, "me:1 1 1000 -1");
    acquire(&server, "me:1 2 1000 -1");
    assert_eq!(force("other:1"), "-1", "other");
    assert_eq!(command(&server, "HGET k me:1"), "\"2\"");
    let link = server.link();
    now(link.subscribe("c".into())).expect("the link is up");
    assert_eq!(force("me:1"), "1", "released");
    check(&server, "EXISTS k => 0");
    assert_eq!(force("me:1"), "0", "a copy");
    assert_eq!(notices(&link), 1, "the waiters are told once");
}

#[test]
fn inspect_tells_who_holds() {
    let (server, clock) = server();
    assert_eq!(run(&server, &INSPECT, "k", ""), "[0]");
    acquire(&server, "me:1 1 1000 -1");
    acquire(&server, "me:1 2 1000 -1");
    clock.advance(100 * MILLI);
    assert_eq!(run(&server, &INSPECT, "k", ""), "[1, 900, \"me:1\", \"2\"]");
    check(&server, "PERSIST k => 1");
    assert_eq!(run(&server, &INSPECT, "k", ""), "[1, -1, \"me:1\", \"2\"]");
}

#[test]
fn only_the_first_write_meets_full_memory() {
    let (server, _) = server();
    acquire(&server, "me:1 1 1000 -1");
    server.deny_growth(true);
    assert!(acquire(&server, "me:1 2 1000 -1").starts_with("!OOM "));
    assert_eq!(run(&server, &RENEW, "k", "me:1 5000"), "[1, 5000]", "renewals need no memory");
    assert_eq!(release(&server, "me:1 0"), "1", "nor do releases");
    assert!(acquire(&server, "me:2 1 1000 -1").starts_with("!OOM "));
    assert!(server.keys().is_empty());
}
