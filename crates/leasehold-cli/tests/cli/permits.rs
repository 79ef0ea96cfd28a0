//! `leasehold permits` shows and changes the number of permits of a semaphore.

use crate::support::{SERVER, Start as _, held, held_by_a_jvm, leasehold, name, objects, run, texts};
use leasehold_test_support::until;
use rustix::process::Signal;
use std::process::Command;

fn permits(words: &[&str]) -> Command {
    let mut command = leasehold(&SERVER);
    command.arg("permits").args(words);
    command
}

#[test]
fn number_of_permits_is_changed_while_some_are_held() {
    let name = name();
    let _holders = [held(&SERVER, &[&name, "--permits", "2"]), held(&SERVER, &[&name, "--permits", "2"])];
    let refused = run(&SERVER, &[&name, "--permits", "3", "--try", "--", "true"]).finish();
    refused.fails_with(73, &["has 2 permits", "leasehold permits NAME 3"]);
    for (count, line) in [
        ("3", "3 permits, was 2; 1 available, 2 held"),
        ("3", "3 permits, was 3; 1 available, 2 held"),
        ("1", "1 permit, was 3; -1 available, 2 held"),
        ("3", "3 permits, was 1; 1 available, 2 held"),
    ] {
        let done = permits(&[&name, count]).finish();
        assert_eq!((done.code(), done.stdout), (0, format!("{name}: {line}\n")), "{}", done.stderr);
    }
    assert_eq!(permits(&[&name]).finish().stdout, format!("{name}: 3 permits; 1 available, 2 held\n"));
    assert_eq!(run(&SERVER, &[&name, "--permits", "3", "--try", "--", "true"]).finish().code(), 0);
    run(&SERVER, &[&name, "--permits", "2", "--try", "--", "true"]).finish().fails_with(73, &["permits NAME 2"]);
}

#[test]
fn idle_semaphore_is_changed_and_one_that_is_not_there_is_made() {
    let name = name();
    permits(&[&name]).finish().fails_with(73, &["no semaphore", "permits NAME N"]);
    assert_eq!(permits(&[&name, "5"]).finish().stdout, format!("{name}: 5 permits, new; 5 available, 0 held\n"));
    assert_eq!(permits(&[&name, "4"]).finish().stdout, format!("{name}: 4 permits, was 5; 4 available, 0 held\n"));
    let told = objects(&permits(&[&name, "6", "--json"]).finish().stdout).remove(0);
    assert_eq!((&told["permits"], &told["before"], &told["held"]), (&6.into(), &4.into(), &0.into()), "{told}");
}

#[test]
fn what_is_no_semaphore_and_no_number_is_refused() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    for words in [&[name.as_str()][..], &[&name, "3"]] {
        permits(words).finish().fails_with(73, &[&name]);
    }
    for number in ["0", "-1", "x", "2147483648"] {
        permits(&[&name, number]).finish().fails_with(64, &[number]);
    }
}

#[test]
fn waiter_gets_its_permit_when_the_number_is_raised() {
    let name = name();
    let _holder = held(&SERVER, &[&name, "--permits", "1", "--lease", "1h"]);
    let channel = format!("redisson_sc:{{{name}}}");
    // Nothing else wakes it.
    let mut waiter = run(&SERVER, &[&name, "--permits", "1", "--", "echo", "got"]);
    let waiter = waiter.env("LEASEHOLD_URL", format!("{}?recheck=1h", SERVER.url())).start();
    until("it listens", || texts(&SERVER.command(&["PUBSUB", "CHANNELS", "*"])).contains(&channel));
    assert_eq!(permits(&[&name, "2"]).finish().code(), 0);
    waiter.says("got");
    assert_eq!(waiter.finish().code(), 0);
}

#[test]
fn permit_of_a_killed_run_comes_back_after_its_lease() {
    let name = name();
    let holder = held(&SERVER, &[&name, "--permits", "1", "--lease", "1s"]);
    run(&SERVER, &[&name, "--permits", "1", "--try", "--", "true"]).finish().fails_with(75, &["is busy"]);
    holder.signal(Signal::KILL);
    holder.finish();
    assert_eq!(run(&SERVER, &[&name, "--permits", "1", "--wait", "30s", "--", "true"]).finish().code(), 0);
    assert_eq!(permits(&[&name]).finish().stdout, format!("{name}: 1 permit; 1 available, 0 held\n"));
}
