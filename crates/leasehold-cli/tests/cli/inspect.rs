//! `leasehold inspect` tells of every kind of lock.

use crate::support::{
    Done, Running, SERVER, Start as _, bare, held_by_a_jvm, leasehold, name, run, run_script, until_announced,
    until_held,
};
use leasehold::{Client, HolderId};
use leasehold_test_support::{Server, until};
use rustix::process::Signal;
use std::process::Stdio;

fn held(options: &[&str]) -> Running {
    crate::support::held(&SERVER, options)
}

fn inspected(name: &str) -> String {
    let done = leasehold(&SERVER).args(["inspect", name]).finish();
    // Other tests have locks with similar names.
    assert!(done.code() == 0 && (done.stderr.is_empty() || done.line().contains("; similar: ")), "{done:?}");
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
    assert_eq!(inspected(&name), format!("{name}: free; there is no key {name:?}\n"));
    assert_eq!(inspected_as_json(&name)["state"], "free");
}

#[test]
fn pattern_is_refused_with_a_hint_unless_a_lock_has_that_name() {
    let pattern = format!("{}:*", name());
    for verb in [&["inspect"][..], &["unlock", "--yes"]] {
        leasehold(&SERVER).args(verb).arg(&pattern).finish().fails_with(64, &[&pattern, "leasehold ls"]);
    }
    held_by_a_jvm(&SERVER, &pattern, "60000");
    assert!(inspected(&pattern).contains("held (lock)"));
    assert_eq!(leasehold(&SERVER).args(["unlock", "--yes", &pattern]).finish().code(), 0);
}

#[test]
fn free_name_comes_with_similar_names_for_a_person() {
    let server = Server::start();
    held_by_a_jvm(&server, "shop:stock", "60000");
    held_by_a_jvm(&server, "backup", "60000");
    let ask = |words: &[&str]| leasehold(&server).args(words).finish();
    for (verb, words) in [("inspect", &[][..]), ("unlock", &["--yes"])] {
        let done = ask(&[&[verb, "stock"], words].concat());
        assert_eq!(done.code(), 0, "{done:?}");
        assert!(done.line().ends_with("no lock has the name \"stock\"; similar: \"shop:stock\""), "{done:?}");
        assert!(ask(&[&[verb, "bakcup"], words].concat()).line().ends_with("similar: \"backup\""));
        assert_eq!(ask(&[&[verb, "till"], words].concat()).stderr, "");
    }
    for words in [&["inspect", "--check", "stock"][..], &["inspect", "--json", "stock"], &["unlock", "--json", "stock"]]
    {
        assert_eq!(ask(words).stderr, "", "{words:?}");
    }
}

#[test]
fn key_with_its_prefix_is_told_of_a_free_lock() {
    let name = name();
    let done = leasehold(&SERVER).args(["inspect", "--prefix", "shop:", &name]).finish();
    assert!(done.stdout.contains(&format!("there is no key \"shop:{name}\"")), "{done:?}");
}

#[test]
fn check_tells_a_script_whether_a_request_would_wait() {
    let (free, held, permits) = (name(), name(), name());
    let check = |name: &str| leasehold(&SERVER).args(["inspect", "--check", name]).finish().code();
    held_by_a_jvm(&SERVER, &held, "60000");
    SERVER.command(&["SET", &permits, "1"]);
    assert_eq!([check(&free), check(&held), check(&permits)], [0, 75, 0]);
    SERVER.command(&["SET", &permits, "0"]);
    assert_eq!(check(&permits), 75);
    assert_eq!(leasehold(&SERVER).args(["inspect", &held]).finish().code(), 0, "without the option a look is a look");
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

/// A look at a semaphore, and the permits of which it knows the process.
fn known_permits(words: &[&str]) -> (Done, Vec<serde_json::Value>) {
    let done = leasehold(&SERVER).args(["inspect", "--json"]).args(words).finish();
    let seen: serde_json::Value = serde_json::from_str(&done.stdout).expect("an object");
    let all = seen["holders"].as_array().expect("a list");
    let known = all.iter().filter(|permit| !permit["process"].is_null()).cloned().collect();
    (done, known)
}

#[test]
fn permits_are_counted_and_told_with_their_processes() {
    let name = name();
    let holders = [(), ()].map(|()| {
        let script = "echo holder $LEASEHOLD_HOLDER; read end";
        run_script(&SERVER, &["--prefix", "p:", &name, "--permits", "3"], script).stdin(Stdio::piped()).start()
    });
    let ids = holders.each_ref().map(|holder| HolderId::from(holder.says("holder ")));
    let words = ["--prefix", "p:", &name];
    until("both say what they hold", || known_permits(&words).1.len() == 2);
    let (done, known) = known_permits(&words);
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
    for permit in known {
        let id = permit["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        let of = ids.iter().position(|holder| holder.has_permit(id)).expect("one of both");
        assert_eq!(permit["process"]["pid"], holders[of].pid(), "{permit}");
        assert!(permit["held_ms"].as_u64().is_some_and(|held| held >= 1_000), "{permit}");
    }
    let text = leasehold(&SERVER).arg("inspect").args(words).finish().stdout;
    assert!(text.contains("semaphore") && text.contains("1 available, 2 held"), "{text}");
    for holder in &holders {
        assert!(text.contains(&format!("leasehold run sh, process {} on ", holder.pid())), "{text}");
    }
    // The same name behind another prefix is another semaphore.
    assert!(inspected(&name).starts_with(&format!("{name}: free;")));
}

#[test]
fn permit_of_no_known_process_is_told_with_the_reason() {
    let keys = "~x ~{x}:* ~redisson_* ~leasehold:1:fair:* ~leasehold:1:rw_readers:*";
    let server = Server::builder().user(&format!("app on >secret {keys} &* +@all")).start();
    server.command(&["SET", "x", "2"]);
    server.command(&["ZADD", "{x}:timeout", "4102444800000", "a JVM's permit 1"]);
    let done = leasehold(&server).args(["inspect", "x"]).finish();
    assert!(done.code() == 0 && done.stdout.contains("2 available, 1 held"), "{done:?}");
    assert!(done.line().contains("unknown process of 1 permit: the process is not announced"), "{done:?}");
    let _announced = crate::support::held(&server, &["other"]);
    until_announced(&server, "other");
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    let done = bare().env("LEASEHOLD_URL", &url).args(["inspect", "x"]).finish();
    assert_eq!(done.code(), 0, "{done:?}");
    for word in ["unknown process of 1 permit: ", "NOPERM", "+scan, +hlen, +hmget and ~leasehold:1:client:*"] {
        assert!(done.line().contains(word), "{done:?} has {word:?}");
    }
}

#[test]
fn holds_of_a_bare_semaphore_are_told_as_their_processes_say() {
    let name = name();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (client, guard) = runtime.block_on(async {
        let client = Client::builder().announce("orders").connect(&SERVER.url()).await.expect("a server");
        let seats = client.bare_semaphore(&name);
        seats.try_set_permits(3).await.expect("a number");
        let guard = seats.acquire().await.expect("a permit");
        (client, guard)
    });
    until("it says what it holds", || inspected(&name).contains("according to its process"));
    let text = inspected(&name);
    for word in ["2 available", guard.holder_id().as_str(), "; orders, process "] {
        assert!(text.contains(word), "{text:?} has {word:?}");
    }
    let said = &inspected_as_json(&name)["announced_holders"];
    assert_eq!((said.as_array().map(Vec::len), &said[0]["process"]["application"]), (Some(1), &"orders".into()));
    drop((guard, client));
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
    assert!(inspected(&name).contains(&format!("token    {token}")));
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
    assert!(inspected(&name).contains("waiters  2 (clients"), "{}", inspected(&name));
}

#[test]
fn age_of_a_hold_is_told_where_its_process_says_it() {
    let name = name();
    let _holder = held(&[&name]);
    until("it says so", || inspected(&name).contains("held for "));
    assert!(inspected_as_json(&name)["holders"][0]["held_ms"].as_u64().is_some_and(|age| age >= 1_000));
}

/// What is told of a holder that was killed when it had held the lock for a moment, by the seconds since.
#[test]
fn killed_holder_is_told_with_the_time_since_its_last_renewal() {
    let name = name();
    let holder = held(&[&name, "--lease", "20s"]);
    until("it says since when", || !inspected_as_json(&name)["holders"][0]["held_ms"].is_null());
    assert!(inspected_as_json(&name)["holders"][0]["unrenewed_ms"].is_null());
    holder.signal(Signal::KILL);
    // The server goes on as if eleven seconds had passed since the last renewal.
    SERVER.command(&["PEXPIRE", &name, "9000"]);
    let text = inspected(&name);
    for word in [
        "no renewal for 11.",
        ": probably dead, free in 8.",
        " s at ",
        " UTC",
        "WARNING  the holder ",
        &format!("process {} on ", holder.pid()),
        ", last seen 11.",
    ] {
        assert!(text.contains(word), "{text:?} has {word:?}");
    }
    assert!(!text.contains("up for") && !text.contains("lease left"), "{text}");
    let seen = &inspected_as_json(&name)["holders"][0];
    assert!(seen["unrenewed_ms"].as_u64().is_some_and(|since| since >= 11_000), "{seen}");
}

/// Changes the record of the process that holds a lock, as long as the process does not write it anew, until the look has a text.
#[track_caller]
fn told_of_a_record_with(name: &str, fields: &[&str], text: &str) {
    until_announced(&SERVER, name);
    let client = inspected_as_json(name)["holders"][0]["id"].as_str().expect("an id")[..36].to_owned();
    let key = format!("leasehold:1:client:{client}");
    until(text, || {
        SERVER.command(&[&["HSET", key.as_str()], fields].concat());
        inspected(name).contains(text)
    });
}

#[test]
fn clock_of_a_host_that_is_wrong_does_not_change_for_how_long_it_is_up() {
    let name = name();
    let _holder = held(&[&name]);
    for since in ["1", "99999999999999"] {
        told_of_a_record_with(&name, &["since", since, "up", "7000000"], ", up for 1 h 56 min");
    }
}

#[test]
fn process_whose_record_is_old_is_told_with_its_age() {
    let name = name();
    let _holder = held(&[&name]);
    told_of_a_record_with(&name, &["written", "1"], ", last seen ");
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
