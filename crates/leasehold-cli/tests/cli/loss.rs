//! The command does not go on without its lock, whatever takes the lock or `leasehold` away.

use crate::support::{SERVER, Start as _, exists, name, path, run, run_script, runs, until_gone, until_held};
use leasehold_test_support::{Server, until};
use rustix::process::Signal;

/// A command with a grandchild; it says both pids.
const FAMILY: &str = "sleep 100 & echo grandchild $!; echo child $$; wait";

/// The same, and neither ends by SIGTERM.
const STUBBORN: &str =
    "trap '' TERM; sh -c 'while :; do sleep 1; done' & echo grandchild $!; echo child $$; while :; do sleep 1; done";

#[test]
fn force_released_lock_stops_command_and_grandchild() {
    let name = name();
    let running = run_script(&SERVER, &[&name, "--lease", "2s"], FAMILY).start();
    let (grandchild, child) = (running.says("grandchild "), running.says("child "));
    SERVER.command(&["DEL", &name]);
    let done = running.finish();
    done.fails_with(76, &[&format!("\"{name}\" was lost"), "force-released", "the command was stopped", "signal 15"]);
    until_gone(&child);
    until_gone(&grandchild);
}

#[test]
fn killed_server_stops_command_and_grandchild() {
    let server = Server::start();
    let running = run_script(&server, &[&name(), "--lease", "1s"], FAMILY).start();
    let (grandchild, child) = (running.says("grandchild "), running.says("child "));
    server.kill();
    until_gone(&child);
    until_gone(&grandchild);
    running.finish().fails_with(76, &["was lost", "could not be renewed in time"]);
}

#[test]
fn stubborn_command_and_grandchild_are_killed_after_the_grace() {
    let name = name();
    let running = run_script(&SERVER, &[&name, "--lease", "1s", "--grace", "300ms"], STUBBORN).start();
    let (grandchild, child) = (running.says("grandchild "), running.says("child "));
    SERVER.command(&["DEL", &name]);
    let done = running.finish();
    done.fails_with(76, &["the command was stopped", "signal 9"]);
    until_gone(&child);
    until_gone(&grandchild);
}

#[test]
fn grandchild_that_outlives_the_command_is_killed_too() {
    let name = name();
    let script = "sh -c 'trap \"\" TERM; echo grandchild $$; while :; do sleep 1; done' & trap 'exit 5' TERM; wait";
    let running = run_script(&SERVER, &[&name, "--lease", "1s", "--grace", "500ms"], script).start();
    let grandchild = running.says("grandchild ");
    SERVER.command(&["DEL", &name]);
    running.finish().fails_with(76, &["the command was stopped", "exit code 5"]);
    until_gone(&grandchild);
}

#[test]
fn command_that_is_stopped_is_ended_too() {
    let name = name();
    let running = run_script(&SERVER, &[&name, "--lease", "1s"], "echo child $$; kill -STOP $$; echo went on").start();
    let child = running.says("child ");
    SERVER.command(&["DEL", &name]);
    let done = running.finish();
    assert_eq!((done.code(), done.stdout), (76, format!("child {child}\n")));
}

#[test]
fn max_hold_stops_the_command() {
    let name = name();
    let done = run(&SERVER, &[&name, "--max-hold", "300ms", "--", "sleep", "100"]).finish();
    done.fails_with(76, &["was lost", "max_hold"]);
}

#[test]
fn lease_is_renewed_while_the_command_runs() {
    let (name, end) = (name(), path(&SERVER));
    let script = format!("until [ -e '{}' ]; do sleep 0.02; done", end.display());
    let running = run_script(&SERVER, &[&name, "--lease", "2s"], &script).start();
    until_held(&SERVER, &name);
    let left = || SERVER.command(&["PTTL", &name]).as_int().expect("a number");
    for _ in 0..2 {
        let mut least = left();
        until("the lease is renewed", || {
            let now = left();
            let renewed = now > least + 100;
            least = least.min(now);
            renewed
        });
    }
    std::fs::write(end, "").expect("a file");
    assert_eq!(running.finish().code(), 0);
}

#[test]
fn command_that_was_done_before_the_outage_keeps_its_code() {
    let server = Server::start();
    let script = format!("kill -9 {}; exit 3", server.pid());
    let mut command = run_script(&server, &[&name()], &script);
    let done = command.env("LEASEHOLD_URL", format!("{}?unreachable_after=300ms", server.url())).finish();
    done.fails_with(3, &["the command is done", "free when its lease has run out"]);
}

#[test]
fn command_that_was_done_after_the_loss_is_told_apart() {
    let (name, end) = (name(), path(&SERVER));
    let script = format!("until [ -e '{}' ]; do sleep 0.02; done; exit 3", end.display());
    // It renews after twenty minutes, so that only the release finds out.
    let running = run_script(&SERVER, &[&name, "--lease", "1h"], &script).start();
    until_held(&SERVER, &name);
    SERVER.command(&["DEL", &name]);
    std::fs::write(end, "").expect("a file");
    running.finish().fails_with(76, &["was lost", "was not stopped", "exit code 3"]);
}

#[test]
fn sigkill_of_leasehold_leaves_no_command_and_no_lock() {
    let name = name();
    let running = run_script(&SERVER, &[&name, "--lease", "1s"], "echo child $$; sleep 100").start();
    let child = running.says("child ");
    running.signal(Signal::KILL);
    if cfg!(target_os = "linux") {
        until_gone(&child);
    }
    until("the lock is free", || !exists(&SERVER, &name));
}

#[test]
fn grandchildren_go_on_after_a_command_that_ended_by_itself() {
    let running = run_script(&SERVER, &[&name()], "sleep 100 >/dev/null 2>&1 & echo grandchild $!").start();
    let grandchild: i32 = running.says("grandchild ").parse().expect("a pid");
    assert_eq!(running.finish().code(), 0);
    assert!(runs(grandchild));
    crate::support::send(grandchild, Signal::KILL);
}
