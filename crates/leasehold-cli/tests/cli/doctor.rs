//! `leasehold doctor` finds what is planted, and nothing on a server that is well.

use crate::support::{Done, Start as _, bare, leasehold, patient, run_script, texts};
use leasehold_test_support::{
    Binary, Cluster, Profile, Proxy, Resp, Sentinel, Server, ServerBuilder, Service, SplittingProxy, WallClock, Way,
    until,
};
use rustix::process::Signal;
use std::sync::Arc;
use std::time::Duration;

fn well() -> ServerBuilder {
    Server::builder().arg("appendonly", "yes")
}

fn examined(server: &Server, words: &[&str]) -> Done {
    leasehold(server).arg("doctor").args(words).finish()
}

fn examined_at(url: &str) -> Done {
    bare().env("LEASEHOLD_URL", patient(url)).arg("doctor").finish()
}

/// The findings that are faults.
fn faults(done: &Done) -> Vec<&str> {
    done.stdout.lines().filter(|line| line.starts_with("FAULT")).collect()
}

/// Wants faults of this check alone, and words in one of them.
#[track_caller]
fn has_fault(done: &Done, check: &str, words: &str) {
    let faults = faults(done);
    assert_eq!((done.code(), done.stderr.as_str()), (1, ""), "{done:?}");
    assert!(faults.iter().all(|line| line.starts_with(&format!("FAULT  {check:<12} "))), "{check} alone: {faults:#?}");
    assert!(faults.iter().any(|line| line.contains(words)), "{words:?} in {faults:#?}");
}

#[test]
fn server_that_is_well_has_no_fault_and_keeps_nothing() {
    for binary in Binary::all().expect("a server program") {
        let server = well().binary(&binary).start();
        let done = examined(&server, &[]);
        assert_eq!((done.code(), faults(&done), done.stderr.as_str()), (0, vec![], ""), "{done:?}");
        for check in ["version", "eviction", "persistence", "rights", "notices", "expiry", "latency", "clock"] {
            assert!(done.stdout.contains(&format!("ok     {check}")), "{check} in {}", done.stdout);
        }
        // The records of operations on counters end by themselves.
        let left = texts(&server.command(&["KEYS", "*doctor*"]));
        assert!(left.iter().all(|key| key.starts_with("leasehold:1:op:")), "{left:?}");
    }
}

#[test]
fn proxy_that_splits_by_slot_is_named() {
    let proxy = SplittingProxy::start(&Binary::any().expect("a server program"));
    let told = |done: &Done| done.stdout.lines().any(|line| line.starts_with("note   slots"));
    let done = examined_at(&proxy.url());
    assert!(told(&done), "{done:?}");
    let done = examined(&well().start(), &[]);
    assert!(!told(&done), "{done:?}");
}

#[test]
fn service_is_judged_by_its_own_profile() {
    let examined_as = |name: &str| {
        let profile = Profile::of(name).expect("a profile");
        let service = Service::start(profile, &Binary::any().expect("a server program"));
        examined_at(&service.url())
    };
    for (name, told) in
        [("dragonfly", "Dragonfly: no WAIT"), ("kvrocks", "Kvrocks: not tested"), ("garnet", "Garnet: no WAIT")]
    {
        let done = examined_as(name);
        assert!(done.stdout.contains(&format!("note   service      {told}")), "{name}: {done:?}");
        assert!(done.stdout.contains("ok     version"), "its protocol version is no fault of {name}: {done:?}");
    }
    let done = examined_as("memorydb");
    assert_eq!((done.code(), faults(&done)), (0, vec![]), "the log of MemoryDB replaces the file: {done:?}");
    assert!(done.stdout.contains("ok     service      Amazon MemoryDB: a failover loses no grant"), "{done:?}");
}

#[test]
fn policy_that_evicts_locks_is_found() {
    let server = well().arg("maxmemory", "100mb").arg("maxmemory-policy", "allkeys-lru").start();
    has_fault(&examined(&server, &[]), "eviction", "allkeys-lru");
}

#[test]
fn memory_that_is_nearly_full_is_found() {
    let server = well().start();
    server.command(&["SETRANGE", "large", "50000000", "x"]);
    let used: u64 = server.info("used_memory").and_then(|used| used.parse().ok()).expect("a number");
    server.command(&["CONFIG", "SET", "maxmemory", &(used + used / 20).to_string()]);
    has_fault(&examined(&server, &[]), "memory", " used");
}

#[test]
fn server_that_forgets_with_its_process_is_found() {
    has_fault(&examined(&Server::start(), &[]), "persistence", "appendonly is off");
}

#[test]
fn log_that_is_never_synced_is_found() {
    let server = well().arg("appendfsync", "no").start();
    has_fault(&examined(&server, &[]), "appendfsync", "half a minute");
}

#[test]
fn replicas_that_are_not_waited_for_are_found() {
    let primary = well().arg("repl-diskless-sync-delay", "0").start();
    let replica = Server::builder().arg("replicaof", &format!("127.0.0.1 {}", primary.port())).start();
    until("the replica follows", || replica.info("master_link_status").as_deref() == Some("up"));
    until("the primary knows", || primary.info("slave0").is_some_and(|replica| replica.contains("state=online")));
    has_fault(&examined(&primary, &[]), "min-replicas", "min-replicas-to-write is 0");
    let refused = examined(&replica, &[]);
    refused.fails_with(77, &["replica"]);
    assert_eq!(refused.stdout, "", "there is nothing to judge");
}

#[test]
fn replicas_that_are_waited_for_and_are_not_there_are_found() {
    let server = well().arg("min-replicas-to-write", "1").start();
    has_fault(&examined(&server, &[]), "rights", "NOREPLICAS");
}

#[test]
fn connections_that_are_nearly_used_up_are_found() {
    let server = well().arg("maxclients", "40").start();
    let idle: Vec<_> = (0..33).map(|_| server.connect().expect("a connection")).collect();
    has_fault(&examined(&server, &[]), "connections", "of 40 connections used");
    drop(idle);
}

#[test]
fn scripts_that_fill_the_memory_are_found() {
    let server = well().start();
    let text = "x".repeat(2 << 20);
    for number in 0..34 {
        server.command(&["SCRIPT", "LOAD", &format!("return '{number} {text}'")]);
    }
    has_fault(&examined(&server, &[]), "scripts", "scripts");
}

#[test]
fn connections_that_may_not_rest_are_found() {
    let server = well().arg("timeout", "5").start();
    has_fault(&examined(&server, &[]), "timeout", "idle for 5 s");
}

#[test]
fn buffer_that_a_few_notices_fill_is_found() {
    let server = well().arg("client-output-buffer-limit", "pubsub 65536 0 0").start();
    has_fault(&examined(&server, &[]), "buffers", "pubsub 65536 0 0");
}

#[test]
fn threshold_that_a_busy_machine_exceeds_is_found() {
    let server = well().arg("lua-time-limit", "20").start();
    has_fault(&examined(&server, &[]), "busy", "BUSY");
}

#[test]
fn command_that_held_all_others_up_is_found() {
    let server = well().start();
    server.command(&["DEBUG", "SLEEP", "1.01"]);
    has_fault(&examined(&server, &[]), "pace", "DEBUG took 1.0 s");
}

#[test]
fn server_that_is_far_away_is_found() {
    let server = well().start();
    let proxy = Proxy::to(&server);
    // Two round trips of it are longer than what is still well.
    proxy.delay(Way::ToServer, Duration::from_millis(130));
    let running = bare().env("LEASEHOLD_URL", proxy.url()).arg("doctor").start();
    let done = running.finish_within(Duration::from_secs(60));
    assert_eq!(done.code(), 1, "{done:?}");
    assert!(faults(&done).iter().any(|line| line.starts_with("FAULT  latency ")), "{}", done.stdout);
}

#[test]
fn clock_that_is_stepped_is_found() {
    // A time of 2026, and the clock stands still there.
    let clock = Arc::new(WallClock::at_micros(1_790_000_000_000_000));
    let server = well().clock(&clock).start();
    has_fault(&examined(&server, &[]), "clock", "jumped, or runs at the wrong rate");
}

#[test]
fn sentinels_that_are_too_few_are_found() {
    let world = Sentinel::start();
    world.primary().command(&["CONFIG", "SET", "appendonly", "yes"]);
    world.primary().command(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    // The primary counts a replica as good after its first acknowledgement.
    until("the replica is good", || world.primary().info("min_slaves_good_slaves").as_deref() == Some("1"));
    let well = examined_at(&world.url());
    assert_eq!((well.code(), faults(&well)), (0, vec![]), "{well:?}");
    assert!(well.stdout.contains("ok     sentinel     127.0.0.1:"), "{}", well.stdout);
    world.sentinel().command(&["SENTINEL", "SET", Sentinel::SERVICE, "quorum", "2"]);
    let silent = world.url().replace('?', "?node=127.0.0.1:1&");
    let done = examined_at(&silent);
    has_fault(&done, "sentinel", "NOQUORUM");
    assert!(done.stdout.contains("note   sentinel     127.0.0.1:1: unreachable"), "{}", done.stdout);
}

/// What is said to a user with these rights.
fn examined_as(rule: &str, words: &[&str]) -> Done {
    let server = well().user(&format!("app on >secret {rule}")).start();
    let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
    bare().env("LEASEHOLD_URL", url).arg("doctor").args(words).finish()
}

#[test]
fn user_without_notices_is_found() {
    has_fault(&examined_as("~* &* +@all -subscribe", &[]), "notices", "NOPERM");
}

#[test]
fn user_without_channels_is_found() {
    has_fault(&examined_as("~* resetchannels +@all", &[]), "rights", "publish to the channel");
}

#[test]
fn user_without_scripts_is_found() {
    has_fault(&examined_as("~* &* +@all -@scripting", &[]), "rights", "NOPERM");
}

#[test]
fn user_without_the_keys_of_a_lock_is_found() {
    has_fault(&examined_as("~app:* &* +@all", &[]), "rights", "NOPERM");
}

#[test]
fn user_who_needs_plain_locks_alone_is_well() {
    let name = "app:trial";
    let rule = format!("~{name}* ~redisson_lock__channel:{{{name}* &* +@all -config -slowlog -time");
    let done = examined_as(&rule, &["--name", name]);
    assert_eq!((done.code(), faults(&done)), (0, vec![]), "{done:?}");
    for note in ["rights       cannot use the kind fair", "settings", "pace", "clock"] {
        assert!(done.stdout.contains(&format!("note   {note}")), "{note} in {}", done.stdout);
    }
}

#[test]
fn what_has_the_name_of_the_trial_is_left_alone() {
    let server = well().start();
    server.command(&["HSET", "stock:hash", "quantity", "3"]);
    server.command(&["SET", "stock:text", "a text"]);
    let held = run_script(&server, &["--fenced", "stock:lock"], "echo in; sleep 100").start();
    held.says("in");
    for name in ["stock:hash", "stock:text", "stock:lock"] {
        let done = examined(&server, &["--name", name]);
        assert_eq!((done.code(), faults(&done)), (0, vec![]), "{done:?}");
        assert_eq!(server.command(&["EXISTS", name]), Resp::Int(1), "{name}");
    }
    assert_eq!(server.command(&["EXISTS", "redisson_lock_token:{stock:lock}"]), Resp::Int(1));
    held.signal(Signal::TERM);
    assert_eq!(held.finish().signal(), Signal::TERM.as_raw());
}

#[test]
fn prefix_of_the_url_does_not_hide_what_is_left() {
    let server = well().start();
    let url = format!("{}?prefix=shop%3A", server.url());
    for words in [&["doctor"][..], &["bench", "--pairs", "10"]] {
        let done = bare().env("LEASEHOLD_URL", &url).args(words).finish();
        assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
        let left = texts(&server.command(&["KEYS", "*shop:leasehold*"]));
        assert!(left.iter().all(|key| key.starts_with("leasehold:1:op:")), "{left:?}");
    }
}

#[test]
fn odd_primary_and_slot_without_a_server_are_found() {
    let arg = "cluster-require-full-coverage";
    let cluster = Cluster::builder().arg("appendonly", "yes").arg(arg, "no").start();
    let well = examined_at(&cluster.url());
    assert_eq!((well.code(), faults(&well)), (0, vec![]), "{well:?}");
    assert!(well.stdout.contains("all 3 primaries are ok"), "{}", well.stdout);
    for odd in cluster.nodes() {
        odd.command(&["CONFIG", "SET", "timeout", "5"]);
        has_fault(&examined_at(&cluster.url()), "timeout", &format!("{}: timeout is 5", odd.addr()));
        odd.command(&["CONFIG", "SET", "timeout", "0"]);
    }
    for node in cluster.nodes() {
        node.command(&["CLUSTER", "DELSLOTS", "0"]);
    }
    has_fault(&examined_at(&cluster.url()), "cluster", "16383");
}

#[test]
fn cluster_without_one_of_its_nodes_is_told_as_such() {
    let cluster = Cluster::builder().arg("appendonly", "yes").start();
    let [dead, witness, ..] = cluster.nodes() else { panic!("three nodes") };
    dead.kill();
    until("the cluster is down", || {
        let info = witness.command(&["CLUSTER", "INFO"]);
        info.as_str().is_some_and(|info| info.contains("cluster_state:fail"))
    });
    let done = examined_at(&cluster.url());
    let is_told = faults(&done).iter().any(|line| line.contains(" cluster ") && line.contains("slots are served"));
    assert!(done.code() == 1 && is_told, "{done:?}");
    assert!(!done.stdout.contains("raw commands failed") && !done.stdout.contains("docs/security.md"), "{done:?}");
    // A look changes nothing, so its outcome is no question.
    let done = bare().env("LEASEHOLD_URL", cluster.url()).args(["inspect", "x"]).finish();
    assert_eq!(done.code(), 69, "{done:?}");
    assert!(!done.line().contains("what became of"), "{done:?}");
}

#[test]
fn full_server_is_not_told_as_a_lack_of_rights() {
    let server = well().start();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    let done = examined(&server, &[]);
    assert_eq!(done.code(), 1, "{done:?}");
    let rights = faults(&done).into_iter().find(|line| line.contains(" rights ")).expect("a fault");
    assert!(rights.contains("OOM") && rights.contains("; the server is out of memory"), "{rights}");
    for wrong in ["docs/security.md", "allow "] {
        assert!(!done.stdout.contains(wrong), "{wrong}: {}", done.stdout);
    }
}

#[test]
fn accepted_fault_is_a_note_and_changes_no_exit_code() {
    let server = Server::builder().arg("timeout", "5").start();
    assert_eq!(faults(&examined(&server, &[])).len(), 2);
    let done = examined(&server, &["--accept", "persistence"]);
    has_fault(&done, "timeout", "timeout is 5");
    assert!(done.stdout.contains("note   persistence  appendonly is off"), "{}", done.stdout);
    assert!(done.stdout.contains("(accepted)"), "{}", done.stdout);
    let done = examined(&server, &["--accept", "persistence,timeout"]);
    assert_eq!((done.code(), faults(&done)), (0, vec![]), "{done:?}");
    examined(&server, &["--accept", "weather"]).fails_with(64, &["weather", "persistence"]);
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
