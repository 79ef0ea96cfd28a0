//! `leasehold unlock` ends the hold of another process, and only the one that is meant.

use crate::support::{
    Running, SERVER, Start as _, exists, held_by_a_jvm, leasehold, name, patient, run_script, until_announced,
};
use std::process::{Command, Stdio};

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

fn unlock(words: &[&str]) -> Command {
    let mut command = leasehold(&SERVER);
    command.arg("unlock").args(words);
    command
}

/// `unlock` at a terminal, which types what it is given.
fn at_a_terminal(name: &str) -> Command {
    let line = format!("{} unlock {name}", env!("CARGO_BIN_EXE_leasehold"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
    command.env("LEASEHOLD_URL", patient(&SERVER.url())).env("SHELL", "sh").stdin(Stdio::piped());
    command
}

fn held(options: &[&str]) -> Running {
    let running = run_script(&SERVER, options, "echo in; sleep 100").start();
    running.says("in");
    running
}

#[test]
fn unlocked_command_is_stopped_and_the_next_runs() {
    for kind in [&[][..], &["--fair"], &["--fenced"], &["--write"], &["--read"]] {
        let name = name();
        let holder = held(&[&[name.as_str(), "--lease", "2s"], kind].concat());
        until_announced(&SERVER, &name);
        let done = unlock(&[&name, "--yes"]).finish();
        assert_eq!(done.code(), 0, "{done:?}");
        assert!(
            done.stdout.contains("freed") && done.stdout.contains(&format!("process {}", holder.pid())),
            "{done:?}"
        );
        holder.finish().fails_with(76, &["force-released"]);
        assert!(!exists(&SERVER, &name));
    }
}

#[test]
fn free_lock_needs_nothing() {
    let done = unlock(&[&name(), "--yes"]).finish();
    assert_eq!(done.code(), 0);
    assert!(done.stdout.contains("free, so there is nothing to do"));
}

#[test]
fn name_of_an_unlocked_lock_gives_the_terminal_no_command() {
    let name = format!("{}\u{1b}[2J", name());
    held_by_a_jvm(&SERVER, &name, "60000");
    for state in ["freed", "free"] {
        let done = unlock(&[&name, "--yes"]).finish();
        assert!(done.stdout.contains(&format!("\\u{{1b}}[2J: {state}")), "{done:?}");
        assert!(!done.stdout.contains('\u{1b}'), "{done:?}");
    }
}

#[test]
fn another_holder_than_the_named_one_is_left_alone() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    let done = unlock(&[&name, "--yes", "--holder", "6f0c0000-0000-4000-8000-000000000000:2"]).finish();
    done.fails_with(73, &["is not held so", JVM]);
    assert!(exists(&SERVER, &name));
    assert_eq!(unlock(&[&name, "--yes", "--holder", JVM]).finish().code(), 0);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_freed() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    unlock(&[&name]).finish().fails_with(64, &["--yes"]);
    assert!(exists(&SERVER, &name));
}

#[test]
fn answer_at_the_terminal_decides() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    for (answer, code, left) in [("n\n", 64, true), ("\n", 64, true), ("y\n", 0, false)] {
        let mut running = at_a_terminal(&name).start();
        running.shows("Free the lock? [y/N]");
        running.shows(JVM);
        running.write(answer);
        let done = running.finish();
        assert_eq!((done.code(), exists(&SERVER, &name)), (code, left), "{done:?}");
    }
}

/// A plain lock looks like a fair one without a queue, and its release is told elsewhere than a fair waiter listens.
#[test]
fn queue_that_came_while_it_asked_is_woken() {
    let name = name();
    let waiter = "6f0c0000-0000-4000-8000-000000000000:9";
    held_by_a_jvm(&SERVER, &name, "60000");
    let mut running = at_a_terminal(&name).start();
    running.shows("Free the lock? [y/N]");
    let mut ear = SERVER.connect().expect("a connection");
    ear.command(&["SUBSCRIBE", &format!("redisson_lock__channel:{{{name}}}:{waiter}")]).expect("an answer");
    SERVER.command(&["RPUSH", &format!("redisson_lock_queue:{{{name}}}"), waiter]);
    SERVER.command(&["ZADD", &format!("redisson_lock_timeout:{{{name}}}"), "99999999999999", waiter]);
    running.write("y\n");
    assert_eq!(running.finish().code(), 0);
    // A message that is there already is the next thing to read, and the answer to a PING would be the next otherwise.
    ear.send(&["PING"]).expect("a connection");
    let told = ear.receive().expect("an answer");
    assert_eq!(told.elements().first().and_then(|word| word.as_str()), Some("message"), "{told:?}");
}

#[test]
fn permits_are_not_freed_by_it() {
    let name = name();
    let _holder = held(&[&name, "--permits", "2"]);
    unlock(&[&name, "--yes"]).finish().fails_with(73, &["is a leased semaphore, which has permits"]);
}

#[test]
fn hash_of_an_application_is_left_alone() {
    let name = name();
    SERVER.command(&["HSET", &name, "quantity", "3", "price", "5"]);
    let before = SERVER.command(&["HGETALL", &name]);
    for words in [&["--yes"][..], &["--yes", "--holder", "quantity"]] {
        unlock(&[&[name.as_str()], words].concat()).finish().fails_with(73, &["in use by something else: hash"]);
        assert_eq!(SERVER.command(&["HGETALL", &name]), before);
    }
}

#[test]
fn text_of_an_application_is_left_alone() {
    let (endless, long) = (name(), name());
    SERVER.command(&["SET", &endless, "data"]);
    SERVER.command(&["SET", &long, &"x".repeat(257), "PX", "60000"]);
    for name in [endless, long] {
        unlock(&[&name, "--yes"]).finish().fails_with(73, &["in use by something else"]);
        assert!(exists(&SERVER, &name));
    }
}

#[test]
fn freed_hold_is_an_object_with_json() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    let done = unlock(&[&name, "--yes", "--json"]).finish();
    let told: serde_json::Value = serde_json::from_str(&done.stdout).expect("an object");
    assert_eq!(told["freed"]["id"], JVM);
}
