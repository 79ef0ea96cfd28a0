//! `leasehold doctor` finds what is planted, and nothing on a server that is well.

use crate::support::{Done, Start as _, bare, leasehold, texts};
use leasehold_test_support::{Server, ServerBuilder};

fn well() -> ServerBuilder {
    Server::builder().arg("appendonly", "yes")
}

fn examined(server: &Server, words: &[&str]) -> Done {
    leasehold(server).arg("doctor").args(words).finish()
}

/// The findings that are faults.
fn faults(done: &Done) -> Vec<&str> {
    done.stdout.lines().filter(|line| line.starts_with("FAULT")).collect()
}

#[test]
fn server_that_is_well_has_no_fault_and_keeps_nothing() {
    let server = well().start();
    let done = examined(&server, &[]);
    assert_eq!((done.code(), faults(&done), done.stderr.as_str()), (0, vec![], ""), "{done:?}");
    for check in ["version", "eviction", "persistence", "rights", "notices", "latency", "clock"] {
        assert!(done.stdout.contains(&format!("ok     {check}")), "{check} in {}", done.stdout);
    }
    // The records of operations on counters end by themselves.
    let left = texts(&server.command(&["KEYS", "*doctor*"]));
    assert!(left.iter().all(|key| key.starts_with("leasehold:1:op:")), "{left:?}");
}

#[test]
fn faults_of_the_settings_are_found() {
    for (setting, value, check) in [
        ("appendonly", "no", "persistence"),
        ("maxmemory-policy", "allkeys-lru", "eviction"),
        ("min-replicas-to-write", "1", "rights"),
    ] {
        let server = well().arg("maxmemory", "100mb").arg(setting, value).start();
        let done = examined(&server, &[]);
        assert_eq!(done.code(), 1, "{setting} {value}: {done:?}");
        assert!(faults(&done).iter().any(|line| line.contains(check)), "{check} in {}", done.stdout);
    }
}

#[test]
fn missing_rights_are_found() {
    let examine = |rule: &str, words: &[&str]| {
        let server = well().user(&format!("app on >secret {rule}")).start();
        let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
        bare().env("LEASEHOLD_URL", url).arg("doctor").args(words).finish()
    };
    for (rule, check) in
        [("~* &* +@all -subscribe", "notices"), ("~* resetchannels +@all", "rights"), ("~app:* &* +@all", "rights")]
    {
        let done = examine(rule, &[]);
        assert!(done.code() == 1 && faults(&done).iter().any(|line| line.contains(check)), "{rule}: {done:?}");
    }
    // A user who may take plain locks, and nothing else, is well.
    let name = "app:trial";
    let keys = format!("~{name}* ~redisson_lock__channel:{{{name}*");
    let done = examine(&format!("{keys} &* +@all"), &["--name", name]);
    assert_eq!((done.code(), faults(&done)), (0, vec![]), "{done:?}");
    assert!(done.stdout.contains("note   rights       a lock of the kind fair"), "{}", done.stdout);
}

#[test]
fn findings_are_objects_with_json() {
    let server = Server::start();
    let done = examined(&server, &["--json"]);
    let findings: Vec<serde_json::Value> =
        done.stdout.lines().map(|line| serde_json::from_str(line).expect("an object")).collect();
    let persistence = findings.iter().find(|one| one["check"] == "persistence").expect("a finding");
    assert_eq!((&persistence["verdict"], &persistence["advice"]), (&"fault".into(), &"set appendonly yes".into()));
}
