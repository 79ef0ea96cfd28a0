//! What the command inherits from the surroundings of `leasehold`, and what it runs in.

use crate::support::{Done, SERVER, Start as _, name, patient, run, with_usual_signals};
use leasehold_test_support::Server;
use std::process::Command;

/// A shell script that may start `leasehold` as `$LEASEHOLD`.
fn script(text: &str) -> Done {
    let mut shell = with_usual_signals("sh");
    shell.args(["-c", text]).env("LEASEHOLD", env!("CARGO_BIN_EXE_leasehold")).env("NAME", name());
    shell.env("LEASEHOLD_URL", patient(&SERVER.url())).finish()
}

/// A set of signals in the state of a process.
fn set(done: &Done) -> u64 {
    let word = done.stdout.split_whitespace().last().unwrap_or_else(|| panic!("a set: {done:?}"));
    u64::from_str_radix(word, 16).expect("a set")
}

#[test]
fn blocked_signals_are_those_of_the_surroundings() {
    for (option, blocked) in [("", 0), ("--block-signal=TTOU", 1 << 21), ("--block-signal=USR1", 1 << 9)] {
        let done = script(&format!("exec env {option} $LEASEHOLD run $NAME -- grep SigBlk /proc/self/status"));
        assert_eq!(set(&done), blocked, "{option}");
    }
}

#[test]
fn variables_of_a_service_manager_name_the_command() {
    let said = "sh -c 'echo $$ $LISTEN_PID $WATCHDOG_PID $SYSTEMD_EXEC_PID [$LISTEN_PIDFDID]'";
    let names = "LISTEN_PID=$$ WATCHDOG_PID=$$ SYSTEMD_EXEC_PID=$$ LISTEN_PIDFDID=7";
    let done = script(&format!("{names} exec $LEASEHOLD run $NAME -- {said}"));
    let words: Vec<_> = done.stdout.split_whitespace().collect();
    assert!(words.len() == 5 && words[1..4].iter().all(|word| *word == words[0]) && words[4] == "[]", "{done:?}");
    // Those of another process are none of ours.
    let done = script(&format!("LISTEN_PID=1 WATCHDOG_PID=1 LISTEN_PIDFDID=7 exec $LEASEHOLD run $NAME -- {said}"));
    assert!(done.stdout.ends_with(" 1 1 [7]\n"), "{done:?}");
}

#[test]
fn descriptors_and_limits_reach_the_command() {
    let done = script(
        "ulimit -n 77; ulimit -c 0; exec $LEASEHOLD run $NAME -- sh -c 'cat <&9; ulimit -n; ls /proc/self/fd | wc -l' 9<<END\nnine\nEND",
    );
    assert_eq!(done.stdout.lines().take(2).collect::<Vec<_>>(), ["nine", "77"], "{done:?}");
}

#[test]
fn too_few_descriptors_are_told_and_no_panic() {
    // With fewer the system does not load the program.
    for limit in 5..24 {
        // Without --wait, `run` would retry forever if it lacked descriptors for its connections.
        let done = script(&format!("ulimit -n {limit}; exec $LEASEHOLD run --wait 1s $NAME -- true"));
        let told = done.stderr.contains("Too many open files") && done.stderr.contains("raise the limit");
        assert!(done.code() == 0 || done.code() == 70 && told, "{limit}: {done:?}");
    }
}

#[test]
fn environment_without_a_home_and_without_a_path_serves() {
    let done = script("exec env -i LEASEHOLD_URL=$LEASEHOLD_URL $LEASEHOLD run $NAME -- /bin/sh -c 'echo ran'");
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""));
}

/// Only root can take /proc away.
#[test]
fn command_runs_without_proc() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let server = Server::start();
    let inner = run(&server, &["x", "--", "echo", "ran"]);
    let mut command = Command::new("unshare");
    let script = "mount --make-rprivate / && umount -l /proc && exec \"$@\"";
    command.args(["--mount", "--fork", "sh", "-c", script, "sh", env!("CARGO_BIN_EXE_leasehold")]);
    command.args(["run", "x", "--", "echo", "ran"]);
    inner.get_envs().for_each(|(name, value)| {
        value.map(|value| command.env(name, value));
    });
    let done = command.finish();
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""), "{done:?}");
}
