//! Every kind of lock that `run` offers.

use crate::support::{
    SERVER, Start as _, exists, held_by_a_jvm, lines, name, path, released_by_the_jvm, run, run_script, texts,
    until_held,
};
use leasehold_test_support::until;
use rustix::process::Signal;
use std::process::Stdio;
use std::time::Duration;

#[test]
fn fencing_token_grows_with_every_grant() {
    let name = name();
    for fair in [&["--fenced"][..], &["--fenced", "--fair"]] {
        let mut tokens = Vec::new();
        for _ in 0..3 {
            let mut command = run(&SERVER, &[&[name.as_str()], fair].concat());
            let done = command.args(["--", "sh", "-c", "echo $LEASEHOLD_FENCING_TOKEN"]).finish();
            tokens.push(done.stdout.trim().parse::<u64>().unwrap_or_else(|_| panic!("a number in {done:?}")));
        }
        assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
    }
}

#[test]
fn two_readers_run_at_once_and_no_writer_beside_them() {
    let name = name();
    let readers =
        [(), ()].map(|()| run_script(&SERVER, &["--read", &name], "echo in; read end").stdin(Stdio::piped()).start());
    for reader in &readers {
        reader.says("in");
    }
    run(&SERVER, &["--write", &name, "--try", "--", "true"]).finish().fails_with(75, &["is busy"]);
    for mut reader in readers {
        reader.close_stdin();
        reader.finish();
    }
    assert_eq!(run(&SERVER, &["--write", &name, "--try", "--", "true"]).finish().code(), 0);
}

#[test]
fn as_many_run_at_once_as_there_are_permits() {
    let name = name();
    let options = [name.as_str(), "--permits", "2"];
    let holders = [(), ()].map(|()| run_script(&SERVER, &options, "echo in; read end").stdin(Stdio::piped()).start());
    for holder in &holders {
        holder.says("in");
    }
    let third = || run(&SERVER, &[&options[..], &["--try", "--", "true"]].concat()).finish();
    third().fails_with(75, &["is busy"]);
    for mut holder in holders {
        holder.close_stdin();
        assert_eq!(holder.finish().code(), 1, "read found the end of its input");
    }
    assert_eq!(third().code(), 0);
}

#[test]
fn another_number_of_permits_is_refused() {
    let name = name();
    assert_eq!(run(&SERVER, &[&name, "--permits", "2", "--", "true"]).finish().code(), 0);
    let done = run(&SERVER, &[&name, "--permits", "3", "--", "true"]).finish();
    done.fails_with(73, &["has 2 permits", "--permits is 3"]);
}

#[test]
fn fair_waiters_run_in_the_order_in_which_they_came() {
    let (name, order) = (name(), path(&SERVER));
    let mut holder = run_script(&SERVER, &[&name, "--fair"], "echo in; read end").stdin(Stdio::piped()).start();
    holder.says("in");
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let waiters: Vec<_> = (1..=6)
        .map(|number| {
            let script = format!("echo {number} >> '{}'", order.display());
            let running = run_script(&SERVER, &[&name, "--fair"], &script).start();
            until("it has its place", || SERVER.command(&["LLEN", &queue]).as_int() == Some(number));
            running
        })
        .collect();
    holder.close_stdin();
    holder.finish();
    for waiter in waiters {
        assert_eq!(waiter.finish().code(), 0);
    }
    assert_eq!(lines(&order), ["1", "2", "3", "4", "5", "6"]);
}

#[test]
fn lock_that_a_jvm_holds_is_waited_for() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "3600000");
    let mut running = run(&SERVER, &[&name, "--", "echo", "granted"]).start();
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let listens =
        || SERVER.command(&["PUBSUB", "NUMSUB", &channel]).elements().get(1).and_then(|n| n.as_int()) == Some(1);
    until("it waits", listens);
    assert!(running.is_running() && running.stdout().is_empty());
    released_by_the_jvm(&SERVER, &name);
    assert_eq!(running.finish().stdout, "granted\n");
}

#[test]
fn lock_that_a_dead_jvm_left_is_taken_when_its_lease_ends() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "500");
    assert_eq!(run(&SERVER, &[&name, "--", "echo", "granted"]).finish().stdout, "granted\n");
}

#[test]
fn our_lock_has_the_layout_of_a_jvm() {
    let name = name();
    let mut running = run_script(&SERVER, &[&name], "read end").stdin(Stdio::piped()).start();
    until_held(&SERVER, &name);
    assert_eq!(SERVER.command(&["TYPE", &name]).as_str(), Some("hash"));
    assert_eq!(texts(&SERVER.command(&["HVALS", &name])), ["1"]);
    running.close_stdin();
    running.finish();
    assert!(!exists(&SERVER, &name));
}

#[test]
fn name_that_something_else_has_is_a_conflict() {
    let name = name();
    SERVER.command(&["SET", &name, "data"]);
    let done = run(&SERVER, &[&name, "--", "true"]).finish();
    done.fails_with(73, &[&format!("\"{name}\""), "in use"]);
    assert_eq!(SERVER.command(&["GET", &name]).as_str(), Some("data"));
}

#[test]
fn hash_of_an_application_is_no_busy_lock() {
    let name = name();
    SERVER.command(&["HSET", &name, "quantity", "3"]);
    let tries: [&[&str]; 4] = [&["--try"], &["--try", "--fair"], &["--try", "--fenced"], &["--wait", "100ms"]];
    let waits: [&[&str]; 3] = [&[], &["--fair"], &["--wait", "1h"]];
    // A try is told of the first field. A wait looks at no more of a hash than its kind, because it may be a large one.
    let (tries, waits) = (tries.map(|options| (options, "\"quantity\"")), waits.map(|options| (options, ": hash")));
    for (options, what) in tries.into_iter().chain(waits) {
        let done = run(&SERVER, &[&[name.as_str()], options, &["--", "true"]].concat()).finish();
        done.fails_with(73, &["in use by something else", what]);
    }
    assert_eq!(texts(&SERVER.command(&["HGETALL", &name])), ["quantity", "3"]);
}

/// A short job that three machines begin within seconds: those that come late find it done.
#[test]
fn lock_that_stays_busy_lets_a_short_job_run_once() {
    for kind in [&[][..], &["--fenced"]] {
        let (name, log) = (name(), path(&SERVER));
        let script = format!("echo ran $LEASEHOLD_FENCING_TOKEN >> '{}'", log.display());
        for at in 0..3 {
            let options = [&[&*name, "--try", "--at-least", "1h"], kind].concat();
            let done = run_script(&SERVER, &options, &script).finish();
            match at {
                0 => assert_eq!((done.code(), done.stderr.as_str()), (0, "")),
                _ => done.fails_with(75, &["is busy; --at-least keeps it busy"]),
            }
        }
        assert_eq!(lines(&log).len(), 1);
        assert_eq!(lines(&log)[0].split(' ').count(), if kind.is_empty() { 1 } else { 2 });
    }
}

#[test]
fn job_that_takes_longer_than_its_least_time_frees_the_lock_at_its_end() {
    let name = name();
    let done = run_script(&SERVER, &[&name, "--at-least", "1ms"], "sleep 0.1; exit 3").finish();
    assert_eq!(done.code(), 3);
    assert!(!exists(&SERVER, &name));
}

#[test]
fn fair_waiter_that_was_killed_holds_the_next_one_up_for_a_moment_only() {
    let name = name();
    let mut holder = run_script(&SERVER, &[&name, "--fair"], "echo in; read end").stdin(Stdio::piped()).start();
    holder.says("in");
    let queue = format!("redisson_lock_queue:{{{name}}}");
    let waits = |number| {
        let running = run_script(&SERVER, &[&name, "--fair"], "echo ran").start();
        until("it has its place", || SERVER.command(&["LLEN", &queue]).as_int() == Some(number));
        running
    };
    let [killed, next] = [1, 2].map(waits);
    killed.signal(Signal::KILL);
    let killed = killed.finish();
    holder.close_stdin();
    holder.finish();
    // The lease of the killed one would be 30 s; its place is gone with its heartbeats.
    let done = next.finish_within(Duration::from_secs(20));
    assert_eq!((done.code(), done.stdout.as_str(), killed.stdout.as_str()), (0, "ran\n", ""));
}

#[test]
fn writer_that_waits_runs_when_the_last_reader_has_ended() {
    let (name, log) = (name(), path(&SERVER));
    let mut readers = [(); 2].map(|()| {
        let script = format!("echo in; read end; echo reader >> '{}'", log.display());
        let running = run_script(&SERVER, &[&name, "--read", "--lease", "1h"], &script).stdin(Stdio::piped()).start();
        running.says("in");
        running
    });
    // Nothing but the notice of the last release wakes it.
    let mut writer = run_script(&SERVER, &[&name, "--write"], &format!("echo writer >> '{}'", log.display()));
    let writer = writer.env("LEASEHOLD_URL", format!("{}?recheck=1h", SERVER.url())).start();
    let channel = format!("redisson_rwlock:{{{name}}}");
    until("it listens", || texts(&SERVER.command(&["PUBSUB", "CHANNELS", "*"])).contains(&channel));
    readers.iter_mut().for_each(|reader| reader.close_stdin());
    for reader in readers {
        assert_eq!(reader.finish().code(), 0);
    }
    assert_eq!(writer.finish().code(), 0);
    assert_eq!(lines(&log), ["reader", "reader", "writer"]);
}
