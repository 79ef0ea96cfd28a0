use std::{
    io::ErrorKind,
    os::unix::net::UnixStream,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use super::*;
use crate::{Version, WallClock, binaries, eventually};

#[test]
fn every_binary_answers_and_dies_with_its_handle() {
    let all = binaries();
    assert!(!all.is_empty(), "{:?}", Binary::any());
    for binary in all {
        let server = Server::builder().binary(&binary).start();
        assert_eq!(server.command(&["SET", "a", "1"]), Resp::Simple("OK".into()));
        assert_eq!(server.command(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "a"]), Resp::Bulk(b"1".to_vec()));
        assert_eq!(server.info("process_id"), Some(server.pid().to_string()));
        let (addr, dir) = (server.addr(), server.dir().to_owned());
        drop(server);
        assert_eq!(Connection::connect(addr).expect_err("nobody listens").kind(), ErrorKind::ConnectionRefused);
        assert!(!dir.exists(), "its files are gone");
    }
}

#[test]
fn a_panic_ends_the_server_too() {
    let mut addr = None;
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let server = Server::start();
        addr = Some(server.addr());
        panic!("a test that fails");
    }));
    assert!(unwound.is_err());
    assert!(Connection::connect(addr.expect("it had started")).is_err());
}

#[test]
fn a_stopped_server_answers_when_it_is_resumed() {
    let server = Server::start();
    let mut connection = server.connect().expect("a connection");
    connection.set_read_timeout(Duration::from_millis(100)).expect("a timeout");
    server.stop();
    let error = connection.command(&["PING"]).expect_err("it is stopped");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    server.resume();
    connection.set_read_timeout(Duration::from_secs(5)).expect("a timeout");
    assert_eq!(connection.receive().expect("the reply"), Resp::Simple("PONG".into()));
}

#[test]
fn a_restart_keeps_the_port_and_loses_the_data() {
    let server = Server::start();
    let (port, pid, url) = (server.port(), server.pid(), server.url());
    server.command(&["SET", "a", "1"]);
    server.kill();
    assert!(server.try_command(&["PING"]).is_err());
    server.restart();
    assert_eq!((server.port(), server.url()), (port, url));
    assert_ne!(server.pid(), pid);
    assert_eq!(server.command(&["GET", "a"]), Resp::Nil);
}

#[test]
fn a_restart_keeps_what_was_persisted() {
    let server = Server::builder().arg("appendonly", "yes").arg("appendfsync", "always").start();
    server.command(&["SET", "a", "1"]);
    server.restart();
    until("the data is loaded", || server.command(&["GET", "a"]) == Resp::Bulk(b"1".to_vec()));
}

#[test]
fn passwords_and_users_are_asked_for() {
    let server = Server::builder().password("secret").user("app on >word ~app:* &* +@all").start();
    assert_eq!(server.url(), format!("redis://:secret@127.0.0.1:{}", server.port()));
    assert_eq!(server.command(&["PING"]), Resp::Simple("PONG".into()));
    let mut stranger = Connection::connect(server.addr()).expect("a connection");
    let refusal = stranger.command(&["PING"]).expect("a reply");
    assert!(refusal.as_str().is_some_and(|text| text.starts_with("NOAUTH")), "{refusal:?}");
    assert!(stranger.auth(Some("app"), "wrong").is_err());
    stranger.auth(Some("app"), "word").expect("the right password");
    assert_eq!(stranger.command(&["SET", "app:a", "1"]).expect("a reply"), Resp::Simple("OK".into()));
    assert!(stranger.command(&["SET", "other", "1"]).expect("a reply").is_error());
}

#[test]
fn commands_and_clients_are_counted() {
    let server = Server::start();
    assert_eq!(server.commandstats("get"), 0);
    server.command(&["GET", "a"]);
    server.command(&["EVAL", "return redis.call('GET', 'a')", "0"]);
    assert_eq!(server.commandstats("get"), 2);
    let mut other = server.connect().expect("a connection");
    other.command(&["CLIENT", "SETNAME", "somebody"]).expect("a reply");
    let clients = server.client_list();
    assert_eq!(clients.iter().filter(|client| client["name"] == "somebody").count(), 1, "{clients:?}");
}

#[test]
fn a_unix_socket_is_there() {
    let server = Server::builder().unix_socket().start();
    let path = server.unix_socket().expect("the path of the socket");
    UnixStream::connect(path).expect("a connection by the socket");
    assert_eq!(server.url(), format!("redis+unix://{}", path.display()));
    let server = Server::builder().unix_socket().password("secret").start();
    assert!(server.url().starts_with("redis+unix://:secret@localhost/"), "{}", server.url());
}

#[test]
fn tls_is_spoken_with_a_certificate_of_the_private_authority() {
    let server = Server::builder().tls().start();
    assert_eq!(server.url(), format!("rediss://127.0.0.1:{}", server.tls_addr().expect("a TLS address").port()));
    assert!(server.ca_pem().starts_with("-----BEGIN CERTIFICATE-----"));
    assert_ne!(server.ca_pem(), Ca::new().pem());
    // A plain client gets no answer out of the TLS port.
    let mut plain = Connection::connect(server.tls_addr().expect("a TLS address")).expect("a connection");
    assert!(plain.command(&["PING"]).is_err());
    let verified = std::process::Command::new("openssl")
        .args(["verify", "-CAfile"])
        .args([server.dir().join("ca.pem"), server.dir().join("cert.pem")])
        .output();
    // The certificate is checked again by the TLS tests of the library; here only where the tool is at hand.
    if let Ok(output) = verified {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_setting_that_is_refused_is_told() {
    let error = Server::builder().arg("no-such-setting", "1").try_start().expect_err("an unknown setting");
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn versions_are_ordered() {
    let version = |major, minor, patch| Version { major, minor, patch };
    assert!(version(7, 0, 15) < version(7, 2, 0) && version(6, 2, 14) < version(7, 0, 0));
}

#[test]
fn the_clock_of_every_server_is_moved_by_hand() {
    for binary in Binary::all().expect("a server program") {
        let clock = Arc::new(WallClock::at_micros(1_800_000_000_000_007));
        let server = Server::builder().binary(&binary).clock(&clock).start();
        let time = server.command(&["TIME"]);
        assert_eq!(
            time,
            Resp::Array(vec![Resp::Bulk(b"1800000000".to_vec()), Resp::Bulk(b"7".to_vec())]),
            "{server:?}"
        );
        server.command(&["SET", "a", "1", "PX", "60000"]);
        for (at, left) in [(59_999, 1), (60_000, 0), (60_001, -2)] {
            clock.set_micros((1_800_000_000_000 + at) * 1_000);
            assert_eq!(server.command(&["PTTL", "a"]), Resp::Int(left), "{server:?} after {at} ms");
        }
    }
}

#[test]
fn a_running_clock_is_stepped_under_a_server() {
    let binary = Binary::with_sharded_notices().expect("a server program");
    let clock = Arc::new(WallClock::running());
    let server = Server::builder().binary(&binary).clock(&clock).start();
    let ahead = || {
        let time = server.command(&["TIME"]);
        let part = |at: usize| time.elements()[at].as_str().and_then(|text| text.parse::<i64>().ok());
        let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time after 1970");
        part(0).expect("seconds") - i64::try_from(here.as_secs()).expect("a time of this age")
    };
    server.command(&["SET", "a", "1", "PX", "60000"]);
    assert!((-1..=1).contains(&ahead()), "it runs with the machine");
    clock.step_micros(-20_000_000);
    eventually("the server is behind", || (-21..=-19).contains(&ahead()).then_some(()));
    assert!(server.command(&["PTTL", "a"]).as_int() > Some(75_000), "what it holds lives longer");
    clock.step_micros(61_000_000);
    eventually("the server is ahead", || (60..=62).contains(&ahead()).then_some(()));
    assert_eq!(server.command(&["GET", "a"]), Resp::Nil, "what it held has expired");
}
