//! Signals to `leasehold` reach the command, or end the wait for the lock.

use crate::support::{
    SERVER, Start as _, children, exists, held_by_a_jvm, leasehold, name, path, patient, run, run_script, texts,
    until_gone,
};
use leasehold_test_support::{Rounds, Server, until};
use rustix::process::Signal;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// A command that says which signal it got, and ends with 9.
fn trapping(signal: &str) -> String {
    format!("trap 'echo got {signal}; exit 9' {signal}; echo ready; while :; do sleep 1 & wait $!; done")
}

#[track_caller]
fn is_passed_on(signal: Signal, word: &str) {
    let name = name();
    let running = run_script(&SERVER, &[&name], &trapping(word)).start();
    running.says("ready");
    running.signal(signal);
    let done = running.finish();
    assert_eq!((done.code(), done.stdout), (9, format!("ready\ngot {word}\n")));
    assert!(!exists(&SERVER, &name));
}

#[test]
fn term_is_passed_on() {
    is_passed_on(Signal::TERM, "TERM");
}

#[test]
fn int_is_passed_on() {
    is_passed_on(Signal::INT, "INT");
}

#[test]
fn hup_is_passed_on() {
    is_passed_on(Signal::HUP, "HUP");
}

#[test]
fn quit_is_passed_on() {
    is_passed_on(Signal::QUIT, "QUIT");
}

#[test]
fn usr1_is_passed_on() {
    is_passed_on(Signal::USR1, "USR1");
}

#[test]
fn usr2_is_passed_on() {
    is_passed_on(Signal::USR2, "USR2");
}

/// Signals that end a process by default, and that timers, limits and hosts of containers send.
#[test]
fn rare_signals_are_passed_on_too() {
    for (signal, word) in [
        (Signal::ALARM, "ALRM"),
        (Signal::VTALARM, "VTALRM"),
        (Signal::PROF, "PROF"),
        (Signal::XCPU, "XCPU"),
        (Signal::XFSZ, "XFSZ"),
        (Signal::ABORT, "ABRT"),
        (Signal::IO, "IO"),
        (Signal::POWER, "PWR"),
    ] {
        is_passed_on(signal, word);
    }
}

#[test]
fn real_time_signal_stops_the_command_and_frees_the_lock() {
    for number in ["37", "64"] {
        let name = name();
        let running = run_script(&SERVER, &[&name], &trapping("TERM")).start();
        running.says("ready");
        let kill = std::process::Command::new("sh").args(["-c", &format!("kill -{number} {}", running.pid())]).status();
        assert!(kill.expect("a shell").success());
        assert_eq!(running.finish().code(), 9);
        assert!(!exists(&SERVER, &name));
    }
}

#[test]
fn exit_code_is_known_where_sigchld_was_ignored_and_it_stays_ignored() {
    let under_leasehold = |command: &[&str]| {
        let mut env = std::process::Command::new("env");
        env.args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_leasehold"), "run", &name(), "--"]).args(command);
        env.env("LEASEHOLD_URL", patient(&SERVER.url())).finish()
    };
    assert_eq!(under_leasehold(&["sh", "-c", "exit 3"]).code(), 3);
    let ignored = under_leasehold(&["grep", "SigIgn", "/proc/self/status"]).stdout;
    let ignored = u64::from_str_radix(ignored.trim_start_matches("SigIgn:").trim(), 16).expect("a set");
    assert_eq!(ignored >> (Signal::CHILD.as_raw() - 1) & 1, 1, "{ignored:x}");
}

#[test]
fn grandchild_gets_the_signal_too() {
    let running = run_script(&SERVER, &[&name()], "sleep 100 & echo pid $!; wait").start();
    let grandchild = running.says("pid ");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().signal(), Signal::TERM.as_raw());
    until_gone(&grandchild);
}

#[test]
fn command_that_ignores_a_signal_keeps_the_lock_until_its_end() {
    let (name, end) = (name(), path(&SERVER));
    let script = format!("trap 'echo ignored' TERM; echo ready; until [ -e '{}' ]; do sleep 0.02; done", end.display());
    let running = run_script(&SERVER, &[&name], &script).start();
    running.says("ready");
    running.signal(Signal::TERM);
    running.says("ignored");
    assert!(exists(&SERVER, &name));
    std::fs::write(end, "").expect("a file");
    assert_eq!(running.finish().code(), 0);
}

#[test]
fn signal_ends_the_wait_and_leaves_nothing_on_the_server() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::ALARM, Signal::XCPU] {
        let name = name();
        held_by_a_jvm(&SERVER, &name, "3600000");
        let running = run(&SERVER, &[&name, "--fair", "--", "echo", "never"]).start();
        let queue = format!("redisson_lock_queue:{{{name}}}");
        until("it waits", || SERVER.command(&["LLEN", &queue]).as_int() == Some(1));
        running.signal(signal);
        let done = running.finish();
        assert_eq!((done.signal(), done.stdout.as_str(), done.stderr.as_str()), (signal.as_raw(), "", ""));
        let keys = texts(&SERVER.command(&["KEYS", &format!("*{name}*")]));
        // The marks of a queue say that the client was heard of. They are no place in it, and end by themselves.
        let marks = format!("leasehold:1:fair:{{{name}}}");
        let left: Vec<_> = keys.iter().filter(|key| **key != name && **key != marks).collect();
        assert!(left.is_empty(), "{left:?} are left");
    }
}

/// A server that does not answer must not keep a person waiting who presses the interrupt key once more.
#[test]
fn second_signal_ends_what_a_silent_server_delays() {
    for words in [
        &["doctor"][..],
        &["bench", "--pairs", "20000"],
        &["run", "x", "--", "sh", "-c", "echo ready; read end; exit 5"],
    ] {
        // By itself each goes on for two seconds or more. A machine that is held up spoils a round.
        let mut rounds = Rounds::default();
        loop {
            let took = time_to_end_by_signals(words);
            if rounds.end_with(took.is_some_and(|took| took < Duration::from_millis(1_500)), took) {
                break;
            }
        }
    }
}

/// How long a command goes on that tidies up at a silent server, and is sent the interrupt key; `None` where it is done before it has been seen
/// to have a lock.
fn time_to_end_by_signals(words: &[&str]) -> Option<Duration> {
    let server = Server::start();
    let mut running = leasehold(&server).args(words).stdin(Stdio::piped()).start();
    let has_begun = || texts(&server.command(&["KEYS", "*"])).iter().any(|key| !key.contains(":client:"));
    let mut holds = false;
    until("it has a lock", || {
        holds = has_begun();
        holds || !running.is_running()
    });
    if !holds {
        return None;
    }
    let is_run = words[0] == "run";
    if is_run {
        // An earlier signal would end the wait for the lock.
        running.says("ready");
    }
    server.stop();
    running.close_stdin();
    if is_run {
        until("the command has ended", || children(running.pid()).is_empty());
    } else {
        running.signal(Signal::INT);
    }
    let begun = Instant::now();
    // Each signal that comes while it tidies up ends one wait.
    while running.is_running() {
        running.signal(Signal::INT);
        std::thread::sleep(Duration::from_millis(50));
    }
    let took = begun.elapsed();
    let done = running.finish();
    match is_run {
        true => assert_eq!(done.code(), 5, "{done:?}"),
        false => assert_eq!(done.signal(), Signal::INT.as_raw(), "{done:?}"),
    }
    server.resume();
    Some(took)
}

#[test]
fn user_signal_while_it_waits_changes_nothing() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "3600000");
    let running = run(&SERVER, &[&name, "--", "echo", "granted"]).start();
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let listens =
        || SERVER.command(&["PUBSUB", "NUMSUB", &channel]).elements().get(1).and_then(|n| n.as_int()) == Some(1);
    until("it waits", listens);
    running.signal(Signal::USR1);
    crate::support::released_by_the_jvm(&SERVER, &name);
    assert_eq!(running.finish().stdout, "granted\n");
}

#[test]
fn signal_that_is_ignored_stays_ignored_as_under_nohup() {
    let name = name();
    let mut shell = std::process::Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" run \"$1\" -- sh -c 'echo ready; kill -HUP $PPID $$; kill -HUP -$$; exit 6'";
    shell.args(["-c", script, env!("CARGO_BIN_EXE_leasehold"), &name]).env("LEASEHOLD_URL", patient(&SERVER.url()));
    let done = shell.finish();
    assert_eq!((done.code(), done.stdout.as_str()), (6, "ready\n"));
}
