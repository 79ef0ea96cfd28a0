//! The exit code is that of the command, and `leasehold` has codes of its own.

use crate::support::{
    SERVER, Start as _, exists, held_by_a_jvm, name, path, patient, run, run_script, send, until_announced,
};
use leasehold_test_support::until;
use rustix::process::Signal;

#[test]
fn success_of_the_command_is_passed_on_and_the_lock_is_free() {
    let name = name();
    let done = run_script(&SERVER, &[&name], "exit 0").finish();
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "", ""));
    assert!(!exists(&SERVER, &name));
}

#[test]
fn exit_codes_of_the_command_are_passed_on() {
    for code in [1, 2, 75, 76, 255] {
        let done = run_script(&SERVER, &[&name()], &format!("exit {code}")).finish();
        assert_eq!((done.code(), done.stderr.as_str()), (code, ""));
    }
}

#[test]
fn death_of_the_command_by_a_signal_is_passed_on_as_such() {
    for (word, signal) in [
        ("KILL", Signal::KILL),
        ("TERM", Signal::TERM),
        ("SEGV", Signal::SEGV),
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("PIPE", Signal::PIPE),
        ("ALRM", Signal::ALARM),
        ("ABRT", Signal::ABORT),
    ] {
        let name = name();
        let mut command = run_script(&SERVER, &[&name], &format!("ulimit -c 0; kill -{word} $$"));
        let done = command.current_dir(SERVER.dir()).finish();
        assert_eq!((done.signal(), done.stderr.as_str()), (signal.as_raw(), ""));
        assert!(!exists(&SERVER, &name));
    }
}

/// The kernel keeps the first process of a container from signals of its own.
#[test]
fn death_by_a_signal_is_an_exit_code_for_the_first_process() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let inner = run_script(&SERVER, &[&name()], "kill -TERM $$");
    let mut command = std::process::Command::new("unshare");
    command.args(["--pid", "--fork"]).arg(inner.get_program()).args(inner.get_args());
    command.env("LEASEHOLD_URL", patient(&SERVER.url())).stdin(std::process::Stdio::null());
    assert_eq!(command.finish().code(), 143);
}

#[test]
fn command_killed_from_outside_leaves_the_lock_free_at_once() {
    let name = name();
    let running = run_script(&SERVER, &[&name, "--lease", "1h"], "echo pid $$; sleep 100").start();
    let pid = running.says("pid ").parse().expect("a pid");
    assert!(exists(&SERVER, &name));
    send(pid, Signal::KILL);
    assert_eq!(running.finish().signal(), Signal::KILL.as_raw());
    assert!(!exists(&SERVER, &name));
}

#[test]
fn command_that_does_not_exist_is_127() {
    let name = name();
    let done = run(&SERVER, &[&name, "--", "no-such-command-here"]).finish();
    done.fails_with(127, &["leasehold: no-such-command-here", "not found"]);
    run(&SERVER, &[&name, "--", ""]).finish().fails_with(127, &["leasehold: the command after -- is empty"]);
    let done = run(&SERVER, &[&name, "--json", "--", "no-such-command-here"]).finish();
    let told: serde_json::Value = serde_json::from_str(&done.stderr).expect("an object");
    assert_eq!((done.code(), &told["exit_code"], &told["lock"]), (127, &127.into(), &name.as_str().into()), "{told}");
    assert!(!exists(&SERVER, &name));
}

#[test]
fn command_that_cannot_be_executed_is_126() {
    let path = path(&SERVER);
    std::fs::write(&path, "no program").expect("a file");
    let path = path.to_str().expect("a text");
    run(&SERVER, &[&name(), "--", path]).finish().fails_with(126, &[path, "cannot execute"]);
}

#[test]
fn busy_lock_is_75_and_names_the_process_that_holds_it() {
    let name = name();
    let holder = run_script(&SERVER, &[&name], "sleep 100").start();
    until_announced(&SERVER, &name);
    let pid = format!("process {}", holder.pid());
    let done = run(&SERVER, &[&name, "--try", "--", "true"]).finish();
    done.fails_with(75, &[&format!("\"{name}\""), "is busy", &pid, "leasehold run sh"]);
}

#[test]
fn exit_code_of_a_busy_lock_can_be_chosen() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    for (option, code) in [("--busy-exit=9", 9), ("-E0", 0)] {
        let done = run(&SERVER, &[&name, "--try", option, "--", "true"]).finish();
        done.fails_with(code, &["is busy", "held by 6f0c0000-0000-4000-8000-000000000000:1"]);
    }
}

#[test]
fn wait_that_runs_out_is_busy() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    let done = run(&SERVER, &[&name, "--wait", "300ms", "--", "true"]).finish();
    done.fails_with(75, &["was busy for 300ms"]);
}

#[test]
fn record_of_the_process_is_gone_with_it() {
    let name = name();
    let running = run_script(&SERVER, &[&name], "echo holder $LEASEHOLD_HOLDER; cat").start();
    let holder = running.says("holder ");
    let record = format!("leasehold:1:client:{}", holder.split(':').next().expect("a client"));
    running.finish();
    until("the record is gone", || !exists(&SERVER, &record));
}
