//! How long `run` waits for a server and for a lock, and what it says of it.

use crate::support::{SERVER, Start as _, bare, held_by_a_jvm, leasehold, name, objects, run};
use leasehold_test_support::{After, Proxy, Server, Way, until};
use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

#[test]
fn silent_server_holds_a_try_and_a_wait_up_for_their_time() {
    let server = Server::start();
    server.stop();
    let place = format!("127.0.0.1:{} cannot be reached", server.port());
    for (options, said, least) in [
        (&["--try"][..], "waited for 3s (--try)", Duration::from_secs(3)),
        (&["--wait", "2s"], "waited for 2s (--wait)", Duration::from_secs(2)),
        (&["--wait", "10ms"], "waited for 1s (--wait)", Duration::from_secs(1)),
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
fn full_server_refuses_a_try_and_delays_a_wait_until_it_has_memory() {
    let server = Server::start();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    for options in [&["--try"][..], &["--wait", "300ms"], &["--try", "--fair"], &["--try", "--permits", "2"]] {
        let done = run(&server, &[options, &["x", "--", "true"]].concat()).finish();
        done.fails_with(69, &["the server is out of memory: free memory or raise maxmemory"]);
    }
    let waits = run(&server, &["--verbose", "x", "--", "echo", "ran"]).start();
    until("it says why it waits", || waits.stderr().contains("waiting for the lock \"x\"; "));
    assert!(waits.stderr().contains("the server is out of memory"), "{}", waits.stderr());
    server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    let done = waits.finish();
    assert_eq!((done.code(), done.stdout.as_str()), (0, "ran\n"), "{done:?}");
}

#[test]
fn silent_server_is_told_with_the_time_that_it_was_given() {
    let server = Server::start();
    server.stop();
    // An attempt may end by itself, or with the time for all of them.
    for settings in ["connect_deadline=1s", "connect_deadline=1s&command_timeout=200ms"] {
        let url = format!("{}?{settings}", server.url());
        let done = leasehold(&server).env("LEASEHOLD_URL", &url).arg("ls").finish();
        done.fails_with(69, &["retried for 1s (connect_deadline)", "?connect_deadline=30s"]);
        // A limit of the URL that is shorter than that of the command stays.
        let begun = Instant::now();
        let done = run(&server, &["--try", "x", "--", "true"]).env("LEASEHOLD_URL", &url).finish();
        done.fails_with(69, &["retried for 1s (connect_deadline)"]);
        assert!(begun.elapsed() < Duration::from_secs(3));
    }
    server.resume();
}

/// A server that answers every command with an error, as a Redis that has no room for one more client.
fn always_says(reply: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let mut bytes = [0; 4096];
                while matches!(stream.read(&mut bytes), Ok(1..)) && stream.write_all(reply.as_bytes()).is_ok() {}
            });
        }
    });
    url
}

#[test]
fn reason_of_a_server_that_is_not_ready_is_told_by_a_try_and_a_wait() {
    let url = always_says("-LOADING Redis is loading the dataset in memory\r\n");
    for (options, said) in [(&["--try"][..], "3s (--try)"), (&["--wait", "1s"], "1s (--wait)")] {
        let done = bare().env("LEASEHOLD_URL", &url).arg("run").args(options).args(["x", "--", "true"]).finish();
        done.fails_with(69, &["loading the dataset", said]);
    }
}

#[test]
fn server_that_refuses_connections_is_waited_for() {
    let server = Server::start();
    server.kill();
    for (options, settings) in [(&[][..], ""), (&["--wait", "1m"], ""), (&["--permits", "2"], "?connect_deadline=1s")] {
        let url = format!("{}{settings}", server.url());
        let mut command = run(&server, &[options, &["x", "--", "echo", "ran"]].concat());
        let mut running = command.env("LEASEHOLD_URL", url).start();
        // Longer than an attempt, and than several of them.
        std::thread::sleep(Duration::from_secs(2));
        assert!(running.is_running(), "{options:?} {:?}", running.stderr());
        server.restart();
        let done = running.finish();
        assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""), "{options:?}");
        server.kill();
    }
}

#[test]
fn wait_for_a_server_that_does_not_come_ends_with_its_time_and_the_reason() {
    let server = Server::start();
    server.kill();
    let begun = Instant::now();
    let done = run(&server, &["--wait", "2s", "x", "--", "true"]).finish();
    done.fails_with(69, &["nothing listens there", "waited for 2s (--wait)"]);
    assert!(begun.elapsed() >= Duration::from_millis(1_900), "{:?}", begun.elapsed());
}

#[test]
fn failure_that_time_does_not_mend_ends_a_wait_at_once() {
    let server = Server::builder().password("secret").start();
    let begun = Instant::now();
    run(&server, &["--wait", "1h", "x", "--", "true"])
        .env("LEASEHOLD_URL", format!("redis://:wrong@127.0.0.1:{}", server.port()))
        .finish()
        .fails_with(77, &["password"]);
    assert!(begun.elapsed() < Duration::from_secs(30));
}

/// A server that is away for longer than the library waits for one by its own settings.
#[test]
fn waiting_command_outlasts_an_outage_of_the_server() {
    let server = Server::start();
    held_by_a_jvm(&server, "x", "3600000");
    let url = format!("{}?unreachable_after=200ms&command_timeout=200ms", server.url());
    for options in [&[][..], &["--wait", "5m"], &["--fair"]] {
        let mut running =
            run(&server, &[options, &["x", "--", "echo", "ran"]].concat()).env("LEASEHOLD_URL", &url).start();
        let waits = || !server.command(&["PUBSUB", "CHANNELS", "*{x}*"]).elements().is_empty();
        until("it waits", waits);
        server.stop();
        std::thread::sleep(Duration::from_secs(2));
        assert!(running.is_running(), "{options:?} {:?}", running.stderr());
        server.resume();
        until("it waits again", waits);
        crate::support::released_by_the_jvm(&server, "x");
        let done = running.finish();
        assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""), "{options:?}");
        held_by_a_jvm(&server, "x", "3600000");
    }
}

/// The answer to the acquire is lost, so that nobody knows whether it was granted.
#[test]
fn acquire_without_an_answer_is_repeated_by_a_wait() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let trap = proxy.swallow_reply_to("redisson_lock__channel:{x}", After::Hang);
    let url = format!("{}?unreachable_after=200ms&command_timeout=200ms", proxy.url());
    let running = run(&server, &["x", "--", "echo", "ran"]).env("LEASEHOLD_URL", url).start();
    trap.wait();
    proxy.freeze(Way::Both);
    std::thread::sleep(Duration::from_secs(2));
    proxy.thaw(Way::Both);
    let done = running.finish();
    assert_eq!((done.code(), done.stdout.as_str(), done.stderr.as_str()), (0, "ran\n", ""));
}

#[test]
fn holders_around_are_read_beside_words_of_any_encoding() {
    use std::os::unix::ffi::OsStrExt as _;
    let name = name();
    let script = format!(
        "LEASEHOLD_HOLDERS=\"$(printf 'caf\\351') $LEASEHOLD_HOLDERS\" exec {} run {name} --wait 1s -- true",
        env!("CARGO_BIN_EXE_leasehold")
    );
    let done = run(&SERVER, &[&name, "--", "sh", "-c", &script]).finish();
    assert!(done.code() == 75 && done.stderr.contains("deadlock: "), "{done:?}");
    // Such a word alone names nobody.
    let latin = std::ffi::OsStr::from_bytes(b"caf\xe9");
    let done = run(&SERVER, &[&self::name(), "--", "true"]).env("LEASEHOLD_HOLDERS", latin).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""));
}

#[test]
fn long_wait_says_once_what_it_waits_for() {
    let name = name();
    let holder = crate::support::held(&SERVER, &[&name]);
    crate::support::until_announced(&SERVER, &name);
    let waiting = run(&SERVER, &[&name, "--", "true"]).start();
    let quiet = run(&SERVER, &[&name, "--quiet", "--", "true"]).start();
    let json = run(&SERVER, &[&name, "--json", "--wait", "12s", "--", "true"]).start();
    let told = json.finish();
    assert_eq!(objects(&told.stderr)[0]["warning"], "waiting", "{told:?}");
    let pid = holder.pid();
    drop(holder);
    // Its command has gone with it, and its lease ends.
    let done = waiting.finish();
    done.fails_with(0, &[&format!("waiting for the lock \"{name}\", held by "), &format!("process {pid}")]);
    assert_eq!(quiet.finish().stderr, "");
}

#[test]
fn quiet_command_says_nothing_of_a_busy_lock_and_keeps_its_own_words() {
    let name = name();
    held_by_a_jvm(&SERVER, &name, "60000");
    for option in ["-q", "--quiet"] {
        for (wait, code) in [(&["--try"][..], 75), (&["--wait", "100ms", "-E", "0"], 0)] {
            let done = run(&SERVER, &[&[&*name, option], wait, &["--", "true"]].concat()).finish();
            assert_eq!((done.code(), done.stderr.as_str()), (code, ""));
        }
        let done = run(&SERVER, &[&self::name(), option, "--", "sh", "-c", "echo own >&2; exit 3"]).finish();
        assert_eq!((done.code(), done.stderr.as_str()), (3, "own\n"));
        run(&SERVER, &[&name, option, "--lease", "1ms", "--", "true"]).finish().fails_with(64, &["lease"]);
    }
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
    first.finish().fails_with(75, &["was busy for 3s"]);
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
        done.fails_with(69, &["the semaphore \"x\"", &format!("no reply within {said}")]);
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
    let warning = format!("deadlock: the enclosing leasehold run already holds the lock \"{name}\"");
    for (outer, inner) in [
        (&[&*name][..], &[&*name, "--wait", "1s"][..]),
        (&[&name, "--fair"], &[&name, "--fair", "--wait", "1s"]),
        (&[&name, "--read"], &[&name, "--write", "--wait", "1s"]),
    ] {
        let done = nested(outer, inner).finish();
        let lines: Vec<_> = done.stderr.lines().collect();
        assert!(done.code() == 75 && lines.len() == 2, "{done:?}");
        assert!(lines[0].contains(&warning) && lines[1].contains("was busy"), "{done:?}");
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
    assert!(told[0]["message"].as_str().is_some_and(|text| text.contains("an outer leasehold run")), "{done:?}");
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
    assert!(lines[0].contains("deadlock: the enclosing leasehold run"), "{done:?}");
    // One of the permits is that of a stranger, and comes back some day.
    let stranger = crate::support::held(&SERVER, &[&name, "--permits", "2"]);
    let done = self::nested(&[&name, "--permits", "2"], &[&[name.as_str()][..], &nested].concat()).finish();
    done.fails_with(75, &["was busy"]);
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
        nested(&[&name], inner).finish().fails_with(75, &["was busy"]);
    }
    let done = nested(&[&name, "--read"], &[&name, "--read"]).finish();
    assert_eq!((done.code(), done.stderr.as_str()), (0, ""));
}
