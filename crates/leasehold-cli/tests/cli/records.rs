//! What `run` leaves behind: a line of a report, and metrics for node_exporter.

use crate::support::{SERVER, Start as _, exists, held, held_by_a_jvm, lines, name, objects, path, run_script};
use leasehold_test_support::until;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The objects of a report.
fn report(path: &Path) -> Vec<Value> {
    objects(&lines(path).join("\n"))
}

/// A folder of its own.
fn folder() -> PathBuf {
    let folder = path(&SERVER);
    fs::create_dir(&folder).expect("a folder");
    folder
}

/// The metrics of the only file in a folder.
fn metrics(folder: &Path) -> BTreeMap<String, f64> {
    let files: Vec<_> = fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()).collect();
    let [file] = &files[..] else { panic!("one file: {files:?}") };
    assert!(file.extension().is_some_and(|extension| extension == "prom"), "{file:?}");
    let read = |line: String| {
        let (metric, rest) = line.split_once('{')?;
        let (_, value) = rest.split_once("\"} ")?;
        Some((metric.strip_prefix("leasehold_run_")?.to_owned(), value.parse().expect("a number")))
    };
    lines(file).into_iter().filter_map(read).collect()
}

#[test]
fn every_end_of_a_run_has_its_line_in_the_report() {
    let (name, file) = (name(), path(&SERVER));
    let report_to = file.display().to_string();
    let options = [&*name, "--report", &report_to];
    let with = |more: &[&'static str]| [&options[..], more].concat();
    assert_eq!(run_script(&SERVER, &with(&["--fenced"]), "exit 0").finish().code(), 0);
    assert_eq!(run_script(&SERVER, &options, "exit 3").finish().code(), 3);
    run_script(&SERVER, &options, "kill -USR1 $$").finish().signal();
    assert_eq!(run_script(&SERVER, &with(&["--max-hold", "100ms"]), "sleep 100").finish().code(), 76);
    let lost = run_script(&SERVER, &with(&["--lease", "1s"]), "echo in; sleep 100").start();
    lost.says("in");
    SERVER.command(&["DEL", &name]);
    assert_eq!(lost.finish().code(), 76);
    held_by_a_jvm(&SERVER, &name, "60000");
    assert_eq!(run_script(&SERVER, &with(&["--try", "-q", "-E", "0"]), "exit 1").finish().code(), 0);
    let waiting = run_script(&SERVER, &options, "exit 1").start();
    let channel = format!("redisson_lock__channel:{{{name}}}");
    until("it waits", || SERVER.command(&["PUBSUB", "NUMSUB", &channel]).elements()[1].as_int() == Some(1));
    waiting.signal(Signal::TERM);
    waiting.finish().signal();
    let all = report(&file);
    let seen: Vec<_> = all
        .iter()
        .map(|run| {
            let number = |key: &str| run[key].as_i64();
            (run["outcome"].as_str().expect("a word"), number("exit"), number("signal"), number("exit_code"))
        })
        .collect();
    let expected = [
        ("done", Some(0), None, Some(0)),
        ("done", Some(3), None, Some(3)),
        ("done", None, Some(10), Some(138)),
        ("max_hold", None, Some(15), Some(76)),
        ("lost", None, Some(15), Some(76)),
        ("busy", None, None, Some(0)),
        ("interrupted", None, None, Some(143)),
    ];
    assert_eq!(seen, expected);
    assert!(all.iter().all(|run| run["name"] == *name && run["host"].is_string() && run["pid"].is_u64()), "{all:?}");
    assert!(all.iter().all(|run| run["start"].is_string() && run["waited_ms"].is_u64()), "{all:?}");
    assert!(all[0]["token"].is_u64() && all[1]["token"].is_null() && all[0]["holder"].is_string(), "{all:?}");
    assert!(all[3]["held_ms"].as_u64() >= Some(100) && all[5]["held_ms"].is_null(), "{all:?}");
    assert_eq!(all.iter().filter(|run| run["lost"] == true).count(), 1);
}

#[test]
fn metrics_keep_the_last_success_and_the_running_command() {
    let (name, folder) = (format!("{}/\"é", name()), folder());
    let directory = folder.display().to_string();
    let options = [&*name, "--textfile", &directory];
    let with = |more: &[&'static str]| [&options[..], more].concat();
    assert_eq!(run_script(&SERVER, &options, "exit 0").finish().code(), 0);
    let success = metrics(&folder);
    assert_eq!((success["exit_code"], success["lost"], success["running"]), (0.0, 0.0, 0.0));
    assert!(success["last_success_timestamp_seconds"] >= success["last_start_timestamp_seconds"], "{success:?}");
    assert_eq!(run_script(&SERVER, &options, "exit 3").finish().code(), 3);
    let failure = metrics(&folder);
    assert_eq!(failure["exit_code"], 3.0);
    assert_eq!(failure["last_success_timestamp_seconds"], success["last_success_timestamp_seconds"]);
    let mut running = held(&SERVER, &options);
    let before = metrics(&folder);
    assert_eq!(before["running"], 1.0);
    assert_eq!(run_script(&SERVER, &with(&["--try", "-q"]), "exit 0").finish().code(), 75);
    let mut after = metrics(&folder);
    assert!(after.remove("last_busy_timestamp_seconds").is_some());
    assert_eq!(after, before, "a busy lock says nothing of the command that runs");
    running.close_stdin();
    running.finish();
    assert_eq!(metrics(&folder)["running"], 0.0);
}

#[test]
fn run_without_room_for_its_record_does_not_start() {
    let name = name();
    let missing = path(&SERVER).join("none");
    for option in ["--report", "--textfile"] {
        let done = run_script(&SERVER, &[&name, option, &missing.display().to_string()], "echo in").finish();
        done.fails_with(74, &["none", "cannot be written"]);
        assert_eq!(done.stdout, "");
        assert!(!exists(&SERVER, &name));
    }
}

#[test]
fn record_that_fails_at_the_end_does_not_change_the_exit_code() {
    let (name, folder) = (name(), folder());
    let report = folder.join("report");
    let script = format!("rm -r '{}'; exit 3", folder.display());
    let options = [&*name, "--report", &report.display().to_string()];
    run_script(&SERVER, &options, &script).finish().fails_with(3, &["cannot record the run", &name]);
}

#[test]
fn runs_at_once_share_a_report() {
    let (name, file) = (name(), path(&SERVER));
    let options = [&*name, "--report", &file.display().to_string()];
    let all: Vec<_> = (0..8).map(|_| run_script(&SERVER, &options, "exit 0").start()).collect();
    for run in all {
        assert_eq!(run.finish().code(), 0);
    }
    assert_eq!(report(&file).len(), 8);
}
