//! `leasehold unlock` ends the hold of another process, and only the one that is meant.

use crate::support::{
    Running, SERVER, Start as _, exists, held_by_a_jvm, leasehold, name, objects, patient, run_script, texts,
    until_announced,
};
use leasehold::{Client, HolderId};
use leasehold_test_support::{Server, until};
use rustix::process::Signal;
use std::process::{Command, Stdio};
use std::time::Duration;

const JVM: &str = "6f0c0000-0000-4000-8000-000000000000:1";

fn unlock(words: &[&str]) -> Command {
    let mut command = leasehold(&SERVER);
    command.arg("unlock").args(words);
    command
}

/// `unlock` at a terminal, which types what it is given.
fn at_a_terminal(name: &str) -> Command {
    let line = format!("{} unlock {name}", env!("CARGO_BIN_EXE_leasehold"));
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--flush", "--command", &line, "/dev/null"]);
    command.env("LEASEHOLD_URL", patient(&SERVER.url())).env("SHELL", "sh").stdin(Stdio::piped());
    command
}

fn held(options: &[&str]) -> Running {
    let running = run_script(&SERVER, options, "echo in; sleep 100").start();
    running.says("in");
    running
}

#[test]
fn unlocked_command_is_stopped_and_the_next_runs() {
    for kind in [&[][..], &["--fair"], &["--fenced"], &["--write"], &["--read"]] {
        let name = name();
        let holder = held(&[&[name.as_str(), "--lease", "2s"], kind].concat());
        until_announced(&SERVER, &name);
        let done = unlock(&[&name, "--yes"]).finish();
        assert_eq!(done.code(), 0, "{done:?}");
        assert!(
            done.stdout.contains("freed") && done.stdout.contains(&format!("process {}", holder.pid())),
            "{done:?}"
        );
        holder.finish().fails_with(76, &["force-released"]);
        assert!(!exists(&SERVER, &name));
    }
}

#[test]
fn free_lock_needs_nothing() {
    let done = unlock(&[&name(), "--yes"]).finish();
    assert_eq!(done.code(), 0);
    assert!(done.stdout.contains("already free"));
}

#[test]
fn name_of_an_unlocked_lock_gives_the_terminal_no_command() {
    let name = format!("{}\u{1b}[2J", name());
    held_by_a_jvm(&SERVER, &name, "60000");
    for state in ["freed", "already free"] {
        let done = unlock(&[&name, "--yes"]).finish();
        assert!(done.stdout.contains(&format!("\\u{{1b}}[2J: {state}")), "{done:?}");
        assert!(!done.stdout.contains('\u{1b}'), "{done:?}");
    }
}

#[test]
fn another_holder_than_the_named_one_is_left_alone() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    let done = unlock(&[&name, "--yes", "--holder", "6f0c0000-0000-4000-8000-000000000000:2"]).finish();
    done.fails_with(73, &["no such holder", JVM]);
    assert!(exists(&SERVER, &name));
    assert_eq!(unlock(&[&name, "--yes", "--holder", JVM]).finish().code(), 0);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn without_a_terminal_and_without_yes_nothing_is_freed() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    unlock(&[&name]).finish().fails_with(64, &["--yes"]);
    assert!(exists(&SERVER, &name));
}

#[test]
fn answer_at_the_terminal_decides() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    for (answer, code, left) in [("n\n", 1, true), ("\n", 1, true), ("y\n", 0, false)] {
        let mut running = at_a_terminal(&name).start();
        running.shows("Free the lock? [y/N]");
        running.shows(JVM);
        running.write(answer);
        let done = running.finish();
        assert_eq!((done.code(), exists(&SERVER, &name)), (code, left), "{done:?}");
    }
}

/// A plain lock looks like a fair one without a queue, and its release is told elsewhere than a fair waiter listens.
#[test]
fn queue_that_came_while_it_asked_is_woken() {
    let name = name();
    let waiter = "6f0c0000-0000-4000-8000-000000000000:9";
    held_by_a_jvm(&SERVER, &name, "60000");
    let mut running = at_a_terminal(&name).start();
    running.shows("Free the lock? [y/N]");
    let mut ear = SERVER.connect().expect("a connection");
    ear.command(&["SUBSCRIBE", &format!("redisson_lock__channel:{{{name}}}:{waiter}")]).expect("an answer");
    SERVER.command(&["RPUSH", &format!("redisson_lock_queue:{{{name}}}"), waiter]);
    SERVER.command(&["ZADD", &format!("redisson_lock_timeout:{{{name}}}"), "99999999999999", waiter]);
    running.write("y\n");
    assert_eq!(running.finish().code(), 0);
    // A message that is there already is the next thing to read, and the answer to a PING would be the next otherwise.
    ear.send(&["PING"]).expect("a connection");
    let told = ear.receive().expect("an answer");
    assert_eq!(told.elements().first().and_then(|word| word.as_str()), Some("message"), "{told:?}");
}

/// No program writes two fields; a person may.
#[test]
fn damaged_lock_with_two_holders_is_freed_from_one_or_from_both() {
    let other = "6f0c0000-0000-4000-8000-000000000000:2";
    for queue in [false, true] {
        let name = name();
        let damage = || {
            held_by_a_jvm(&SERVER, &name, "60000");
            SERVER.command(&["HSET", &name, other, "1"]);
        };
        if queue {
            SERVER.command(&["RPUSH", &format!("redisson_lock_queue:{{{name}}}"), &format!("{other}1")]);
        }
        damage();
        let done = unlock(&[&name, "--yes", "--holder", JVM]).finish();
        assert_eq!(done.code(), 0, "{done:?}");
        assert_eq!(texts(&SERVER.command(&["HKEYS", &name])), [other]);
        damage();
        let done = unlock(&[&name, "--yes"]).finish();
        assert_eq!((done.code(), done.stdout.matches(": freed; ").count()), (0, 2), "{done:?}");
        assert!(!exists(&SERVER, &name));
    }
}

#[test]
fn permit_is_freed_by_its_id_or_by_its_holder() {
    let name = name();
    let holders = [(), ()].map(|()| {
        let holder =
            run_script(&SERVER, &[&name, "--permits", "2"], "echo holder $LEASEHOLD_HOLDER; sleep 100").start();
        let id = holder.says("holder ");
        (holder, id)
    });

    unlock(&[&name, "--yes"]).finish().fails_with(73, &["is a semaphore; select a permit with --holder"]);
    unlock(&[&name, "--yes", "--holder", JVM]).finish().fails_with(73, &["no such holder"]);
    let seen = leasehold(&SERVER).args(["inspect", "--json", &name]).finish();
    let permit = objects(&seen.stdout)[0]["holders"][0]["id"].as_str().expect("an id").to_owned();
    let of_permit =
        holders.iter().position(|(_, id)| HolderId::from(id.as_str()).has_permit(permit.parse().expect("an id")));
    let (_, other) = &holders[1 - of_permit.expect("a holder")];
    for (left, id) in [(1, permit.as_str()), (0, other.as_str())] {
        let done = unlock(&[&name, "--yes", "--holder", id]).finish();
        assert!(done.code() == 0 && done.stdout.contains(": freed; it was held by permit "), "{done:?}");
        assert_eq!(SERVER.command(&["ZCARD", &format!("{{{name}}}:timeout")]).as_int(), Some(left));
        assert_eq!(unlock(&[&name, "--yes", "--holder", id]).finish().code(), 73, "it is free by now");
    }
    assert_eq!(SERVER.command(&["GET", &name]).as_str(), Some("2"));
}

#[test]
fn process_loses_everything_that_it_holds_and_no_other_does() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (client, guards) = runtime.block_on(async {
        let client = Client::builder().announce("orders").connect(&server.url()).await.expect("a server");
        client.semaphore("supplier").try_set_permits(3).await.expect("a number");
        client.bare_semaphore("seats").try_set_permits(3).await.expect("a number");
        let guards = (
            client.lock("plain").acquire().await.expect("a lock"),
            client.fair_lock("fair").acquire().await.expect("a lock"),
            client.simple_lock("simple", Duration::from_secs(30)).acquire().await.expect("a lock"),
            client.read_write_lock("catalogue").read().acquire().await.expect("a lock"),
            client.semaphore("supplier").acquire().await.expect("a permit"),
            client.bare_semaphore("seats").acquire().await.expect("a permit"),
        );
        (client, guards)
    });
    held_by_a_jvm(&server, "other", "60000");
    let inspected =
        |name: &str| objects(&leasehold(&server).args(["inspect", "--json", name]).finish().stdout).remove(0);
    until("it says what it holds", || !inspected("seats")["announced_holders"].is_null());
    let reader = inspected("catalogue")["holders"][0]["process"].clone();
    let process = format!("{}@{}", reader["pid"], reader["host"].as_str().expect("a host"));
    let free = |process: &str| leasehold(&server).args(["unlock", "--yes", "--process", process]).finish();
    let done = free(&process);
    assert_eq!(done.code(), 0, "{done:?}");
    assert!(done.line().contains("bare semaphore \"seats\""), "{done:?}");
    for name in ["plain", "fair", "simple", "catalogue", "supplier"] {
        assert!(done.stdout.contains(&format!("{name}: freed; ")), "{name}: {done:?}");
        assert!(name == "supplier" || !exists(&server, name), "{name}");
    }
    assert_eq!(server.command(&["ZCARD", "{supplier}:timeout"]).as_int(), Some(0));
    assert!(exists(&server, "other"));
    assert!(free(client.id().as_str()).stdout.contains("holds no lock"));
    assert!(free(JVM).stdout.starts_with("other: freed; "));
    drop((guards, client));
}

#[test]
fn process_that_adopted_a_lock_loses_it_and_the_first_process_does_not() {
    let server = Server::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (web, worker, guard) = runtime.block_on(async {
        let web = Client::builder().announce("web").connect(&server.url()).await.expect("a server");
        let worker = Client::builder().announce("worker").connect(&server.url()).await.expect("a server");
        let guard = web.lock("order").acquire().await.expect("a lock");
        let ticket = guard.into_ticket(Duration::from_secs(20)).await.expect("a ticket");
        let guard = worker.adopt(ticket).await.expect("the hold");
        (web, worker, guard)
    });
    let lists = || runtime.block_on(web.locks_of(worker.id())).expect("an answer");
    until("the adopter lists the hold", || !lists().is_empty());
    let free = |process: &str| leasehold(&server).args(["unlock", "--yes", "--process", process]).finish();
    let done = free(web.id().as_str());
    assert!(done.stdout.contains("holds no lock"), "{done:?}");
    assert!(exists(&server, "order"));
    let done = free(worker.id().as_str());
    assert!(done.stdout.starts_with("order: freed; "), "{done:?}");
    drop(guard);
}

#[test]
fn process_that_was_killed_is_named_by_its_number_and_host() {
    let name = name();
    let holder = held(&[&name]);
    until_announced(&SERVER, &name);
    let seen = leasehold(&SERVER).args(["inspect", "--json", &name]).finish();
    let host = objects(&seen.stdout)[0]["holders"][0]["process"]["host"].as_str().expect("a host").to_owned();
    let process = format!("{}@{host}", holder.pid());
    holder.signal(Signal::KILL);
    let done = unlock(&["--process", &process, "--yes"]).finish();
    assert!(done.code() == 0 && done.stdout.starts_with(&format!("{name}: freed; ")), "{done:?}");
    assert!(!exists(&SERVER, &name));
}

#[test]
fn period_is_open_again_if_its_process_died_and_stays_closed_if_its_process_ended_it() {
    let (begun, done) = (name(), name());
    let process_of = |lock: &str| {
        let seen = leasehold(&SERVER).args(["inspect", "--json", lock]).finish();
        let process = objects(&seen.stdout)[0]["holders"][0]["process"].clone();
        format!("{}@{}", process["pid"], process["host"].as_str().expect("a host"))
    };
    let again = |name: &str| run_script(&SERVER, &[name, "--once", "4711", "--try"], "echo ran").finish();
    let free = |process: &str| unlock(&["--process", process, "--yes"]).finish();

    let holder = held(&[&begun, "--once", "4711"]);
    let lock = format!("{begun}@4711");
    until_announced(&SERVER, &lock);
    let process = process_of(&lock);
    holder.signal(Signal::KILL);
    again(&begun).fails_with(75, &["is busy"]);
    let freed = free(&process);
    assert!(freed.code() == 0 && freed.stdout.starts_with(&format!("{lock}: freed; ")), "{freed:?}");
    assert_eq!(again(&begun).stdout, "ran\n");

    assert_eq!(again(&done).stdout, "ran\n");
    let lock = format!("{done}@4711");
    let freed = free(&process_of(&lock));
    assert!(freed.code() == 0 && freed.stdout.contains("holds no lock") && freed.line().contains(&lock), "{freed:?}");
    again(&done).fails_with(75, &["has already run"]);
    assert_eq!(unlock(&[&lock, "--yes"]).finish().code(), 0);
    assert_eq!(again(&done).stdout, "ran\n");
}

#[test]
fn host_loses_everything_that_its_processes_hold() {
    let server = Server::start();
    let announced = |host: &str, name: &str| {
        let client = format!("6f0c0000-0000-4000-8000-00000000000{}", name.len());
        server.command(&["HSET", name, &format!("{client}:1"), "1"]);
        server.command(&["PEXPIRE", name, "60000"]);
        let record = format!("leasehold:1:client:{client}");
        server.command(&[
            "HSET",
            &record,
            "host",
            host,
            "pid",
            "4711",
            "application",
            "orders",
            "since",
            "1",
            "up",
            "1",
        ]);
    };
    for (host, name) in [("web-3", "a"), ("web-3", "bb"), ("web-31", "ccc")] {
        announced(host, name);
    }
    let done = leasehold(&server).args(["unlock", "--process", "@web-3", "--yes"]).finish();
    assert_eq!((done.code(), done.stdout.matches(": freed; ").count()), (0, 2), "{done:?}");
    assert_eq!(["a", "bb", "ccc"].map(|name| exists(&server, name)), [false, false, true]);
    let done = leasehold(&server).args(["unlock", "--process", "@web-9", "--yes"]).finish();
    done.fails_with(70, &["no process on host \"web-9\" has a record"]);
}

#[test]
fn process_that_is_unknown_or_no_process_is_one_line() {
    unlock(&["--process", "1@nowhere", "--yes"])
        .finish()
        .fails_with(70, &["process 1 on host \"nowhere\" has no record"]);
    for process in ["x@nowhere", "nowhere", "4711", ""] {
        unlock(&["--process", process, "--yes"]).finish().fails_with(64, &["4711@web-3"]);
    }
    unlock(&["--yes"]).finish().fails_with(64, &["NAME"]);
    unlock(&["x", "--process", JVM]).finish().fails_with(64, &["--process"]);
}

#[test]
fn hash_of_an_application_is_left_alone() {
    let name = name();
    SERVER.command(&["HSET", &name, "quantity", "3", "price", "5"]);
    let before = SERVER.command(&["HGETALL", &name]);
    for words in [&["--yes"][..], &["--yes", "--holder", "quantity"]] {
        unlock(&[&[name.as_str()], words].concat()).finish().fails_with(73, &["in use by something else: hash"]);
        assert_eq!(SERVER.command(&["HGETALL", &name]), before);
    }
}

#[test]
fn text_of_an_application_is_left_alone() {
    let (endless, long) = (name(), name());
    SERVER.command(&["SET", &endless, "data"]);
    SERVER.command(&["SET", &long, &"x".repeat(257), "PX", "60000"]);
    for name in [endless, long] {
        unlock(&[&name, "--yes"]).finish().fails_with(73, &["in use by something else"]);
        assert!(exists(&SERVER, &name));
    }
}

#[test]
fn freed_hold_is_an_object_with_json() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    let done = unlock(&[&name, "--yes", "--json"]).finish();
    let told: serde_json::Value = serde_json::from_str(&done.stdout).expect("an object");
    assert_eq!(told["freed"]["id"], JVM);
}

#[test]
fn all_readers_of_an_unlocked_lock_are_stopped_and_a_writer_runs() {
    let name = name();
    let readers = [held(&[&name, "--read", "--lease", "2s"]), held(&[&name, "--read", "--lease", "2s"])];
    let done = unlock(&[&name, "--yes"]).finish();
    assert_eq!((done.code(), done.stdout.matches("freed").count()), (0, 2), "{done:?}");
    for reader in readers {
        reader.finish().fails_with(76, &["force-released", "was stopped"]);
    }
    assert_eq!(run_script(&SERVER, &[&name, "--write", "--try"], "exit 4").finish().code(), 4);
}

#[test]
fn reader_that_is_unlocked_leaves_the_other_reader_alone() {
    let name = name();
    let readers = [held(&[&name, "--read", "--lease", "2s"]), held(&[&name, "--read", "--lease", "2s"])];
    let fields = texts(&SERVER.command(&["HKEYS", &name]));
    let holder = fields.iter().find(|field| field.contains(':')).expect("a reader");
    assert_eq!(unlock(&[&name, "--yes", "--holder", holder]).finish().code(), 0);
    let left = texts(&SERVER.command(&["HKEYS", &name]));
    assert_eq!(left.iter().filter(|field| field.contains(':')).count(), 1, "{left:?}");
    let [one, other] = readers;
    let mut both = [one, other];
    until("one is stopped", || both.iter_mut().any(|reader| !reader.is_running()));
    assert_eq!(both.iter_mut().filter_map(|reader| reader.is_running().then_some(())).count(), 1);
}

#[test]
fn lock_that_stays_busy_after_its_job_is_freed() {
    let name = name();
    let job = ["--try", "--at-least", "1h"];
    assert_eq!(run_script(&SERVER, &[&[&*name], &job[..]].concat(), "exit 0").finish().code(), 0);
    run_script(&SERVER, &[&[&*name], &job[..]].concat(), "exit 3").finish().fails_with(75, &["keeps it busy"]);
    assert_eq!(unlock(&[&name, "--yes"]).finish().code(), 0);
    assert_eq!(run_script(&SERVER, &[&[&*name], &job[..]].concat(), "exit 3").finish().code(), 3);
}

#[test]
fn holder_that_ends_while_it_asked_keeps_no_other_from_being_freed() {
    let other = "6f0c0000-0000-4000-8000-000000000000:2";
    for gone in [JVM, other] {
        let name = name();
        held_by_a_jvm(&SERVER, &name, "60000");
        SERVER.command(&["HSET", &name, other, "1"]);
        let mut running = at_a_terminal(&name).start();
        running.shows("[y/N]");
        SERVER.command(&["HDEL", &name, gone]);
        running.write("y\n");
        let done = running.finish();
        assert!(done.code() == 73 && done.stdout.contains(&format!("{gone} no longer holds")), "{done:?}");
        assert!(!exists(&SERVER, &name), "{done:?}");
    }
}
