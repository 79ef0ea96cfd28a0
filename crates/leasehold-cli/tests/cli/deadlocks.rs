//! `leasehold deadlocks` finds programs that wait for each other.

use crate::support::{Running, Start as _, bare, held, leasehold, objects, run_script};
use leasehold::{Client, Guard, Owner};
use leasehold_test_support::{Server, until};
use rustix::process::Signal;
use std::process::Stdio;
use std::time::Duration;
use tokio::runtime::Runtime;

/// An owner of a client of its own that holds a lock.
async fn holds(server: &Server, application: &str, lock: &str) -> (Client, Owner, Guard) {
    let client = Client::builder().announce(application).connect(&server.url()).await.expect("a server");
    let owner = client.new_owner();
    let guard = owner.scope(async { client.lock(lock).acquire().await.expect("the lock") }).await;
    (client, owner, guard)
}

/// Programs that each hold a lock and wait for another one, as long as the result lives.
fn circle(server: &Server, programs: [(&str, &str, &'static str); 2]) -> Runtime {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    // Both hold before one of them waits.
    let holders = programs.map(|(application, held, _)| runtime.block_on(holds(server, application, held)));
    for ((client, owner, guard), (_, _, wanted)) in holders.into_iter().zip(programs) {
        let wanted = client.lock(wanted);
        runtime.spawn(async move {
            let waited = owner.scope(async { wanted.acquire().wait(Duration::from_secs(60)).await }).await;
            drop((client, guard, waited));
        });
    }
    runtime
}

#[test]
fn circle_of_two_programs_is_found() {
    let server = Server::start();
    let _programs = circle(&server, [("orders\u{1b}[2J", "stock", "till"), ("bookings", "till", "stock")]);
    until("the circle is found", || leasehold(&server).arg("deadlocks").finish().code() == 1);
    let done = leasehold(&server).arg("deadlocks").finish();
    assert_eq!((done.code(), done.stdout.lines().count(), done.stderr.as_str()), (1, 1, ""), "{done:?}");
    let process = format!("process {} on ", std::process::id());
    for word in [r"orders\u{1b}[2J", "bookings", &process, "for till, which", "for stock, which", "; "] {
        assert!(done.stdout.contains(word), "{done:?} has {word:?}");
    }
    let done = leasehold(&server).args(["deadlocks", "--json"]).finish();
    let found = objects(&done.stdout);
    assert_eq!((done.code(), found.len(), found[0]["waits"].as_array().map(Vec::len)), (1, 1, Some(2)), "{done:?}");
    assert!(found[0]["waits"][0]["waited_ms"].as_u64().is_some_and(|waited| waited >= 1_000), "{done:?}");
}

/// `leasehold run` of one lock, and within it of another one, which it asks for when its stdin is closed.
fn nested(server: &Server, outer: &str, inner: &str) -> Running {
    let run = format!("{} run --wait 60s {inner} -- true", env!("CARGO_BIN_EXE_leasehold"));
    let running = run_script(server, &[outer], &format!("echo in; read end; {run}")).stdin(Stdio::piped()).start();
    running.says("in");
    running
}

#[test]
fn circle_of_two_nested_runs_is_found() {
    let server = Server::start();
    let mut both = [nested(&server, "stock", "till"), nested(&server, "till", "stock")];
    both.iter_mut().for_each(Running::close_stdin);
    until("the circle is found", || leasehold(&server).arg("deadlocks").finish().code() == 1);
    let done = leasehold(&server).arg("deadlocks").finish();
    assert_eq!((done.code(), done.stdout.lines().count(), done.stderr.as_str()), (1, 1, ""), "{done:?}");
    for word in ["leasehold run true", "for till, which", "for stock, which", "; "] {
        assert!(done.stdout.contains(word), "{done:?} has {word:?}");
    }
    let [one, other] = both;
    one.signal(Signal::TERM);
    one.finish();
    assert_eq!(other.finish().code(), 0);
    assert_eq!(leasehold(&server).arg("deadlocks").finish().code(), 0);
}

#[test]
fn run_that_waits_for_a_run_around_it_is_a_circle_of_one() {
    let server = Server::start();
    let mut running = nested(&server, "stock", "stock");
    running.close_stdin();
    until("the circle is found", || leasehold(&server).arg("deadlocks").finish().code() == 1);
    let done = leasehold(&server).args(["deadlocks", "--json"]).finish();
    assert_eq!(objects(&done.stdout)[0]["waits"].as_array().map(Vec::len), Some(1), "{done:?}");
    running.signal(Signal::TERM);
    running.finish();
}

#[test]
fn nested_run_that_waits_for_a_command_without_a_wait_is_no_circle() {
    let server = Server::start();
    let mut till = held(&server, &["till"]);
    let mut waiting = nested(&server, "stock", "till");
    waiting.close_stdin();
    let record = || leasehold(&server).args(["inspect", "--json", "till"]).finish().stdout;
    until("it waits", || objects(&record())[0]["waiting"] == 1);
    let done = leasehold(&server).arg("deadlocks").finish();
    assert_eq!(done.code(), 0, "{done:?}");
    till.close_stdin();
    till.finish();
    assert_eq!(waiting.finish().code(), 0);
}

#[test]
fn locks_that_may_not_be_looked_at_are_told_of() {
    let keys = |name: &str| {
        format!(
            "~{name} ~{{{name}}}:* ~redisson_lock_queue:{{{name}}} ~redisson_lock_timeout:{{{name}}} \
             ~redisson_lock_token:{{{name}}} ~leasehold:1:fair:{{{name}}} ~leasehold:1:rw_readers:{{{name}}}"
        )
    };
    let some = format!("some on >secret {} ~leasehold:1:client:* &* +@all", keys("stock"));
    let more = format!("more on >secret {} {} {} ~leasehold:1:client:* &* +@all", keys("stock"), keys("a"), keys("b"));
    let server = Server::builder().user(&some).user(&more).start();
    let _programs = circle(&server, [("orders", "stock", "till"), ("bookings", "till", "stock")]);
    until("the circle is found", || leasehold(&server).arg("deadlocks").finish().code() == 1);
    let as_user = |user: &str, words: &[&str]| {
        let url = format!("redis://{user}:secret@127.0.0.1:{}", server.port());
        bare().env("LEASEHOLD_URL", url).arg("deadlocks").args(words).finish()
    };
    let hidden = "cannot inspect 1 lock with waiters, which may be part of a deadlock: \"till\": NOPERM";
    let done = as_user("some", &[]);
    done.fails_with(77, &["no deadlock found, but ", hidden, "~redisson_lock_queue:{NAME}"]);
    let done = as_user("some", &["--json"]);
    let told = objects(done.line()).remove(0);
    assert_eq!((done.code(), &told["error"], &told["exit_code"]), (77, &"refused".into(), &77.into()), "{told}");
    // One that is found is told all the same.
    let _others = circle(&server, [("one", "a", "b"), ("other", "b", "a")]);
    until("the other circle is found", || as_user("more", &[]).code() == 1);
    let done = as_user("more", &[]);
    assert!(done.stdout.lines().count() == 1 && done.stdout.contains("for a, which"), "{done:?}");
    assert!(done.line().contains(hidden), "{done:?}");
}

#[test]
fn wait_that_is_no_circle_is_none() {
    let server = Server::start();
    let done = leasehold(&server).arg("deadlocks").finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, ""));
    assert!(done.line().contains("no deadlock found"), "{done:?}");
    let done = leasehold(&server).args(["deadlocks", "--json"]).finish();
    assert_eq!((done.code(), done.stdout.as_str(), objects(done.line()).len()), (0, "", 1));
}

#[test]
fn refusal_names_the_rights_and_takes_no_record_for_a_lock() {
    let commands = "+eval +evalsha +hget +type +pttl +time +exists +publish +subscribe +info +ping";
    for (rights, refused) in
        [("~x", "scan"), ("~x +scan", "keys"), ("~x ~leasehold:1:client:* +scan", "can't run this command")]
    {
        let server = Server::builder().user(&format!("app on >secret &* {commands} {rights}")).start();
        let _announced = held(&server, &["x"]);
        until("a program has announced itself", || {
            !server.command(&["KEYS", "leasehold:1:client:*"]).elements().is_empty()
        });
        let url = format!("redis://app:secret@127.0.0.1:{}", server.port());
        let done = bare().env("LEASEHOLD_URL", &url).args(["deadlocks", "--json"]).finish();
        let told = objects(done.line()).remove(0);
        let message = told["message"].as_str().expect("a text");
        assert_eq!((done.code(), &told["lock"]), (77, &serde_json::Value::Null), "{told}");
        for word in ["client records", refused, "+scan, +hlen, +hmget and ~leasehold:1:client:*"] {
            assert!(message.contains(word), "{message} has {word}");
        }
        assert!(!message.contains("lock \""), "{message}");
    }
}
