//! How long `run` waits for a server and for a lock, and what it says of it.

use crate::support::{SERVER, Start as _, held_by_a_jvm, leasehold, name, objects, run};
use leasehold_test_support::{Proxy, Server, Way};
use std::time::{Duration, Instant};

#[test]
fn silent_server_holds_a_try_and_a_wait_up_for_their_time() {
    let server = Server::start();
    server.stop();
    let place = format!("redis://127.0.0.1:{} did not answer within", server.port());
    for (options, said, least) in [
        (&["--try"][..], "3s", Duration::from_secs(3)),
        (&["--wait", "2s"], "2s", Duration::from_secs(2)),
        (&["--wait", "10ms"], "1s", Duration::from_secs(1)),
    ] {
        let begun = Instant::now();
        let done = run(&server, &[options, &["x", "--", "true"]].concat()).finish();
        let took = begun.elapsed();
        done.fails_with(69, &[&place, said]);
        assert!(took >= least, "{options:?} took {took:?}");
    }
    server.resume();
}

#[test]
fn silent_server_is_told_with_the_time_that_it_was_given() {
    let server = Server::start();
    server.stop();
    // An attempt may end by itself, or with the time for all of them.
    for settings in ["connect_deadline=1s", "connect_deadline=1s&command_timeout=200ms"] {
        let url = format!("{}?{settings}", server.url());
        for words in [&["run", "x", "--", "true"][..], &["ls"]] {
            let done = leasehold(&server).env("LEASEHOLD_URL", &url).args(words).finish();
            done.fails_with(69, &["tried for 1s, as connect_deadline says", "?connect_deadline=30s", "run --wait"]);
        }
    }
    server.resume();
}

#[test]
fn time_to_connect_is_a_part_of_the_wait() {
    let server = Server::start();
    held_by_a_jvm(&server, "x", "60000");
    server.stop();
    let first = run(&server, &["x", "--wait", "3s", "--", "true"]).start();
    std::thread::sleep(Duration::from_secs(2));
    server.resume();
    // It has one second left, and this one has two.
    let mut second = run(&server, &["x", "--wait", "2s", "--", "true"]).start();
    first.finish().fails_with(75, &["stayed busy for the whole wait of 3s"]);
    assert!(second.is_running(), "the time to connect was added to the wait");
}

#[test]
fn setting_up_a_semaphore_is_a_part_of_the_wait() {
    let server = Server::start();
    for (options, said, least) in [
        (&["--wait", "2s"][..], "2s", Duration::from_secs(2)),
        (&["--wait", "10ms"], "1s", Duration::from_secs(1)),
        (&["--try"], "3s", Duration::from_secs(3)),
    ] {
        let proxy = Proxy::to(&server);
        // From the first word about the semaphore on, the server does not answer.
        let trap = proxy.hold_request("redisson_sc:{x}");
        let begun = Instant::now();
        let words = [options, &["x", "--permits", "2", "--", "true"]].concat();
        let running = run(&server, &words).env("LEASEHOLD_URL", proxy.url()).start();
        trap.wait();
        proxy.freeze(Way::Both);
        let done = running.finish();
        let took = begun.elapsed();
        done.fails_with(69, &["the permits of \"x\" are not known", &format!("did not answer within {said}")]);
        assert!(took >= least, "{options:?} took {took:?}");
    }
}

#[test]
fn distant_server_sets_a_semaphore_up_within_a_short_wait() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let words = ["x", "--permits", "1", "--wait", "1s", "--", "echo", "ran"];
    // Connecting takes nine round trips, and so nearly all of the time: for the most distant server to which this machine connects in time.
    let most_distant = [50, 45, 40, 35, 30, 25, 20, 15, 10, 5].into_iter().find_map(|millis| {
        proxy.delay(Way::Both, Duration::from_millis(millis));
        let done = run(&server, &words).env("LEASEHOLD_URL", proxy.url()).finish();
        (!done.stderr.contains("not connected")).then_some(done)
    });
    let done = most_distant.expect("a server that is reached within a second");
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"), "{done:?}");
}

/// The command, run by itself.
fn nested(outer: &[&str], inner: &[&str]) -> std::process::Command {
    let mut command = run(&SERVER, outer);
    command.args(["--", env!("CARGO_BIN_EXE_leasehold"), "run"]).args(inner).args(["--", "true"]);
    command
}

#[test]
fn command_that_waits_for_its_own_lock_is_warned() {
    let name = name();
    let warning = format!("waits for itself: the command that started it runs under the lock \"{name}\" and holds it");
    for (outer, inner) in [
        (&[&*name][..], &[&*name, "--wait", "1s"][..]),
        (&[&name, "--fair"], &[&name, "--fair", "--wait", "1s"]),
        (&[&name, "--read"], &[&name, "--write", "--wait", "1s"]),
    ] {
        let done = nested(outer, inner).finish();
        let lines: Vec<_> = done.stderr.lines().collect();
        assert!(done.code() == 75 && lines.len() == 2, "{done:?}");
        assert!(lines[0].contains(&warning) && lines[1].contains("stayed busy"), "{done:?}");
    }
    let done = nested(&[&name], &[&name, "--json", "--wait", "1s"]).finish();
    assert_eq!(objects(&done.stderr)[0]["warning"], "waits_for_itself", "{done:?}");
}

#[test]
fn lock_of_an_outer_command_is_warned_of_however_deep_it_is() {
    // Names may have any characters that the system hands on in an argument.
    let outer = format!("{} =;&%:\n\u{1f512}\"'", name());
    let (middle, inner) = (name(), name());
    let leasehold = env!("CARGO_BIN_EXE_leasehold");
    let mut command = run(&SERVER, &[&outer]);
    for around in [&middle, &inner] {
        command.args(["--", leasehold, "run", around]);
    }
    let done = command.args(["--", leasehold, "run", &outer, "--wait", "1s", "--json", "--", "true"]).finish();
    let told = objects(&done.stderr);
    assert_eq!((done.code(), told.len()), (75, 2), "{done:?}");
    assert_eq!(
        (&told[0]["warning"], &told[0]["lock"]),
        (&"waits_for_itself".into(), &outer.as_str().into()),
        "{done:?}"
    );
    assert!(
        told[0]["message"].as_str().is_some_and(|text| text.contains("a command around it runs under")),
        "{done:?}"
    );
}

#[test]
fn permits_that_all_belong_to_outer_commands_are_warned_of() {
    let name = name();
    let mut command = run(&SERVER, &[&name, "--permits", "2"]);
    command.args(["--", env!("CARGO_BIN_EXE_leasehold"), "run", &name, "--permits", "2"]);
    let done = command.args(["--", "sh", "-c", "echo between"]).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""), "there is a second permit");
    let nested = ["--permits", "2", "--wait", "1s"];
    let mut command = run(&SERVER, &[&name, "--permits", "2"]);
    for _ in 0..2 {
        command.args(["--", env!("CARGO_BIN_EXE_leasehold"), "run", &name]).args(nested);
    }
    let done = command.args(["--", "true"]).finish();
    let lines: Vec<_> = done.stderr.lines().collect();
    assert!(done.code() == 75 && lines.len() == 2, "{done:?}");
    assert!(lines[0].contains("this waits for itself: the command that started it runs under"), "{done:?}");
    // One of the permits is that of a stranger, and comes back some day.
    let stranger = crate::support::held(&SERVER, &[&name, "--permits", "2"]);
    let done = self::nested(&[&name, "--permits", "2"], &[&[name.as_str()][..], &nested].concat()).finish();
    done.fails_with(75, &["stayed busy"]);
    drop(stranger);
}

#[test]
fn command_that_waits_for_another_holder_is_not_warned() {
    let (name, other) = (name(), name());
    held_by_a_jvm(&SERVER, &other, "60000");
    // The last one is the same name on another server, which this one holds for somebody else.
    let elsewhere = Server::start();
    held_by_a_jvm(&elsewhere, &name, "60000");
    let url = elsewhere.url();
    for inner in [&[&*other, "--wait", "1s"][..], &[&name, "--wait", "1s", "--url", &url]] {
        nested(&[&name], inner).finish().fails_with(75, &["stayed busy"]);
    }
    let done = nested(&[&name, "--read"], &[&name, "--read"]).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""));
}
