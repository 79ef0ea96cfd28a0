//! `run --once`: once per period over all machines. Also several locks in one step, and notes about a run.

use crate::support::{SERVER, Start as _, leasehold, name, path, run, run_script, until_held};
use leasehold_test_support::until;
use rustix::process::Signal;
use std::fs;
use std::process::Stdio;

/// The key of a job's period, which has the planned time in milliseconds.
const PLANNED: [&str; 2] = ["2026-11-28T02:00:00Z", "2026-11-29T02:00:00Z"];

#[test]
fn command_runs_once_in_a_period_and_again_in_the_next() {
    let name = name();
    let start = |at: &str, options: &[&str]| {
        run(&SERVER, &[&["--once", "1d", "--at", at, &name], options].concat()).args(["--", "echo", "ran"]).finish()
    };
    assert_eq!(start(PLANNED[0], &[]).stdout, "ran\n");
    start(PLANNED[0], &[]).fails_with(0, &["has already run in this period", "ago at 20"]);
    start(PLANNED[0], &["-E", "3"]).fails_with(3, &["has already run"]);
    let quiet = start("2026-11-28T03:00:00+01:00", &["-q"]);
    assert_eq!((quiet.code(), &*quiet.stdout, &*quiet.stderr), (0, "", ""), "the same time of another zone");
    assert_eq!(start(PLANNED[1], &[]).stdout, "ran\n");
}

#[test]
fn starts_at_one_time_run_a_short_command_once() {
    let (name, runs) = (name(), path(&SERVER));
    let script = format!("echo x >> '{}'", runs.display());
    let all: Vec<_> =
        (0..5).map(|_| run_script(&SERVER, &["--once", "2026-11-28", "-q", &name], &script).start()).collect();
    for running in all {
        assert_eq!(running.finish().code(), 0);
    }
    assert_eq!(fs::read_to_string(&runs).expect("a run"), "x\n");
}

#[test]
fn command_that_fails_or_is_killed_has_not_run() {
    let name = name();
    let start = |script: &str| run_script(&SERVER, &["--once", "key", "--lease", "2s", &name], script);
    assert_eq!(start("exit 9").finish().code(), 9);
    let killed = start("echo in; sleep 1000").start();
    killed.says("in");
    killed.signal(Signal::KILL);
    killed.finish();
    let ran = || start("echo ran").finish();
    until("its lease ends, and another start runs it", || ran().stdout == "ran\n");
    ran().fails_with(0, &["has already run"]);
}

#[test]
fn start_while_it_runs_elsewhere_ends_or_waits_for_the_outcome() {
    for (script, then_runs) in [("echo in; read end; exit 0", false), ("echo in; read end; exit 1", true)] {
        let name = name();
        let options = ["--once", "key", "--note", "the nightly dump", &name];
        let mut first = run_script(&SERVER, &options, script).stdin(Stdio::piped()).start();
        first.says("in");
        let other = || run_script(&SERVER, &["--once", "key", &name], "echo second");
        until("it is announced", || other().finish().stderr.contains("the nightly dump"));
        other().finish().fails_with(0, &["runs elsewhere: held by", "leasehold run sh: the nightly dump"]);
        let waiting = run_script(&SERVER, &["--once", "key", "--wait", "60s", &name], "echo second").start();
        first.write("\n");
        first.finish();
        assert_eq!(waiting.finish().stdout == "second\n", then_runs, "{script}");
    }
}

#[test]
fn period_that_machines_could_name_differently_is_refused() {
    let usage = |options: &[&str], words: &[&str]| {
        run(&SERVER, &[options, &["job", "--", "true"]].concat()).finish().fails_with(64, words);
    };
    // Half a period away from now, by the server's clock and this machine's.
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let noon = (now / 60 + 12 * 60) % (24 * 60);
    let at = format!("{:02}:{:02}", noon / 60, noon % 60);
    usage(&["--once", "1d", "--at", &at], &["set --at to the time at which the schedule fires"]);
    usage(&["--once", "2026-11-28", "--at", "02:00"], &["use a period such as 1d"]);
    usage(&["--once", "1d", "--at", "2 am"], &["02:00"]);
    usage(&["--at", "02:00"], &["--once"]);
    usage(&["--once", "1d", "--fair"], &["cannot be used with"]);
}

#[test]
fn several_locks_are_held_at_once_and_freed_together() {
    let [one, two] = [name(), name()];
    let script = "echo \"$LEASEHOLD_HOLDER;$LEASEHOLD_NAME\"; read end";
    let mut holder = run_script(&SERVER, &["-l", &one, "-l", &two], script).stdin(Stdio::piped()).start();
    let said = holder.says("");
    let (holders, title) = said.split_once(';').expect("holders and a name");
    assert_eq!((holders.split(' ').count(), title), (2, &*format!("{one} + {two}")), "{said}");
    for name in [&one, &two] {
        until_held(&SERVER, name);
        run(&SERVER, &["-n", name, "--", "true"]).finish().fails_with(75, &["is busy"]);
    }
    run(&SERVER, &[&one, "-l", &two, "-w", "0.1", "--", "true"]).finish().fails_with(75, &["was busy for"]);
    holder.close_stdin();
    holder.finish();
    for name in [&one, &two] {
        assert_eq!(run(&SERVER, &["-n", name, "--", "true"]).finish().code(), 0);
    }
    run(&SERVER, &["-l", &one, "-l", &one, "--", "true"]).finish().fails_with(64, &[&one]);
}

#[test]
fn letters_of_flock_mean_the_same() {
    let name = name();
    let reader = run_script(&SERVER, &["-s", &name], "echo in; read end").stdin(Stdio::piped()).start();
    reader.says("in");
    assert_eq!(run(&SERVER, &["-s", "-n", &name, "--", "true"]).finish().code(), 0);
    run(&SERVER, &["-x", "-n", &name, "--", "true"]).finish().fails_with(75, &["is busy"]);
    run(&SERVER, &["-x", "-w", "0.05", "-E", "9", &name, "--", "true"]).finish().fails_with(9, &["50ms"]);
}

#[test]
fn note_is_shown_beside_the_process() {
    let name = name();
    let mut holder =
        run_script(&SERVER, &["--note", "dump of shop", &name], "echo in; read end").stdin(Stdio::piped()).start();
    holder.says("in");
    let shows = |args: &[&str]| leasehold(&SERVER).args(args).finish().stdout.contains("dump of shop");
    until("inspect shows it", || shows(&["inspect", &name]));
    assert!(shows(&["ls", &name]));
    let waiting = run(&SERVER, &["-v", &name, "--", "true"]).start();
    until("the waiter shows it", || waiting.stderr().contains("dump of shop"));
    holder.close_stdin();
    let done = waiting.finish();
    assert!(done.stderr.contains("is granted"), "{done:?}");
}
