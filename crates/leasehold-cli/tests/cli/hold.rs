//! `leasehold hold` holds a lock until a signal, and `leasehold release` ends it from elsewhere.

use crate::support::{Running, SERVER, Start as _, exists, held_by_a_jvm, leasehold, name, objects};
use leasehold_test_support::until;
use rustix::process::Signal;
use std::process::Command;

fn hold(options: &[&str]) -> Command {
    let mut command = leasehold(&SERVER);
    command.arg("hold").args(options);
    command
}

/// The id that it prints.
fn holder(running: &Running) -> String {
    running.says("")
}

fn release(name: &str, holder: &str) -> Command {
    let mut command = leasehold(&SERVER);
    command.args(["release", name, "--holder", holder]);
    command
}

#[test]
fn signal_releases_the_lock_with_success() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let name = name();
        let running = hold(&[&name]).start();
        assert!(holder(&running).ends_with(":1"));
        assert!(exists(&SERVER, &name));
        running.signal(signal);
        let done = running.finish();
        assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{signal:?}");
        assert!(!exists(&SERVER, &name));
    }
}

#[test]
fn substitution_of_a_shell_ends_with_the_grant_and_release_ends_the_hold() {
    let name = name();
    let script = "holder=$(\"$0\" hold --lease 1s \"$1\" & echo $! > \"$2\"); echo \"holder $holder\"; \
                  \"$0\" release \"$1\" --holder \"$holder\"; echo \"released $?\"";
    let pid = crate::support::path(&SERVER);
    let mut shell = Command::new("sh");
    shell.env("LEASEHOLD_URL", SERVER.url()).args(["-c", script, env!("CARGO_BIN_EXE_leasehold"), &name]).arg(&pid);
    let done = shell.finish();
    assert!(done.stdout.contains("holder ") && done.stdout.ends_with("released 0\n"), "{done:?}");
    assert!(!exists(&SERVER, &name));
    // The hold notices at its next renewal.
    crate::support::until_gone(&std::fs::read_to_string(&pid).expect("a pid"));
}

#[test]
fn released_hold_ends_as_lost() {
    for kind in [&["--fair"][..], &["--fenced"], &["--read"], &["--write"], &["--permits", "2"]] {
        let name = name();
        let running = hold(&[&[&*name, "--lease", "1s"], kind].concat()).start();
        let id = holder(&running);
        assert_eq!(release(&name, &id).finish().code(), 0, "{kind:?}");
        running.finish().fails_with(76, &["was lost"]);
        release(&name, &id).finish().fails_with(73, &[&name]);
    }
}

#[test]
fn release_ends_no_other_hold_and_needs_the_holder() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    release(&name, "6f0c1de2-4a53-4b0e-9f0a-0c2d7b1f3a55:7").finish().fails_with(73, &["no such holder"]);
    leasehold(&SERVER).args(["release", &name]).finish().fails_with(64, &["needs --holder", "leasehold unlock"]);
    assert!(exists(&SERVER, &name));
}

#[test]
fn hold_ends_at_its_limit_and_when_the_lock_is_busy() {
    let name = name();
    hold(&[&name, "--max-hold", "100ms"]).finish().fails_with(76, &["--max-hold"]);
    held_by_a_jvm(&SERVER, &name, "60000");
    let done = hold(&[&name, "--try", "-E", "9"]).finish();
    done.fails_with(9, &["is busy"]);
    assert_eq!(done.stdout, "");
    let waiting = hold(&[&name]).start();
    let channel = format!("redisson_lock__channel:{{{name}}}");
    until("it waits", || SERVER.command(&["PUBSUB", "NUMSUB", &channel]).elements()[1].as_int() == Some(1));
    waiting.signal(Signal::TERM);
    assert_eq!(waiting.finish().signal(), Signal::TERM.as_raw());
}

#[test]
fn json_has_the_token() {
    let name = name();
    let running = hold(&[&name, "--fenced", "--json"]).start();
    until("the object is printed", || running.stdout().ends_with('\n'));
    let object = &objects(&running.stdout())[0];
    assert!(object["name"] == *name && object["holder"].is_string() && object["token"].is_u64(), "{object}");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code(), 0);
}
