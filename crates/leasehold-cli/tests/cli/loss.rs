//! The command does not go on without its lock, whatever takes the lock or `leasehold` away.

use crate::support::{
    SERVER, Start as _, children, exists, leasehold, lines, name, parent, path, run, run_script, runs, send,
    until_gone, until_held,
};
use leasehold_test_support::{Proxy, Server, Way, until};
use rustix::process::Signal;
use std::path::Path;

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
    running.finish().fails_with(76, &["renewals of the lock", "the command was stopped", "signal 15"]);
}

#[test]
fn password_that_changes_in_its_file_is_used_at_the_reconnect() {
    let server = Server::builder().password("old").start();
    let (name, log) = (name(), path(&server));
    let file = log.with_extension("password");
    std::fs::write(&file, "old\n").expect("a file");
    let script = format!("echo in; while [ ! -e '{}' ]; do sleep 0.02; done", log.display());
    let url = format!("redis://127.0.0.1:{}", server.port());
    let file = file.display().to_string();
    let mut command = run_script(&server, &[&name, "--lease", "2s", "--password-file", &file], &script);
    let running = command.env("LEASEHOLD_URL", url).start();
    running.says("in");
    server.command(&["CONFIG", "SET", "requirepass", "new"]);
    std::fs::write(&file, "new\n").expect("a file");
    server.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    // Renewed twice, so by a connection that is made with the new password.
    for _ in 0..2 {
        let left = || server.command(&["PTTL", &name]).as_int().expect("a lease");
        let mut last = left();
        until("the lease is renewed", || std::mem::replace(&mut last, left()) < last);
    }
    std::fs::write(&log, "").expect("a file");
    assert_eq!(running.finish().code(), 0);
}

/// A script that writes its beginning into a file, and after SIGTERM and a clean-up of 300 ms its end.
fn recorded(log: &Path) -> String {
    let log = log.display();
    // The shell says of each part that a signal ends.
    format!(
        "exec 2>/dev/null; end() {{ sleep 0.3; echo out >> '{log}'; exit 0; }}; trap end TERM; \
         echo in | tee -a '{log}'; while :; do sleep 0.02; done"
    )
}

/// The lines of a file that the next holder has begun with its own.
#[track_caller]
fn lines_with_the_next_holder(server: &Server, name: &str, log: &Path) -> Vec<String> {
    let script = format!("echo next >> '{}'", log.display());
    assert_eq!(run_script(server, &[name], &script).finish().code(), 0);
    lines(log)
}

#[test]
fn command_cut_off_from_the_server_has_ended_before_the_next_holder_begins() {
    for settings in [&["--grace", "10s"][..], &["--grace", "500ms"]] {
        let server = Server::start();
        let (name, log, proxy) = (name(), path(&server), Proxy::to(&server));
        let mut command = run_script(&server, &[&[&*name, "--lease", "3s"], settings].concat(), &recorded(&log));
        let running = command.env("LEASEHOLD_URL", proxy.url()).start();
        running.says("in");
        proxy.freeze(Way::Both);
        assert_eq!(lines_with_the_next_holder(&server, &name, &log), ["in", "out", "next"], "{settings:?}");
        running.finish().fails_with(76, &["renewals of the lock", "the command was stopped", "exit code 0"]);
    }
}

#[test]
fn stubborn_command_cut_off_from_the_server_is_killed_before_the_next_holder_begins() {
    let server = Server::start();
    let (name, log, proxy) = (name(), path(&server), Proxy::to(&server));
    let script = format!("trap '' TERM; echo in; while :; do echo on >> '{}'; sleep 0.02; done", log.display());
    let mut command = run_script(&server, &[&name, "--lease", "3s"], &script);
    let running = command.env("LEASEHOLD_URL", proxy.url()).start();
    running.says("in");
    proxy.freeze(Way::Both);
    assert_eq!(lines_with_the_next_holder(&server, &name, &log).last().map(String::as_str), Some("next"));
    running.finish().fails_with(76, &["renewals of the lock", "signal 9"]);
    assert_eq!(lines(&log).last().map(String::as_str), Some("next"), "nothing was written after it");
}

#[test]
fn short_outage_does_not_stop_the_command() {
    let server = Server::start();
    let (name, end, proxy) = (name(), path(&server), Proxy::to(&server));
    let script = format!("echo in; until [ -e '{}' ]; do sleep 0.02; done; exit 4", end.display());
    let running = run_script(&server, &[&name, "--lease", "9s"], &script).env("LEASEHOLD_URL", proxy.url()).start();
    running.says("in");
    let left = || server.command(&["PTTL", &name]).as_int().expect("a number");
    proxy.freeze(Way::Both);
    // A renewal is due after three seconds, and the command has six.
    until("a renewal is late", || left() < 5_500);
    proxy.thaw(Way::Both);
    until("the lease is renewed", || left() > 7_000);
    std::fs::write(end, "").expect("a file");
    let done = running.finish();
    assert_eq!((done.code(), done.stderr.as_str()), (4, ""));
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
fn command_that_joined_another_group_is_ended_too() {
    let name = name();
    // It joins the group of `leasehold`, as no shell does.
    let script = "setpgrp(0, getpgrp(getppid())); $| = 1; print \"child $$\\n\"; sleep 100";
    let mut command = run(&SERVER, &[&name, "--lease", "1s", "--grace", "300ms", "--", "perl", "-e", script]);
    let running = command.start();
    let child = running.says("child ");
    SERVER.command(&["DEL", &name]);
    running.finish().fails_with(76, &["the command was stopped", "signal 15"]);
    until_gone(&child);
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
    done.fails_with(76, &[&format!("\"{name}\" was held for 300ms (--max-hold)"), "was stopped", "signal 15"]);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn command_at_its_max_hold_has_ended_before_the_next_holder_begins() {
    for permits in [&[][..], &["--permits", "1"]] {
        let (name, log) = (name(), path(&SERVER));
        let options = [&[&*name, "--max-hold", "300ms"], permits].concat();
        let running = run_script(&SERVER, &options, &recorded(&log)).start();
        running.says("in");
        let next = format!("echo next >> '{}'", log.display());
        assert_eq!(run_script(&SERVER, &[&[&*name], permits].concat(), &next).finish().code(), 0);
        assert_eq!(lines(&log), ["in", "out", "next"], "{permits:?}");
        running.finish().fails_with(76, &["(--max-hold)", "exit code 0"]);
    }
}

#[test]
fn max_hold_waits_for_the_whole_group() {
    let (name, log) = (name(), path(&SERVER));
    // The command ends at once, and its child cleans up.
    let script = format!("sh -c \"{}\" & trap 'exit 0' TERM; wait", recorded(&log).replace('$', "\\$"));
    let running = run_script(&SERVER, &[&name, "--max-hold", "300ms"], &script).start();
    running.says("in");
    assert_eq!(lines_with_the_next_holder(&SERVER, &name, &log), ["in", "out", "next"]);
    running.finish().fails_with(76, &["(--max-hold)", "was stopped"]);
}

#[test]
fn stubborn_command_at_its_max_hold_is_killed_under_the_lock() {
    let (name, log) = (name(), path(&SERVER));
    let script = format!("trap '' TERM; echo in; while :; do echo on >> '{}'; sleep 0.02; done", log.display());
    // The lock is renewed during the grace, which is longer than a lease.
    let options = [&*name, "--max-hold", "300ms", "--lease", "500ms", "--grace", "1s"];
    let running = run_script(&SERVER, &options, &script).start();
    running.says("in");
    assert_eq!(lines_with_the_next_holder(&SERVER, &name, &log).last().map(String::as_str), Some("next"));
    running.finish().fails_with(76, &["(--max-hold)", "signal 9"]);
    assert_eq!(lines(&log).last().map(String::as_str), Some("next"), "nothing was written after it");
}

/// `leasehold run` of a command of another user, which the kernel does not let it signal. Only root can start that.
fn of_another_user(options: &[&str], script: &str) -> Option<std::process::Command> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let inner = leasehold(&SERVER);
    let mut command = std::process::Command::new("setpriv");
    command.args(["--bounding-set", "-kill", "--inh-caps", "-kill"]).arg(inner.get_program()).args(inner.get_args());
    inner.get_envs().for_each(|(name, value)| {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    });
    command.stdin(std::process::Stdio::null()).arg("run").args(options);
    command.args(["--", "setpriv", "--reuid", "65534", "--clear-groups", "sh", "-c", script]);
    Some(command)
}

#[test]
fn lost_lock_of_a_command_of_another_user_is_told_and_not_called_stopped() {
    let name = name();
    let script = "echo child $$; sleep 3; exit 5";
    let Some(mut command) = of_another_user(&[&name, "--lease", "2s", "--grace", "100ms"], script) else { return };
    let running = command.start();
    running.says("child ");
    SERVER.command(&["DEL", &name]);
    until("it is told", || running.stderr().contains("it runs as another user; it continues"));
    let done = running.finish();
    let last = done.stderr.lines().last().unwrap_or_default();
    assert!(
        done.code() == 76 && last.contains("the command could not be stopped and ended with exit code 5"),
        "{done:?}"
    );
    assert!(!done.stderr.contains("was stopped"), "{done:?}");
}

#[test]
fn command_of_another_user_keeps_its_lock_beyond_the_max_hold_until_it_ends() {
    let (name, log) = (name(), path(&SERVER));
    let script = format!("echo in | tee -a '{0}'; sleep 2; echo out >> '{0}'", log.display());
    std::fs::write(&log, "").expect("a file");
    std::fs::set_permissions(&log, std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("its rights");
    let options = [&*name, "--max-hold", "300ms", "--grace", "100ms", "--lease", "500ms"];
    let Some(mut command) = of_another_user(&options, &script) else { return };
    let running = command.start();
    running.says("in");
    assert_eq!(lines_with_the_next_holder(&SERVER, &name, &log), ["in", "out", "next"]);
    let done = running.finish();
    assert!(done.stderr.contains("the lock is held until it ends"), "{done:?}");
    assert!(done.code() == 76 && done.stderr.contains("could not be stopped and ended with exit code 0"), "{done:?}");
}

#[test]
fn signal_that_does_not_reach_a_command_of_another_user_is_told() {
    let (name, end) = (name(), path(&SERVER));
    let script = format!("echo child $$; until [ -e '{}' ]; do sleep 0.02; done", end.display());
    let Some(mut command) = of_another_user(&[&name], &script) else { return };
    let running = command.start();
    running.says("child ");
    running.signal(Signal::TERM);
    until("it is told", || running.stderr().contains("cannot forward signal 15"));
    std::fs::write(end, "").expect("a file");
    assert_eq!(running.finish().code(), 0);
}

#[test]
fn orphan_of_the_command_is_reaped_while_it_runs() {
    let (name, end) = (name(), path(&SERVER));
    let script = format!("sh -c 'sleep 100 & echo orphan $!'; until [ -e '{}' ]; do sleep 0.02; done", end.display());
    let running = run_script(&SERVER, &[&name], &script).start();
    let orphan: i32 = running.says("orphan ").parse().expect("a pid");
    if cfg!(target_os = "linux") {
        until("leasehold has the orphan", || parent(orphan) == Some(running.pid()));
    }
    send(orphan, Signal::KILL);
    until("it is reaped", || parent(orphan).is_none());
    assert_eq!(children(running.pid()).len(), 1);
    std::fs::write(end, "").expect("a file");
    assert_eq!(running.finish().code(), 0);
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
    done.fails_with(3, &["the command ended", "free when its lease ends"]);
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
    running.finish().fails_with(76, &["was lost", "had already ended", "exit code 3"]);
}

#[test]
fn command_that_ended_after_the_lease_of_a_paused_leasehold_is_told_apart() {
    let (name, end) = (name(), path(&SERVER));
    let script = format!("echo child $$; until [ -e '{}' ]; do sleep 0.02; done; exit 3", end.display());
    let running = run_script(&SERVER, &[&name, "--lease", "1s"], &script).start();
    let child = running.says("child ");
    running.signal(Signal::STOP);
    until("the lease is over", || !exists(&SERVER, &name));
    std::fs::write(end, "").expect("a file");
    until_gone(&child);
    running.signal(Signal::CONT);
    running.finish().fails_with(76, &["was lost", "had already ended", "exit code 3"]);
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
    send(grandchild, Signal::KILL);
}
