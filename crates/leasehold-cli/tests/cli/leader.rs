//! `leasehold leader`: one process leads, whatever happens to it or to the server.

use crate::http::Answer;
use crate::support::{
    Running, SERVER, Start as _, children, exists, leasehold, lines, name, objects, path, runs, send, until_gone,
    until_held,
};
use leasehold_test_support::{Proxy, Server, Way, eventually, until};
use rustix::process::Signal;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

/// A candidate whose command is a script for `sh`.
fn candidate(server: &Server, options: &[&str], script: &str) -> Command {
    let mut command = leasehold(server);
    command.arg("leader").args(options).args(["--", "sh", "-c", script]);
    command
}

/// A script that writes its fencing token into a file as long as it runs.
fn recorded(log: &Path) -> String {
    format!("while :; do echo $LEASEHOLD_FENCING_TOKEN >> '{}'; sleep 0.02; done", log.display())
}

/// The tokens of a file.
fn tokens(log: &Path) -> Vec<u64> {
    lines(log).iter().map(|line| line.parse().expect("a token")).collect()
}

/// The address that the candidate prints.
fn health(candidate: &Running) -> String {
    let address = || {
        let text = candidate.stderr();
        let (_, rest) = text.split_once("health checks on http://")?;
        Some(rest.split_once('/')?.0.to_owned())
    };
    eventually("the address of the health checks", address)
}

fn get(address: &str, path: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("it reads");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    Answer::of(&text)
}

/// The statuses of all paths.
fn statuses(address: &str) -> [u16; 4] {
    ["/healthz", "/ready", "/leading", "/following"].map(|path| get(address, path).status)
}

#[test]
fn candidate_on_a_full_server_is_not_ready_and_leads_once_there_is_memory() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let candidate = candidate(&server, &["x", "--health", "127.0.0.1:0"], "echo leads; sleep 100").start();
    let address = health(&candidate);
    until("it says why", || get(&address, "/ready").body.contains("the server is out of memory"));
    assert_eq!(statuses(&address), [200, 503, 503, 503]);
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    candidate.says("leads");
    assert_eq!(statuses(&address), [200, 200, 200, 503]);
}

#[test]
fn leader_ends_as_its_command_ended_and_the_next_candidate_leads_at_once() {
    let (name, end) = (name(), path(&SERVER));
    let script =
        format!("echo in $LEASEHOLD_FENCING_TOKEN; until [ -e '{}' ]; do sleep 0.02; done; exit 5", end.display());
    let first = candidate(&SERVER, &[&name], &script).start();
    let token: u64 = first.says("in ").parse().expect("a token");
    let second = candidate(&SERVER, &[&name], "echo in $LEASEHOLD_FENCING_TOKEN; exit 6").start();
    std::fs::write(end, "").expect("a file");
    let done = first.finish();
    assert_eq!(done.code(), 5);
    assert!(done.line().contains(&format!("leads {name:?} with the fencing token {token}")), "{done:?}");
    // The lease of 30 s was released.
    assert!(second.says("in ").parse::<u64>().expect("a token") > token);
    assert_eq!(second.finish().code(), 6);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn lost_leadership_stops_the_command_and_starts_it_again_under_a_later_token() {
    let (name, end) = (name(), path(&SERVER));
    // The orphan outlives the group of its command.
    let script = format!(
        "echo in $LEASEHOLD_FENCING_TOKEN; [ -e '{}' ] && exit 6; \
         setsid sh -c 'echo orphan $$; exec sleep 60 >/dev/null 2>&1' & sleep 100",
        end.display()
    );
    let running = candidate(&SERVER, &[&name, "--lease", "1s"], &script).start();
    let token: u64 = running.says("in ").parse().expect("a token");
    let orphan: i32 = running.says("orphan ").parse().expect("a pid");
    std::fs::write(end, "").expect("a file");
    SERVER.command(&["DEL", &name]);
    let done = running.finish();
    assert_eq!(done.code(), 6, "{done:?}");
    let again: Vec<u64> = done
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("in "))
        .map(|token| token.parse().expect("a token"))
        .collect();
    assert!(again.len() == 2 && again[0] == token && again[1] > token, "{done:?}");
    assert!(done.stderr.contains("was stopped") && done.stderr.contains("campaigning again"), "{done:?}");
    assert!(runs(orphan), "the test has an orphan of the first command");
    send(orphan, Signal::KILL);
}

#[test]
fn stubborn_command_of_a_leader_without_server_is_killed_before_the_next_leader_begins() {
    let server = Server::start();
    let (name, log, proxy) = (name(), path(&server), Proxy::to(&server));
    let script = format!("trap '' TERM; {}", recorded(&log));
    let mut first = candidate(&server, &[&name, "--lease", "3s"], &script);
    let _first = first.env("LEASEHOLD_URL", proxy.url()).start();
    until("the first one works", || !tokens(&log).is_empty());
    let _second = candidate(&server, &[&name, "--lease", "3s"], &recorded(&log)).start();
    proxy.freeze(Way::Both);
    let token = tokens(&log)[0];
    until("the second one works", || tokens(&log).iter().filter(|other| **other > token).count() > 10);
    let all = tokens(&log);
    assert!(all.is_sorted(), "{all:?}");
}

#[test]
fn signal_to_the_leader_reaches_its_command_and_ends_both() {
    let name = name();
    let script = "trap 'exit 3' TERM; echo child $$; while :; do sleep 0.02; done";
    let leader = candidate(&SERVER, &[&name], script).start();
    let child = leader.says("child ");
    let follower = candidate(&SERVER, &[&name, "--health", "0"], "true").start();
    let address = health(&follower);
    until("it follows", || get(&address, "/following").status == 200);
    follower.signal(Signal::TERM);
    assert_eq!(follower.finish().signal(), Signal::TERM.as_raw());
    leader.signal(Signal::TERM);
    assert_eq!(leader.finish().code(), 3);
    until_gone(&child);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn health_checks_tell_leader_follower_and_outage() {
    let server = Server::start();
    let name = name();
    let candidate = |lease| {
        let mut command = candidate(&server, &[&name, "--lease", lease, "--health", "0"], "echo in; sleep 100");
        command.env("LEASEHOLD_URL", format!("{}?command_timeout=200ms&unreachable_after=200ms", server.url()));
        command.start()
    };
    let leader = candidate("2s");
    leader.says("in");
    let address = health(&leader);
    assert_eq!(statuses(&address), [200, 200, 200, 503]);
    let body: serde_json::Value = serde_json::from_str(&get(&address, "/leading").body).expect("an object");
    assert!(body["state"] == "leading" && body["name"] == *name && body["token"].is_u64(), "{body}");
    let follower = candidate("2s");
    let other = health(&follower);
    until("it follows", || statuses(&other) == [200, 200, 503, 200]);
    let body: serde_json::Value = serde_json::from_str(&get(&other, "/ready").body).expect("an object");
    assert!(body["leader"].is_string(), "{body}");
    assert_eq!(get(&other, "/").status, 404);
    server.kill();
    for address in [&address, &other] {
        until("it fails", || statuses(address) == [200, 503, 503, 503]);
    }
    server.restart();
    until("one leads and one follows", || {
        let mut both = [statuses(&address), statuses(&other)];
        both.sort_unstable();
        both == [[200, 200, 200, 503], [200, 200, 503, 200]]
    });
}

#[test]
fn leader_without_a_server_at_the_start_waits_and_answers_health_checks() {
    let server = Server::start();
    server.kill();
    let name = name();
    let running = candidate(&server, &[&name, "--health", "0"], "echo in; exit 4").start();
    let address = health(&running);
    until("it reports the outage", || get(&address, "/ready").body.contains("\"failing\""));
    assert_eq!(statuses(&address), [200, 503, 503, 503]);
    server.restart();
    running.says("in");
    assert_eq!(running.finish().code(), 4);
}

#[test]
fn each_term_has_a_line_in_the_report() {
    let (name, report) = (name(), path(&SERVER));
    let running =
        candidate(&SERVER, &[&name, "--lease", "1s", "--report", &report.display().to_string()], "sleep 100").start();
    until_held(&SERVER, &name);
    SERVER.command(&["DEL", &name]);
    until("the first term is over", || lines(&report).len() == 1);
    until_held(&SERVER, &name);
    until("the command runs", || !children(running.pid()).is_empty());
    running.signal(Signal::TERM);
    running.finish();
    let terms = objects(&lines(&report).join("\n"));
    let outcomes: Vec<_> = terms.iter().map(|term| (&term["outcome"], &term["lost"], &term["signal"])).collect();
    assert_eq!(outcomes, [(&"lost".into(), &true.into(), &15.into()), (&"done".into(), &false.into(), &15.into())]);
    assert!(terms[1]["token"].as_u64() > terms[0]["token"].as_u64(), "{terms:?}");
}

/// Three candidates, and faults of the leader and of the server.
#[test]
fn chaos_never_has_two_commands_at_work() {
    let server = Server::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    let (name, log) = (name(), path(&server));
    let start = || {
        candidate(&server, &[&name, "--lease", "2s", "--grace", "300ms"], &format!("echo in; {}", recorded(&log)))
            .start()
    };
    let mut candidates = [start(), start(), start()];
    let next =
        |last: u64| eventually("the next leader works", || tokens(&log).last().copied().filter(|token| *token > last));
    let mut last = next(0);
    for fault in 0..4 {
        let leader = candidates.iter().position(|one| !children(one.pid()).is_empty()).expect("a leader");
        let family = || [vec![candidates[leader].pid()], children(candidates[leader].pid())].concat();
        match fault {
            0 | 2 => {
                candidates[leader].signal(Signal::KILL);
                candidates[leader] = start();
            }
            1 => {
                // A pause of the machine.
                let family = family();
                family.iter().rev().for_each(|pid| send(*pid, Signal::STOP));
                last = next(last);
                send(family[0], Signal::CONT);
                until_gone(&family[1].to_string());
                continue;
            }
            _ => {
                server.kill();
                until("the leader has stopped its command", || children(candidates[leader].pid()).is_empty());
                server.restart();
            }
        }
        last = next(last);
    }
    let all = tokens(&log);
    assert!(all.is_sorted(), "{all:?}");
}
