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
    assert!(text.contains("held (read-write lock)") && text.matches(", read half").count() == 2, "{text}");
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
    assert!(text.contains("counted (counter)") && text.contains("3 available"), "{text}");
}

#[test]
fn hold_without_a_lease_is_warned_of() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    SERVER.command(&["PERSIST", &name]);
    let text = inspected(&name);
    assert!(text.contains("WARNING") && text.contains("no time to live"), "{text}");
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

#[test]
fn token_of_the_last_grant_is_told_also_of_a_free_lock() {
    let name = name();
    let mut holder = held(&[&name, "--fenced"]);
    let token = inspected_as_json(&name)["fencing_token"].as_u64().expect("a token");
    assert!(inspected(&name).contains(&format!("token    {token}, of the last grant")));
    holder.close_stdin();
    holder.finish();
    let seen = inspected_as_json(&name);
    assert_eq!((&seen["state"], &seen["fencing_token"]), (&"free".into(), &token.into()));
}

#[test]
fn waiters_of_another_lock_are_counted() {
    let name = name();
    let _holder = held(&[&name]);
    let _waiters = [(), ()].map(|()| run(&SERVER, &[&name, "--", "true"]).start());
    until("both listen", || inspected_as_json(&name)["waiting"] == 2);
    assert!(inspected(&name).contains("waiters  2, counted by"), "{}", inspected(&name));
}

#[test]
fn age_of_a_hold_is_told_where_its_process_says_it() {
    let name = name();
    let _holder = held(&[&name]);
    until("it says so", || inspected(&name).contains("held for "));
    assert!(inspected_as_json(&name)["holders"][0]["held_ms"].as_u64().is_some_and(|age| age >= 1_000));
}

#[test]
fn silent_waiter_and_odd_field_are_warned_of() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    SERVER.command(&["HSET", &name, "odd\u{1b}[2J", "1"]);
    let text = inspected(&name);
    assert!(text.matches("WARNING").count() >= 2 && text.contains("odd") && !text.contains('\u{1b}'), "{text:?}");
    let fair = crate::support::name();
    let mut holder = held(&[&fair, "--fair"]);
    let queue = format!("redisson_lock_queue:{{{fair}}}");
    let jvm = "6f0c0000-0000-4000-8000-000000000000:9";
    SERVER.command(&["RPUSH", &queue, jvm]);
    // The deadline of a JVM's waiter, which has passed.
    SERVER.command(&["ZADD", &format!("redisson_lock_timeout:{{{fair}}}"), "1700000000000", jvm]);
    let text = inspected(&fair);
    assert!(text.contains("WARNING") && text.contains("SILENT") && text.contains("waiter   1. "), "{text}");
    holder.close_stdin();
    holder.finish();
}

#[test]
fn control_characters_of_a_name_do_not_reach_the_terminal() {
    let name = format!("{}\u{1b}[2J", name());
    held_by_a_jvm(&SERVER, &name, "60000");
    for text in [inspected(&name), leasehold(&SERVER).args(["inspect", "free\u{1b}[2J"]).finish().stdout] {
        assert!(text.contains(r"\u{1b}[2J") && !text.contains('\u{1b}'), "{text:?}");
    }
}
