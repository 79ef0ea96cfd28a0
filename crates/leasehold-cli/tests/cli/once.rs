//! `run --once`: a command runs once in a period over all hosts.

use crate::support::{Running, SERVER, Start as _, leasehold, lines, name, objects, path, run, run_script, send};
use leasehold_test_support::until;
use rustix::process::Signal;
use std::process::{Command, Stdio};

/// Noon of a day is about halfway between two runs at midnight, so the tests name the time of their schedule.
const NOW: [&str; 4] = ["--once", "1d", "--at", "2026-11-28T02:00:00Z"];

fn with<'a>(name: &'a str, options: &[&'a str]) -> Vec<&'a str> {
    [&[name], &NOW[..], options].concat()
}

#[test]
fn second_command_of_a_period_learns_who_ran_it_and_when() {
    let name = name();
    let first = run_script(&SERVER, &with(&name, &[]), "echo $LEASEHOLD_NAME $LEASEHOLD_PERIOD").finish();
    assert_eq!((first.code(), first.stdout), (0, format!("{name} 2026-11-28T02:00:00Z\n")));
    let again = |options: &[&str]| run(&SERVER, &with(&name, options)).args(["--", "echo", "ran"]).finish();
    let said =
        ["has already run in the period 2026-11-28T02:00:00Z", "leasehold run sh, process ", ", ended at ", " ago"];
    again(&[]).fails_with(75, &said);
    again(&["--try"]).fails_with(75, &said);
    let done = again(&["-q", "-E", "0"]);
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "", ""));
    let done = again(&["--json"]);
    assert_eq!((&objects(&done.stderr)[0]["error"], done.code()), (&"already_done".into(), 75));
    let tomorrow = run(&SERVER, &[&name, "--once", "1d", "--at", "2026-11-29T02:00:00Z", "--", "echo", "ran"]).finish();
    assert_eq!((tomorrow.code(), tomorrow.stdout.as_str()), (0, "ran\n"));
}

#[test]
fn operator_may_free_a_period() {
    let name = name();
    assert_eq!(run(&SERVER, &with(&name, &["--", "true"])).finish().code(), 0);
    let lock = format!("{name}@1795831200000");
    let seen = leasehold(&SERVER).args(["inspect", &lock]).finish().stdout;
    assert!(seen.contains("leasehold run true, process ") && seen.contains("last seen "), "{seen}");
    assert_eq!(leasehold(&SERVER).args(["unlock", &lock, "--yes"]).finish().code(), 0);
    let again = run(&SERVER, &with(&name, &["--", "echo", "ran"])).finish();
    assert_eq!((again.code(), again.stdout.as_str()), (0, "ran\n"));
}

#[test]
fn failure_closes_a_period_unless_the_command_was_not_executed_or_shall_be_retried() {
    for (command, options, code, is_open) in [
        ("exit 3", &[][..], 3, false),
        ("exit 3", &["--retry-failed"], 3, true),
        ("exit 127", &[], 127, true),
        ("kill -KILL $$", &[], -1, true),
    ] {
        let name = name();
        let done = run_script(&SERVER, &with(&name, options), command).finish();
        assert_eq!(done.status.code().unwrap_or(-1), code, "{done:?}");
        let again = run(&SERVER, &with(&name, &["--try", "--", "true"])).finish();
        assert_eq!(again.code(), if is_open { 0 } else { 75 }, "{command} {options:?} {again:?}");
    }
}

/// A command of the period that runs until its stdin is closed.
fn working(name: &str, options: &[&str]) -> Running {
    let running = run_script(&SERVER, &with(name, options), "echo in; read end; exit 0").stdin(Stdio::piped()).start();
    running.says("in");
    running
}

#[test]
fn waiting_host_ends_when_the_command_has_ended_elsewhere() {
    let name = name();
    let mut first = working(&name, &[]);
    run(&SERVER, &with(&name, &["--try", "--", "true"])).finish().fails_with(75, &["is busy; held by "]);
    let mut second = run(&SERVER, &with(&name, &["--", "echo", "ran"])).start();
    let channel = format!("*{{{name}@*");
    until("it waits", || !SERVER.command(&["PUBSUB", "CHANNELS", &channel]).elements().is_empty());
    assert!(second.is_running());
    first.close_stdin();
    assert_eq!(first.finish().code(), 0);
    second.finish().fails_with(75, &["has already run in the period"]);
}

#[test]
fn waiting_host_takes_over_from_a_killed_one() {
    let name = name();
    let first = working(&name, &["--lease", "2s"]);
    let second = run(&SERVER, &with(&name, &["--", "echo", "ran"])).start();
    first.signal(Signal::KILL);
    first.finish();
    let done = second.finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"), "{done:?}");
}

#[test]
fn key_names_a_period() {
    let name = name();
    let on = |key: &str| run(&SERVER, &[&name, "--once", key, "--", "true"]).finish();
    assert_eq!((on("2026-11-28").code(), on("2026-11-29").code()), (0, 0));
    on("2026-11-28").fails_with(75, &["has already run in the period 2026-11-28"]);
    assert_eq!(run(&SERVER, &[&name, "--once", "4711", "--at-least", "1h", "--", "true"]).finish().code(), 0);
    let left = SERVER.command(&["PTTL", &format!("{name}@4711")]).as_int().expect("a time to live");
    assert!((3_500_000..=3_600_000).contains(&left), "{left}");
}

#[test]
fn clock_halfway_between_two_times_and_contradictions_are_refused() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs();
    let at = now % 86_400 / 60;
    let opposite = (at + 12 * 60) % (24 * 60);
    let opposite = format!("{:02}:{:02}", opposite / 60, opposite % 60);
    let near = format!("{:02}:{:02}", at / 60, at % 60);
    let run = |at: &str| run(&SERVER, &[&name(), "--once", "1d", "--at", at, "--", "true"]).finish();
    run(&opposite).fails_with(64, &["halfway between two times", "for a start by hand set --at to a date and time"]);
    assert_eq!(run(&near).code(), 0);
    for (options, said) in [
        (&["--once", "2026-11-28", "--at", "02:00"][..], "the key of a period"),
        (&["--once", "2D"], "30s"),
        (&["--once", "1d", "--fair"], "cannot be used with"),
        (&["--at", "02:00"], "--once"),
        (&["--once", "1d", "--at", "2:00"], "02:00"),
    ] {
        let done = crate::support::run(&SERVER, &[&["x"], options, &["--", "true"]].concat()).finish();
        done.fails_with(64, &[said]);
    }
}

/// A library for `LD_PRELOAD` that sets the time of day to `CLOCK` in seconds since 1970.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    const char *seconds = getenv("CLOCK");
    if (result == 0 && clock == CLOCK_REALTIME && seconds) time->tv_sec = atol(seconds);
    return result;
}
"#;

/// Three hosts have clocks that differ by five seconds, and some winners are killed.
#[test]
fn hosts_with_other_clocks_run_a_command_once_in_a_period() {
    let (log, name) = (path(&SERVER), name());
    // The loader splits a path at a colon, which names of tests have.
    let [source, library] = ["once-clock.c", "once-clock.so"].map(|file| SERVER.dir().join(file));
    std::fs::write(&source, CLOCK).expect("a file");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    assert!(built.is_ok_and(|status| status.success()), "the embedded engine needs a C compiler, too");
    for day in 0..8_i64 {
        let tick = 1_795_831_200 + day * 86_400;
        let is_killed = day % 4 == 3;
        let script = format!("echo {day} start $PPID >> '{0}'; sleep 0.2; echo {day} end >> '{0}'", log.display());
        let hosts: Vec<_> = [-5, 0, 5]
            .map(|skew| {
                let options = [&*name, "--once", "1d", "--at", "02:00", "--lease", "2s"];
                let mut command = run_script(&SERVER, &options, &script);
                command.env("LD_PRELOAD", &library).env("CLOCK", (tick + skew).to_string()).start()
            })
            .into();
        let of_day = |what: &str| {
            let beginning = format!("{day} {what}");
            lines(&log).into_iter().filter(|line| line.starts_with(&beginning)).collect::<Vec<_>>()
        };
        if is_killed {
            until("it runs", || !of_day("start").is_empty());
            let winner = of_day("start")[0].rsplit(' ').next().and_then(|pid| pid.parse().ok()).expect("a pid");
            send(winner, Signal::KILL);
        }
        let hosts: Vec<_> = hosts.into_iter().map(Running::finish).collect();
        let mut codes: Vec<_> = hosts.iter().map(|host| host.status.code().unwrap_or(-1)).collect();
        codes.sort_unstable();
        let (starts, ends) = (of_day("start").len(), of_day("end").len());
        let expected = if is_killed { (vec![-1, 0, 75], 2, 1) } else { (vec![0, 75, 75], 1, 1) };
        assert_eq!((codes, starts, ends), expected, "day {day}: {hosts:?}");
    }
}

#[test]
fn period_is_removed_from_the_environment_of_another_run() {
    let name = name();
    let inner = format!("{} run {name}:inner -- sh -c 'echo \"<$LEASEHOLD_PERIOD>\"'", env!("CARGO_BIN_EXE_leasehold"));
    let done = run_script(&SERVER, &with(&name, &[]), &inner).finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, "<>\n"));
}
