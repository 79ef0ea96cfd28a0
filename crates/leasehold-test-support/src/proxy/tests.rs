use std::{io::ErrorKind, time::Instant};

use super::*;
use crate::until;

/// A server, a proxy to it, and a connection through the proxy.
fn world() -> (Server, Proxy, Connection) {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let client = Connection::connect(proxy.addr()).expect("a connection through the proxy");
    (server, proxy, client)
}

fn call(client: &mut Connection, command: &str) -> Resp {
    client.command(&words(command)).expect("a reply")
}

fn words(command: &str) -> Vec<&str> {
    command.split(' ').collect()
}

fn bulk(text: &str) -> Resp {
    Resp::Bulk(text.into())
}

fn pong() -> Resp {
    Resp::Simple("PONG".into())
}

/// Nothing arrives for a while. A defect shows within that time; a slow machine makes the test pass, not fail.
fn silent(client: &mut Connection) {
    client.set_read_timeout(Duration::from_millis(60)).expect("a timeout");
    let error = client.receive().expect_err("nothing arrives");
    assert!(matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{error}");
    client.set_read_timeout(Duration::from_secs(5)).expect("a timeout");
}

/// The other side has closed, with or without a reset.
fn closed(client: &mut Connection) {
    let error = client.receive().expect_err("the connection is closed");
    assert!(matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset), "{error}");
}

#[test]
fn it_passes_and_records() {
    let (server, proxy, mut client) = world();
    assert_eq!(call(&mut client, "SET a 1"), Resp::Simple("OK".into()));
    let large = "x".repeat(300_000);
    assert_eq!(client.command(&["ECHO", &large]).expect("a reply"), bulk(&large));
    client.send_raw(b"PING\r\n").expect("sent");
    assert_eq!(client.receive().expect("a reply"), pong());
    assert_eq!(server.command(&["GET", "a"]), bulk("1"));
    let requests = proxy.requests();
    let names: Vec<_> = requests.iter().map(Request::command).collect();
    assert_eq!(names, ["SET", "ECHO", "PING"]);
    assert_eq!(requests[0].argv, [b"SET".to_vec(), b"a".to_vec(), b"1".to_vec()]);
    assert!(requests[0].at <= requests[1].at && requests[0].number < requests[1].number);
    assert_eq!(requests[1].reply, Some(bulk(&large)));
    let mut second = Connection::connect(proxy.addr()).expect("a connection");
    call(&mut second, "GET a");
    assert_ne!(proxy.wait_for_request("GET").connection, requests[0].connection);
    assert_eq!((proxy.connections(), proxy.accepted()), (2, 2));
    proxy.clear_requests();
    assert!(proxy.requests().is_empty());
}

#[test]
fn a_client_that_closes_is_closed_at_the_server() {
    let (server, proxy, mut client) = world();
    call(&mut client, "CLIENT SETNAME through");
    drop(client);
    until("the server has seen the end", || server.client_list().iter().all(|client| client["name"] != "through"));
    until("the proxy has none", || proxy.connections() == 0);
}

#[test]
fn a_server_that_dies_closes_its_clients() {
    let (server, proxy, mut client) = world();
    call(&mut client, "PING");
    server.kill();
    closed(&mut client);
    let mut late = Connection::connect(proxy.addr()).expect("the proxy accepts");
    closed(&mut late);
}

#[test]
fn delay_keeps_the_order_and_costs_no_bandwidth() {
    let (_server, proxy, mut client) = world();
    let delay = Duration::from_millis(500);
    for way in [Way::ToServer, Way::ToClient] {
        proxy.delay(way, delay);
        let start = Instant::now();
        for n in 0..20 {
            client.send(&["ECHO", &n.to_string()]).expect("sent");
        }
        for n in 0..20 {
            assert_eq!(client.receive().expect("a reply"), bulk(&n.to_string()));
        }
        let took = start.elapsed();
        // The sequential time would be this long.
        assert!((delay..delay * 20).contains(&took), "{way:?}: {took:?} for twenty that were sent at once");
        proxy.delay(Way::Both, Duration::ZERO);
    }
    let start = Instant::now();
    for _ in 0..20 {
        call(&mut client, "PING");
    }
    assert!(start.elapsed() < delay * 20, "the delay has ended");
}

#[test]
fn frozen_requests_do_not_reach_the_server_until_thawed() {
    let (server, proxy, mut client) = world();
    call(&mut client, "PING");
    proxy.freeze(Way::ToServer);
    client.send(&["SET", "a", "1"]).expect("sent");
    proxy.wait_for_request("SET");
    silent(&mut client);
    assert_eq!(server.commandstats("set"), 0);
    proxy.thaw(Way::ToServer);
    assert_eq!(client.receive().expect("the reply"), Resp::Simple("OK".into()));
}

#[test]
fn frozen_replies_are_not_lost_and_nor_is_the_end() {
    let (server, proxy, mut client) = world();
    call(&mut client, "PING");
    proxy.freeze(Way::ToClient);
    client.send(&["SET", "a", "1"]).expect("sent");
    // The server counts a command before it sends the reply, so that its own word would be too early.
    until("the reply is at the proxy", || proxy.requests_with("SET").iter().any(|request| request.reply.is_some()));
    server.kill();
    silent(&mut client);
    proxy.thaw(Way::Both);
    assert_eq!(client.receive().expect("the reply"), Resp::Simple("OK".into()));
    closed(&mut client);
}

#[test]
fn a_cut_closes_all_and_lets_new_ones_in() {
    let (server, proxy, mut client) = world();
    call(&mut client, "PING");
    proxy.cut();
    closed(&mut client);
    assert_eq!(proxy.connections(), 0);
    until("the server has seen it", || server.client_list().len() == 1);
    let mut second = Connection::connect(proxy.addr()).expect("a connection");
    assert_eq!(call(&mut second, "PING"), pong());
}

#[test]
fn refused_connections_are_refused_and_old_ones_stay() {
    let (_server, proxy, mut client) = world();
    call(&mut client, "PING");
    proxy.refuse(true);
    let error = Connection::connect(proxy.addr()).expect_err("nobody listens");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(call(&mut client, "PING"), pong());
    proxy.refuse(false);
    let mut second = Connection::connect(proxy.addr()).expect("a connection");
    assert_eq!(call(&mut second, "PING"), pong());
}

#[test]
fn a_swallowed_reply_leaves_its_effect() {
    for after in [After::Hang, After::Close] {
        let (server, proxy, mut client) = world();
        let trap = proxy.swallow_reply_to("needle", after);
        client.send(&["ECHO", "before"]).expect("sent");
        client.send(&["INCR", "needle"]).expect("sent");
        client.send(&["ECHO", "behind"]).expect("sent");
        assert_eq!(client.receive().expect("what came before"), bulk("before"));
        trap.wait();
        match after {
            After::Close => closed(&mut client),
            After::Hang => silent(&mut client),
        }
        assert_eq!(server.command(&["GET", "needle"]), bulk("1"));
        assert_eq!(proxy.requests_with("needle")[0].reply, Some(Resp::Int(1)));
        // It works once.
        let mut second = Connection::connect(proxy.addr()).expect("a connection");
        assert_eq!(call(&mut second, "INCR needle"), Resp::Int(2));
    }
}

#[test]
fn a_held_request_arrives_late_on_its_old_connection() {
    let (server, proxy, mut client) = world();
    call(&mut client, "CLIENT SETNAME zombie");
    let trap = proxy.hold_request("late");
    client.send(&["APPEND", "log", "late"]).expect("sent");
    trap.wait();
    drop(client);
    let mut second = Connection::connect(proxy.addr()).expect("a connection");
    call(&mut second, "APPEND log early,");
    assert!(server.client_list().iter().any(|client| client["name"] == "zombie"), "the old connection is open");
    until("for the client it is closed", || proxy.connections() == 1);
    proxy.clear_requests();
    assert_eq!(proxy.deliver_held(), [Some(Resp::Int(10))]);
    assert_eq!(server.command(&["GET", "log"]), bulk("early,late"));
    until("the old connection ends", || server.client_list().iter().all(|client| client["name"] != "zombie"));
    assert_eq!(proxy.deliver_held(), []);
}

#[test]
fn held_request_outlives_a_cut_and_is_void_after_a_kill() {
    let (server, proxy, mut client) = world();
    let Resp::Int(id) = call(&mut client, "CLIENT ID") else { panic!("CLIENT ID answers a number") };
    let trap = proxy.hold_request("late");
    client.send(&["SET", "late", "1"]).expect("sent");
    trap.wait();
    proxy.cut();
    closed(&mut client);
    assert_eq!(server.command(&["CLIENT", "KILL", "ID", &id.to_string()]), Resp::Int(1));
    until("the proxy has seen it", || proxy.shared.lock().links.is_empty());
    assert_eq!(proxy.deliver_held(), [None]);
    assert_eq!(server.command(&["EXISTS", "late"]), Resp::Int(0));
}

#[test]
fn a_held_request_holds_what_follows_and_its_client_gets_both() {
    let (server, proxy, mut client) = world();
    let trap = proxy.hold_request("first");
    client.send(&["ECHO", "first"]).expect("sent");
    client.send(&["SET", "a", "1"]).expect("sent");
    trap.wait();
    proxy.wait_for_request("SET");
    silent(&mut client);
    assert_eq!(server.commandstats("set"), 0);
    assert_eq!(proxy.deliver_held(), [Some(bulk("first"))]);
    assert_eq!(client.receive().expect("a reply"), bulk("first"));
    assert_eq!(client.receive().expect("a reply"), Resp::Simple("OK".into()));
}

#[test]
fn a_request_that_is_cut_off_never_arrives() {
    let (server, proxy, mut client) = world();
    call(&mut client, "PING");
    let trap = proxy.cut_before("needle");
    client.send(&["SET", "needle", "1"]).expect("sent");
    closed(&mut client);
    trap.wait();
    assert_eq!(server.commandstats("set"), 0);
    assert_eq!(proxy.requests_with("needle").len(), 1);
}

/// A client that sees the end of its connection may ask at once whether the trap was the reason.
#[test]
fn trap_has_worked_before_its_client_sees_the_close() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    for _ in 0..300 {
        let mut client = Connection::connect(proxy.addr()).expect("a connection");
        let trap = proxy.swallow_reply_to("PING", After::Close);
        client.send(&["PING"]).expect("sent");
        closed(&mut client);
        assert!(trap.worked());
    }
}

#[test]
fn request_can_be_resent_with_its_connections_rights() {
    let server = Server::builder().password("secret").start();
    let proxy = Proxy::to(&server);
    assert_eq!(proxy.url(), format!("redis://:secret@{}", proxy.addr()));
    let mut client = Connection::connect(proxy.addr()).expect("a connection");
    client.auth(None, "secret").expect("the right password");
    call(&mut client, "SELECT 3");
    call(&mut client, "INCR a");
    assert_eq!(proxy.duplicate("INCR"), Resp::Int(2));
    assert_eq!(proxy.replay(&proxy.requests_with("INCR")[0]), Resp::Int(3));
    assert_eq!(call(&mut client, "GET a"), bulk("3"));
}

#[test]
fn messages_are_not_taken_for_replies() {
    for protocol in ["2", "3"] {
        let (server, proxy, mut client) = world();
        call(&mut client, &format!("HELLO {protocol}"));
        client.send(&["SUBSCRIBE", "one", "two"]).expect("sent");
        client.receive().expect("the first confirmation");
        client.receive().expect("the second confirmation");
        server.command(&["PUBLISH", "one", "a"]);
        let message = client.receive().expect("a message");
        assert_eq!(message.elements(), [bulk("message"), bulk("one"), bulk("a")]);
        // A message on its way between request and reply must not be swallowed in its place.
        proxy.freeze(Way::ToServer);
        let trap = proxy.swallow_reply_to("PING", After::Close);
        client.send(&["PING", "x"]).expect("sent");
        proxy.wait_for_request("PING");
        server.command(&["PUBLISH", "two", "b"]);
        assert_eq!(client.receive().expect("a message").elements()[2], bulk("b"));
        assert!(!trap.worked());
        proxy.thaw(Way::ToServer);
        trap.wait();
        closed(&mut client);
        assert!(proxy.requests_with("PING")[0].reply.is_some());
    }
}

#[test]
fn the_confirmations_of_a_subscription_are_its_reply() {
    let (server, proxy, mut client) = world();
    let trap = proxy.swallow_reply_to("three", After::Hang);
    client.send(&["SUBSCRIBE", "one", "two"]).expect("sent");
    client.send(&["SUBSCRIBE", "three", "four"]).expect("sent");
    for channel in ["one", "two"] {
        assert_eq!(client.receive().expect("a confirmation").elements()[1], bulk(channel));
    }
    trap.wait();
    assert_eq!(server.command(&["PUBLISH", "four", "a"]), Resp::Int(1), "the server has it subscribed");
    silent(&mut client);
}

#[test]
fn what_is_not_resp_passes() {
    let server = Server::builder().tls().start();
    let proxy = Proxy::to(&server);
    assert_eq!(proxy.url(), format!("rediss://{}", proxy.addr()));
    let mut client = Connection::connect(proxy.addr()).expect("a connection");
    // The shortest greeting that a TLS server answers, with an alert.
    client.send_raw(b"\x16\x03\x01\x00\x01\x01").expect("sent");
    client.send_raw(b"\x15\x03\x01\x00\x02\x02\x00").expect("sent");
    let error = client.receive().expect_err("it is not RESP");
    assert!(
        !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "the server answers or closes: {error}"
    );
    assert!(proxy.requests().is_empty());
}

/// Notes who answered what, and sends one answer instead of another.
#[derive(Default)]
struct Notes(Mutex<Vec<(String, String)>>);

impl Watch for Notes {
    fn answered(&self, server: &str, request: &Request, reply: &Resp) -> Option<Resp> {
        self.0.lock().expect("no test panics with it").push((server.to_owned(), request.command()));
        (reply.as_str() == Some("PONG")).then(|| Resp::Array(vec![Resp::Int(7), Resp::Nil]))
    }

    fn refused(&self, target: SocketAddr) {
        self.0.lock().expect("no test panics with it").push((target.port().to_string(), "refused".to_owned()));
    }
}

#[test]
fn a_watcher_knows_the_process_behind_each_reply() {
    let server = Server::start();
    let notes = Arc::new(Notes::default());
    let proxy = Proxy::watched(server.addr(), notes.clone());
    let first = server.process().expect("a server that answers");
    let mut client = Connection::connect(proxy.addr()).expect("the proxy");
    assert_eq!(client.command(&["PING"]).expect("an answer"), Resp::Array(vec![Resp::Int(7), Resp::Nil]));
    assert_eq!(client.command(&["ECHO", "a"]).expect("an answer"), Resp::Bulk(b"a".to_vec()));
    server.kill();
    let mut client = Connection::connect(proxy.addr()).expect("the proxy");
    assert!(client.command(&["PING"]).is_err(), "no server is there");
    server.restart();
    let second = server.process().expect("a server that answers");
    assert_ne!(first, second);
    let mut client = Connection::connect(proxy.addr()).expect("the proxy");
    client.command(&["GET", "a"]).expect("an answer");
    let port = server.port().to_string();
    let expected = [(&first, "PING"), (&first, "ECHO"), (&port, "refused"), (&second, "GET")];
    let expected: Vec<_> = expected.iter().map(|(who, what)| ((*who).clone(), (*what).to_owned())).collect();
    assert_eq!(*notes.0.lock().expect("no test panics with it"), expected);
    assert_eq!(proxy.requests().len(), 0, "no request is kept");
}
