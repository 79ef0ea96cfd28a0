//! `leasehold inspect` tells of every kind of lock.

use crate::support::{Running, SERVER, Start as _, held_by_a_jvm, leasehold, name, run, until_announced, until_held};
use leasehold_test_support::until;

fn held(options: &[&str]) -> Running {
    crate::support::held(&SERVER, options)
}

fn inspected(name: &str) -> String {
    let done = leasehold(&SERVER).args(["inspect", name]).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
    done.stdout
}

fn inspected_as_json(name: &str) -> serde_json::Value {
    let done = leasehold(&SERVER).args(["inspect", name, "--json"]).finish();
    assert_eq!((done.code(), done.stdout.lines().count()), (0, 1), "{done:?}");
    serde_json::from_str(&done.stdout).expect("an object")
}

#[test]
fn free_lock_is_told_free() {
    let name = name();
    assert_eq!(inspected(&name), format!("{name}: free\n"));
    assert_eq!(inspected_as_json(&name)["state"], "free");
}

#[test]
fn held_lock_is_told_with_its_process() {
    let name = name();
    let holder = held(&[&name]);
    until_announced(&SERVER, &name);
    let text = inspected(&name);
    for word in ["held (lock)", "holder", "lease left", "leasehold run sh", &format!("process {}", holder.pid())] {
        assert!(text.contains(word), "{text:?} has {word:?}");
    }
    let seen = inspected_as_json(&name);
    assert_eq!(seen["holders"][0]["process"]["pid"], holder.pid());
    assert_eq!((&seen["holders"][0]["hold_count"], &seen["warnings"]), (&1.into(), &serde_json::json!([])));
}

#[test]
fn waiters_of_a_fair_lock_are_told_in_order() {
    let name = name();
    let _holder = held(&[&name, "--fair"]);
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let _waiters = [1, 2].map(|number| {
        let waiter = run(&SERVER, &[&name, "--fair", "--", "true"]).start();
        until("it has its place", || SERVER.command(&["LLEN", &queue]).as_int() == Some(number));
        waiter
    });
    let seen = inspected_as_json(&name);
    let entries = crate::support::texts(&SERVER.command(&["LRANGE", &queue, "0", "-1"]));
    assert_eq!([0, 1].map(|at| seen["waiters"][at]["id"].as_str().expect("an id")), entries[..], "{seen}");
    assert_eq!(seen["waiters"][0]["alive"], true);
    assert!(inspected(&name).contains("waiter   2. "));
}

#[test]
fn halves_of_a_read_write_lock_are_told_apart() {
    let name = name();
    let _readers = [held(&[&name, "--read"]), held(&[&name, "--read"])];
    let text = inspected(&name);
    assert!(text.contains("held (read-write lock)") && text.matches("(read half)").count() == 2, "{text}");
}

#[test]
fn permits_are_counted() {
    let name = name();
    let _holder = held(&[&name, "--permits", "3"]);
    let text = inspected(&name);
    assert!(text.contains("leased semaphore") && text.contains("2 available, 1 held"), "{text}");
    assert_eq!(inspected_as_json(&name)["permits"]["available"], 2);
}

#[test]
fn simple_locks_and_counters_are_told() {
    let (simple, counter) = (name(), name());
    SERVER.command(&["SET", &simple, "some-process", "PX", "60000"]);
    SERVER.command(&["SET", &counter, "3"]);
    let text = inspected(&simple);
    assert!(text.contains("held (simple lock)") && text.contains("some-process"), "{text}");
    let text = inspected(&counter);
    assert!(text.contains("counter of a semaphore or a latch") && text.contains("3 available"), "{text}");
}

#[test]
fn hold_without_a_lease_is_warned_of() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    SERVER.command(&["PERSIST", &name]);
    let text = inspected(&name);
    assert!(text.contains("WARNING") && text.contains("has no lease"), "{text}");
}

#[test]
fn foreign_data_is_a_conflict() {
    let name = name();
    SERVER.command(&["RPUSH", &name, "data"]);
    leasehold(&SERVER).args(["inspect", &name]).finish().fails_with(73, &[&name, "in use"]);
}

#[test]
fn looking_changes_nothing() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "3600000");
    until_held(&SERVER, &name);
    let dump = || SERVER.command(&["DUMP", &name]);
    let before = dump();
    inspected(&name);
    assert_eq!(dump(), before);
}
