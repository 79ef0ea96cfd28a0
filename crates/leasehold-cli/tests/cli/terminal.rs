//! A terminal passes through: the command is in front of it, and its keys reach the command.
//!
//! The program `script` of util-linux gives a pseudo terminal, and copies its own stdin to it.

use crate::support::{Running, SERVER, Start as _, exists, name, path, patient, until_held, with_usual_signals};
use leasehold_test_support::until;
use std::process::Stdio;

/// A shell with job control in a terminal of its own, which waits to be told something.
fn shell() -> Running {
    let running = in_a_terminal("bash --norc --noprofile --noediting -i");
    running.shows("$ ");
    running
}

/// A command line in a terminal of its own.
fn in_a_terminal(line: &str) -> Running {
    let mut command = with_usual_signals("script");
    command.args(["--quiet", "--return", "--flush", "--command", line, "/dev/null"]);
    command.env("LEASEHOLD_URL", patient(&SERVER.url())).env("PS1", "$ ").env("SHELL", "sh").env("TERM", "dumb");
    command.stdin(Stdio::piped()).start()
}

fn leasehold(options: &str, command: &str) -> String {
    format!("{} run {options} -- {command}", env!("CARGO_BIN_EXE_leasehold"))
}

#[test]
fn command_has_the_terminal_at_all_its_streams() {
    let running = in_a_terminal(&leasehold(&name(), "sh -c 'test -t 0 && test -t 1 && test -t 2 && echo all; exit 3'"));
    let done = running.finish();
    assert_eq!((done.code(), done.stdout.trim()), (3, "all"));
}

#[test]
fn command_reads_what_is_typed() {
    let mut running = in_a_terminal(&leasehold(&name(), "sh -c 'echo ready; read line; echo \"read <$line>\"'"));
    running.says("ready");
    running.write("some words\n");
    running.says("read <some words>");
    assert_eq!(running.finish().code(), 0);
}

#[test]
fn interrupt_key_reaches_the_command() {
    let name = name();
    let mut running = in_a_terminal(&leasehold(
        &name,
        "sh -c 'trap \"echo interrupted; exit 7\" INT; echo ready; while :; do sleep 1; done'",
    ));
    running.says("ready");
    running.write("\x03");
    running.shows("interrupted");
    assert_eq!(running.finish().code(), 7);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn interrupt_key_ends_the_wait() {
    let name = name();
    crate::support::held_by_a_jvm(&SERVER, &name, "3600000");
    let mut running = in_a_terminal(&leasehold(&name, "true"));
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let listens =
        || SERVER.command(&["PUBSUB", "NUMSUB", &channel]).elements().get(1).and_then(|n| n.as_int()) == Some(1);
    until("it waits", listens);
    running.write("\x03");
    assert_eq!(running.finish().code(), 130);
}

#[test]
fn stop_key_stops_both_and_fg_goes_on() {
    let name = name();
    let mut running = shell();
    running.write(&format!("{}\n", leasehold(&name, "sh -c 'echo pid $$; read line; echo \"read <$line>\"'")));
    let child: i32 = running.says("pid ").parse().expect("a pid");
    let state = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.trim().chars().next())
    };
    let parent: i32 = {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).expect("the command runs");
        let (_, rest) = stat.rsplit_once(')').expect("its name");
        rest.split_whitespace().nth(1).expect("its parent").parse().expect("a pid")
    };
    running.write("\x1a");
    until("both are stopped", || state(child) == Some('T') && state(parent) == Some('T'));
    // The shell says so when it has the terminal again.
    running.shows("Stopped");
    running.write("echo the shell is back\n");
    running.says("the shell is back");
    running.write("fg\n");
    until("both go on", || state(child) == Some('S') && state(parent) == Some('S'));
    running.write("a line\n");
    running.shows("read <a line>");
    running.write("exit 4\n");
    assert_eq!(running.finish().code(), 4);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn stop_key_stops_nested_runs_and_fg_goes_on() {
    let name = name();
    let asks = leasehold(&format!("{name}:inner"), "sh -c 'echo ask; read line; echo \"read <$line>\"'");
    let mut running = shell();
    running.write(&format!("{}\n", leasehold(&name, &asks)));
    running.says("ask");
    running.write("\x1a");
    running.shows("Stopped");
    running.write("echo the shell is back\n");
    running.says("the shell is back");
    running.write("fg\n");
    running.shows("fg\r\n");
    running.write("a line\n");
    running.shows("read <a line>");
    running.write("exit 4\n");
    assert_eq!(running.finish().code(), 4);
}

#[test]
fn pager_behind_the_command_keeps_the_terminal() {
    let name = name();
    // The second program of the pipeline reads the terminal, as a pager does its keys.
    let line = format!("{} | sh -c 'cat; read key < /dev/tty; echo \"key <$key>\"'", leasehold(&name, "echo page"));
    let mut running = shell();
    running.write(&format!("{line}\n"));
    running.says("page");
    running.write("q\n");
    running.shows("key <q>");
    running.write("exit 0\n");
    assert_eq!(running.finish().code(), 0);
}

#[test]
fn command_that_asks_the_terminal_in_a_pipeline_gets_it() {
    let name = name();
    let line = format!("{} | cat", leasehold(&name, "sh -c 'echo ask; read key; echo \"key <$key>\"'"));
    let mut running = shell();
    running.write(&format!("{line}\n"));
    running.says("ask");
    until_held(&SERVER, &name);
    running.write("yes\n");
    running.shows("key <yes>");
    running.write("exit 0\n");
    assert_eq!(running.finish().code(), 0);
}

/// A script without job control in a terminal of its own.
fn script_in_a_terminal(script: &str) -> Running {
    let file = path(&SERVER);
    std::fs::write(&file, script).expect("a file");
    in_a_terminal(&format!("sh {}", file.display()))
}

/// The shape of `mysql -p < dump.sql`: stdin is a pipe, and the command asks for a password at the terminal.
#[test]
fn command_with_redirected_stdin_reads_the_terminal() {
    let asks = leasehold(&name(), "sh -c 'echo ask; read key </dev/tty; echo \"key <$key>\"'");
    let nested = leasehold(&name(), &asks);
    for script in [format!("echo data | {asks}"), format!("{asks} </dev/null"), format!("echo data | {nested}")] {
        let mut running = script_in_a_terminal(&script);
        running.says("ask");
        running.write("secret\n");
        running.shows("key <secret>");
        assert_eq!(running.finish().code(), 0);
    }
}

#[test]
fn command_with_redirected_stdin_reads_the_terminal_of_a_job() {
    let asks = leasehold(&name(), "sh -c 'echo ask; read key </dev/tty; echo \"key <$key>\"'");
    let nested = leasehold(&name(), &asks);
    for command in [asks, nested] {
        let mut running = shell();
        running.write(&format!("echo data | {command}\n"));
        running.says("ask");
        running.write("secret\n");
        running.shows("key <secret>");
        running.write("exit 0\n");
        let done = running.finish();
        assert!(done.code() == 0 && !done.stdout.contains("Stopped"), "{done:?}");
    }
}

/// Without job control nobody would tell a stopped `leasehold` to go on. The command in the background waits for its turn, and is not woken
/// in a loop until then.
#[test]
fn command_without_a_turn_at_the_terminal_waits_for_it() {
    let back = leasehold(&name(), "sh -c 'read key </dev/tty; echo \"back <$key>\"'");
    let front_is_there = path(&SERVER);
    let front_is_there = front_is_there.display();
    let front = format!("sh -c 'touch {front_is_there}; echo ready; read line; echo \"front <$line>\"'");
    let front = leasehold(&name(), &front);
    let script = format!("(until [ -e {front_is_there} ]; do sleep 0.02; done; {back}) & {front}; wait");
    let mut running = script_in_a_terminal(&script);
    running.says("ready");
    running.shows("is stopped: it needs the terminal");
    running.write("one\n");
    running.shows("front <one>");
    running.write("two\n");
    running.shows("back <two>");
    assert_eq!(running.finish().code(), 0);
}

/// A shell ends a loop by the interrupt key only if the command of the loop died by that signal.
///
/// The command is a single process: a shell that is about to start another one keeps the key for itself.
#[test]
fn interrupt_key_ends_the_loop_around_the_command() {
    for is_held in [false, true] {
        let name = name();
        if is_held {
            crate::support::held_by_a_jvm(&SERVER, &name, "3600000");
        }
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let waits = || SERVER.command(&["PUBSUB", "NUMSUB", &channel]).elements()[1].as_int() == Some(1);
        let command = leasehold(&name, "tr a-z A-Z");
        let turns = format!("for turn in 1 2 3; do echo turn $turn; {command}; done");
        let begins = |running: &mut Running| {
            running.shows("turn 1");
            if is_held {
                until("it waits", waits);
            } else {
                running.write("begun\n");
                running.shows("BEGUN");
            }
        };
        let file = path(&SERVER);
        std::fs::write(&file, format!("{turns}\necho after the loop\n")).expect("a file");
        let mut script = in_a_terminal(&format!("bash {}", file.display()));
        begins(&mut script);
        script.write("\x03");
        let done = script.finish();
        assert!(done.code() == 130 && !done.stdout.contains("turn 2") && !done.stdout.contains("after"), "{done:?}");
        let mut prompt = shell();
        prompt.write(&format!("{turns}\n"));
        begins(&mut prompt);
        prompt.write("\x03");
        // The terminal forgets what is typed before the shell is back.
        until("the prompt is back", || prompt.stdout().matches("$ ").count() > 1);
        prompt.write("echo back at the $((1 + 1))nd prompt\n");
        prompt.shows("back at the 2nd prompt");
        prompt.write("exit 0\n");
        let done = prompt.finish();
        assert!(!done.stdout.contains("turn 2\r"), "{done:?}");
    }
}
