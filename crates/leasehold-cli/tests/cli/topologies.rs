//! Every command on a cluster and behind Sentinel: locks of every kind, of ours and of JVMs, beside keys that are no locks.

use crate::screen::Screen;
use crate::support::{Running, Start as _, bare, objects, patient};
use leasehold_test_support::{Binary, Cluster, Resp, Sentinel, Server, until};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

/// Options of `run`, and the kind of lock that they make.
const OURS: [(&str, &[&str], &str); 8] = [
    ("plain", &[], "lock"),
    ("fair", &["--fair"], "fair lock"),
    ("fenced", &["--fenced"], "fenced lock"),
    ("fenced-fair", &["--fenced", "--fair"], "fenced fair lock"),
    ("read", &["--read"], "read-write lock"),
    ("write", &["--write"], "read-write lock"),
    ("permits", &["--permits", "3"], "semaphore"),
    ("many", &["--permits", "300"], "semaphore"),
];

/// Locks as JVMs and go-zero write them, and their kinds.
const THEIRS: [(&str, &str); 6] = [
    ("jvm", "lock"),
    ("jvm-fair", "fair lock"),
    ("jvm-read", "read-write lock"),
    ("jvm-write", "read-write lock"),
    ("jvm-count", "counter"),
    ("go", "simple lock"),
];

/// Keys that are no locks.
const GARBAGE: [&str; 6] = ["list", "set", "zset", "stream", "large hash", "long text"];

/// A deployment of servers.
struct Deployment<'a> {
    url: String,
    /// The server that has the keys of a name.
    of: &'a dyn Fn(&str) -> &'a Server,
    /// The command by which JVMs tell of a release.
    publish: &'static str,
}

impl Deployment<'_> {
    fn leasehold(&self, words: &[&str]) -> Command {
        let mut command = bare();
        command.env("LEASEHOLD_URL", patient(&self.url)).args(words);
        command
    }

    /// Sends a command about the lock that the second word names.
    fn tells(&self, words: &[&str], name: &str) -> Resp {
        let reply = (self.of)(name).command(words);
        assert!(!reply.is_error(), "{words:?}: {reply:?}");
        reply
    }

    fn held(&self, options: &[&str]) -> Running {
        let words = [&["run"], options, &["--", "sh", "-c", "echo in; read end"]].concat();
        let running = self.leasehold(&words).stdin(Stdio::piped()).start();
        running.says("in");
        running
    }

    /// Writes locks of others, and keys that are no locks.
    fn fill(&self) {
        let lease = "3600000";
        let writes: [&[&str]; 16] = [
            &["HSET", "jvm", JVM, "1"],
            &["PEXPIRE", "jvm", lease],
            &["HSET", "jvm-fair", JVM, "2"],
            &["PEXPIRE", "jvm-fair", lease],
            &["HSET", "jvm-read", "mode", "read", JVM, "1"],
            &["PEXPIRE", "jvm-read", lease],
            &["HSET", "jvm-write", "mode", "write", &format!("{JVM}:write"), "1"],
            &["PEXPIRE", "jvm-write", lease],
            &["SET", "jvm-count", "3"],
            &["SET", "go", "some-process", "PX", lease],
            &["RPUSH", "list", "data"],
            &["SADD", "set", "data"],
            &["ZADD", "zset", "1", "data"],
            &["XADD", "stream", "*", "field", "data"],
            &[
                "HSET",
                "large hash",
                "a",
                "1",
                "b",
                "2",
                "c",
                "3",
                "d",
                "4",
                "e",
                "5",
                "f",
                "6",
                "g",
                "7",
                "h",
                "8",
                "i",
                "9",
            ],
            &["SET", "long text", &"x".repeat(300)],
        ];
        for words in writes {
            self.tells(words, words[1]);
        }
        let waiter = "6f0c0000-0000-4000-8000-000000000000:2";
        self.tells(&["SET", &format!("{{jvm-read}}:{JVM}:rwlock_timeout:1"), "1", "PX", lease], "jvm-read");
        self.tells(&["RPUSH", "redisson_lock_queue:{jvm-fair}", waiter], "jvm-fair");
        self.tells(&["ZADD", "redisson_lock_timeout:{jvm-fair}", "4102444800000", waiter], "jvm-fair");
    }

    fn listed(&self, words: &[&str]) -> BTreeMap<String, Value> {
        let done = self.leasehold(&[&["ls", "--json"], words].concat()).finish();
        assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
        objects(&done.stdout)
            .into_iter()
            .map(|lock| (lock["name"].as_str().expect("a name").to_owned(), lock))
            .collect()
    }

    fn inspected(&self, name: &str) -> Value {
        let done = self.leasehold(&["inspect", name, "--json"]).finish();
        assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "{done:?}");
        objects(&done.stdout).remove(0)
    }

    fn everything_is_listed_and_inspected(&self) {
        let seen = self.listed(&[]);
        let expected: BTreeMap<_, _> = OURS.iter().map(|(name, _, kind)| (*name, *kind)).chain(THEIRS).collect();
        let kinds: BTreeMap<_, _> =
            seen.iter().map(|(name, lock)| (name.as_str(), lock["kind"].as_str().expect("a kind"))).collect();
        assert_eq!(kinds, expected);
        let foreign = self.listed(&["--kind", "foreign"]);
        assert!(
            foreign.keys().map(String::as_str).eq(GARBAGE.into_iter().collect::<std::collections::BTreeSet<_>>()),
            "{foreign:?}"
        );
        for name in ["permits", "many"] {
            let is_known = || {
                let done = self.leasehold(&["inspect", name, "--json"]).finish();
                objects(&done.stdout)[0]["holders"][0]["process"]["application"] == "leasehold run sh"
            };
            until("the process of a permit says so", is_known);
        }
        for (name, kind) in expected {
            let lock = self.inspected(name);
            let state = if kind == "counter" { "counted" } else { "held" };
            assert_eq!((&lock["kind"], &lock["state"]), (&kind.into(), &state.into()), "{lock}");
            assert_eq!((&lock["held"], &lock["warnings"]), (&seen[name]["held"], &seen[name]["warnings"]), "{lock}");
        }
        for name in GARBAGE {
            self.leasehold(&["inspect", name]).finish().fails_with(73, &["is in use by something else"]);
            self.leasehold(&["unlock", name, "--yes"]).finish().fails_with(73, &[name]);
            self.leasehold(&["run", "--try", name, "--", "true"]).finish().fails_with(73, &[name]);
        }
        assert_eq!(self.inspected("jvm-fair")["waiters"][0]["alive"], true);
        let screen = Screen::of_top_at(&self.url, &["--every", "1h"], 150, 20);
        screen.comes_to("all are drawn", |text| expected_rows().all(|name| text.contains(&format!("\n{name} "))));
    }

    /// A lock of a JVM is waited for, told of, and freed.
    fn a_lock_of_a_jvm_is_waited_for_and_freed(&self) {
        self.leasehold(&["run", "--try", "jvm", "--", "true"]).finish().fails_with(75, &["is busy"]);
        let watch = self.leasehold(&["watch", "jvm*", "--every", "50ms", "--json"]).start();
        until("it has looked", || watch.stdout().contains("answers"));
        let waiter = self.leasehold(&["run", "jvm", "--", "echo", "granted"]).start();
        until("it listens", || self.inspected("jvm")["waiting"] == 1);
        self.tells(&["DEL", "jvm"], "jvm");
        self.tells(&[self.publish, "redisson_lock__channel:{jvm}", "0"], "jvm");
        assert_eq!(waiter.finish().stdout, "granted\n");
        let freed = self.leasehold(&["unlock", "jvm-fair", "--yes"]).finish();
        assert!(freed.code() == 0 && freed.stdout.contains(JVM), "{freed:?}");
        // The waiter is offered the lock.
        assert_eq!(self.inspected("jvm-fair")["state"], "waited for");
        for name in ["jvm-read", "jvm-write", "go"] {
            let freed = self.leasehold(&["unlock", name, "--yes"]).finish();
            assert_eq!(freed.code(), 0, "{freed:?}");
            assert_eq!(self.inspected(name)["state"], "free");
        }
        let told = |event: &str, name: &str| {
            let whole = watch.stdout();
            let whole = whole.rsplit_once('\n').map_or("", |(whole, _)| whole).to_owned();
            objects(&whole).iter().any(|told| told["event"] == event && told["name"] == name)
        };
        until("it was told", || ["jvm", "jvm-fair", "jvm-read", "jvm-write"].iter().all(|name| told("released", name)));
        watch.signal(Signal::INT);
        assert_eq!(watch.finish().code(), 0);
    }

    /// The holds of ours are freed and lost, and the faults of the deployment are no others than these.
    fn ours_are_freed_and_doctor_is_content(&self, holders: [Running; OURS.len()], faults: &[&str]) {
        let done = self.leasehold(&["doctor"]).finish();
        let told: Vec<_> =
            done.stdout.lines().filter_map(|line| line.strip_prefix("FAULT  ")?.split(' ').next()).collect();
        assert_eq!((told.as_slice(), done.stderr.as_str()), (faults, ""), "{done:?}");
        for ((name, _, kind), mut holder) in OURS.into_iter().zip(holders) {
            let freed = self.leasehold(&["unlock", name, "--yes"]).finish();
            if kind == "semaphore" {
                freed.fails_with(73, &["permits"]);
            } else {
                assert!(freed.code() == 0 && freed.stdout.contains("freed"), "{freed:?}");
            }
            holder.close_stdin();
            holder.finish();
            assert_ne!(self.inspected(name)["state"], "held", "{name}");
        }
    }

    fn serves_every_command(&self, faults: &[&str]) {
        self.fill();
        let holders = OURS.map(|(name, options, _)| self.held(&[&[name], options].concat()));
        self.everything_is_listed_and_inspected();
        self.a_lock_of_a_jvm_is_waited_for_and_freed();
        self.ours_are_freed_and_doctor_is_content(holders, faults);
    }
}

fn expected_rows() -> impl Iterator<Item = &'static str> {
    OURS.iter().map(|(name, ..)| *name).chain(THEIRS.iter().map(|(name, _)| *name))
}

#[test]
fn cluster_serves_every_command() {
    let binary = Binary::with_sharded_notices().expect("a server program");
    let cluster = Cluster::builder().binary(&binary).arg("appendonly", "yes").start();
    let of = |name: &str| cluster.node_of(name);
    Deployment { url: cluster.url(), of: &of, publish: "SPUBLISH" }.serves_every_command(&[]);
}

#[test]
fn sentinel_serves_every_command() {
    let world = Sentinel::start();
    let of = |_: &str| world.primary();
    Deployment { url: world.url(), of: &of, publish: "PUBLISH" }.serves_every_command(&["persistence", "min-replicas"]);
}

#[test]
fn locks_are_listed_of_the_nodes_that_answer() {
    let cluster = Cluster::builder().arg("cluster-require-full-coverage", "no").start();
    let names: Vec<_> = (0..30).map(|at| format!("stock:{at}")).collect();
    for name in &names {
        cluster.node_of(name).command(&["HSET", name, JVM, "1"]);
        cluster.node_of(name).command(&["PEXPIRE", name, "600000"]);
    }
    let dead = &cluster.nodes()[1];
    let at = |node: &Server| names.iter().filter(|name| cluster.node_of(name).port() == node.port()).count();
    let lost = at(dead);
    assert!(lost > 0 && lost < names.len(), "{lost} of the locks are there");
    let there: Vec<_> = names.iter().filter(|name| cluster.node_of(name).port() != dead.port()).collect();
    dead.kill();
    let done = bare().env("LEASEHOLD_URL", cluster.url()).args(["ls", "--json"]).finish();
    let listed: Vec<_> =
        objects(&done.stdout).iter().filter_map(|lock| lock["name"].as_str().map(str::to_owned)).collect();
    assert!(there.iter().all(|name| listed.contains(name)) && listed.len() == there.len(), "{done:?}");
    assert!(done.code() == 69 && done.stderr.contains(&dead.port().to_string()), "{done:?}");
}
