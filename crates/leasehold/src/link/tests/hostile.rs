//! Peers that refuse a client, or send invalid bytes. The link reports it, waits for nothing, and continues with the
//! next connection.

use super::super::connection::Connection;
use super::connecting::failure_at;
use super::*;
use leasehold_core::wire::Malformed;
use leasehold_test_support::take_request;
use std::error::Error as _;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Listens on a free port, and runs `serve` for each connection, on its own thread.
fn peer(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = listener.local_addr().expect("an address");
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    addr
}

/// Answers each request until the client or `answer` ends the connection.
fn answering(mut stream: TcpStream, mut answer: impl FnMut(&[Vec<u8>], &mut TcpStream) -> io::Result<()>) {
    let (mut requests, mut buffer) = (Vec::new(), [0; 4_096]);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        requests.extend_from_slice(&buffer[..read]);
        // After a failed connect the client probes for TLS.
        if requests.first() == Some(&0x16) {
            return;
        }
        while let Some(request) = take_request(&mut requests) {
            if answer(&request, &mut stream).is_err() {
                return;
            }
        }
    }
}

/// The reply of a server to everything except scripts.
pub(super) fn usual(request: &[Vec<u8>]) -> Vec<u8> {
    match request.first().map(|word| word.to_ascii_uppercase()).as_deref() {
        Some(b"HELLO") => b"%1\r\n$2\r\nid\r\n:1\r\n".to_vec(),
        Some(b"CLIENT") => b":1\r\n".to_vec(),
        Some(b"PING") => b"+PONG\r\n".to_vec(),
        Some(b"INFO") => b"$22\r\nredis_version:7.0.15\r\n\r\n".to_vec(),
        Some(b"EVAL" | b"EVALSHA") => b"*1\r\n:0\r\n".to_vec(),
        _ => b"*0\r\n".to_vec(),
    }
}

/// Bytes that cannot become a useful reply.
fn nonsense() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("garbage", b"\x00\x01\x02 garbage\r\n".to_vec()),
        ("a line without an end", vec![b'+'; 200_000]),
        ("arrays in arrays", b"*1\r\n".repeat(10_000)),
        ("a string of 512 MB", b"$536870912\r\n".to_vec()),
        ("a thousand million elements", b"*1000000000\r\n".to_vec()),
        ("a negative length", b"$-7\r\n".to_vec()),
        ("a map of half a pair", b"%1\r\n+a\r\n%x\r\n".to_vec()),
    ]
}

/// The time of a refusal.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// It answers the connection itself, and closes it.
    AtOnce,
    OfTheFirstRequest,
    OfPing,
}

#[test]
fn refusal_is_told_at_once_in_the_words_of_the_server() {
    use crate::ConnectError as Error;
    for (words, is_denied) in [
        ("ERR max number of clients reached", false),
        ("ERR max daily request limit exceeded. Limit: 10000, Usage: 10001.", false),
        ("CLUSTERDOWN The cluster is down", false),
        ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", false),
        ("DENIED Redis is running in protected mode because no password is set", true),
    ] {
        for when in [Refusal::AtOnce, Refusal::OfTheFirstRequest, Refusal::OfPing] {
            let refusal = format!("-{words}\r\n");
            let addr = peer(move |mut stream| {
                if matches!(when, Refusal::AtOnce) {
                    // The client may have gone.
                    let _ = stream.write_all(refusal.as_bytes());
                    return;
                }
                let mut first = true;
                answering(stream, |request, stream| {
                    let is_ping = request.first().is_some_and(|word| word == b"PING");
                    let refuses = is_ping || (matches!(when, Refusal::OfTheFirstRequest) && first);
                    first = false;
                    stream.write_all(if refuses { refusal.as_bytes().to_vec() } else { usual(request) }.as_slice())
                });
            });
            let error = Error::from(failure_at(&format!("redis://{addr}")));
            let text = error.to_string();
            assert!(text.contains(words) && !text.contains("retried for"), "{when:?}: {text}");
            let is_right = if is_denied {
                matches!(error, Error::Denied { .. })
            } else {
                matches!(error, Error::Unreachable { .. })
            };
            assert!(is_right, "{when:?}: {error:?}");
        }
    }
}

#[test]
fn peer_that_hangs_up_at_the_greeting_is_told_with_advice() {
    let addr = peer(|stream| answering(stream, |_, _| Err(io::ErrorKind::ConnectionAborted.into())));
    let error = failure_at(&format!("redis://{addr}")).to_string();
    assert!(error.contains("?protocol=resp2") && error.contains("twemproxy"), "{error}");
}

#[test]
fn sentinel_that_answers_with_no_address_is_told_of() {
    let target = |addr| ServerTarget::parse(&format!("redis-sentinel://{addr}?sentinelServiceName=main"));
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    let long = format!("*2\r\n$300\r\n{}\r\n$4\r\n7000\r\n", "a".repeat(300));
    for reply in [&b"+OK\r\n"[..], b"*2\r\n+a\r\n+b\r\n", b"*2\r\n$3\r\na\nb\r\n$1\r\n1\r\n", long.as_bytes()] {
        let sent = reply.to_vec();
        let target = target(peer(move |stream| answering(stream, |_, stream| stream.write_all(&sent))));
        let target = target.expect("a target");
        let server = target.servers.first().cloned().expect("a server");
        let error = runtime.block_on(Connection::connect(&target, server, &settings(), &Arc::default())).err();
        assert!(matches!(error, Some(ConnectError::Protocol { .. })), "{}: {error:?}", reply.escape_ascii());
    }
}

#[test]
fn server_that_cannot_save_is_connected_to_and_refuses_each_call() {
    const WORDS: &str =
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.";
    let addr = peer(|stream| {
        answering(stream, |request, stream| match request.first().map(Vec::as_slice) {
            Some(b"PING" | b"EVAL" | b"EVALSHA") => stream.write_all(format!("-{WORDS}\r\n").as_bytes()),
            _ => stream.write_all(&usual(request)),
        });
    });
    let world = World::with(&format!("redis://{addr}"), patient());
    let refused = world.call(inspect("a"));
    assert!(matches!(&refused, Err(LinkError::Refused(refusal)) if refusal.code() == "MISCONF"), "{refused:?}");
}

#[test]
fn nonsense_in_the_greeting_is_told_with_its_beginning() {
    for (what, bytes) in nonsense() {
        let addr = peer(move |stream| {
            answering(stream, |_, stream| {
                stream.write_all(&bytes)?;
                // A client that waits for more would hang.
                std::thread::sleep(HUNG);
                Ok(())
            });
        });
        let error = failure_at(&format!("redis://{addr}"));
        assert!(matches!(error, ConnectError::Protocol { .. }), "{what}: {error:?}");
        let error = crate::ConnectError::from(error);
        let source = error.source().and_then(|source| source.downcast_ref::<Malformed>());
        assert!(source.is_some(), "{what}: {error:?}");
    }
}

#[test]
fn nonsense_in_place_of_a_reply_ends_the_connection_and_no_more() {
    for (what, bytes) in nonsense() {
        let (scripts, bytes) = (Arc::new(AtomicUsize::new(0)), Arc::new(bytes));
        let seen = Arc::clone(&scripts);
        let addr = peer(move |stream| {
            answering(stream, |request, stream| {
                let is_script = request.first().is_some_and(|word| word.starts_with(b"EVAL"));
                if is_script && seen.fetch_add(1, Ordering::SeqCst) == 0 {
                    return stream.write_all(&bytes);
                }
                stream.write_all(&usual(request))
            });
        });
        let world = World::with(&format!("redis://{addr}"), patient());
        let spoiled = world.call(inspect("a"));
        assert!(matches!(spoiled, Err(LinkError::Unknown(_))), "{what}: {spoiled:?}");
        assert_eq!(world.call_until_answered(&inspect("a")), nobody(), "{what}");
        assert_eq!(world.call(inspect("a")), Ok(nobody()), "{what}");
    }
}

#[test]
fn reply_that_nothing_asked_for_is_taken_for_no_other() {
    let spoiled = Arc::new(AtomicUsize::new(0));
    let addr = peer(move |stream| {
        answering(stream, |request, stream| {
            let mut reply = usual(request);
            if request.first().is_some_and(|word| word.starts_with(b"EVAL"))
                && spoiled.fetch_add(1, Ordering::SeqCst) == 0
            {
                // A kept reply would answer the next call.
                reply.extend_from_slice(b"*1\r\n:7\r\n");
            }
            stream.write_all(&reply)
        });
    });
    let world = World::with(&format!("redis://{addr}"), patient());
    assert_eq!(world.call(inspect("a")), Ok(nobody()));
    for _ in 0..20 {
        assert_eq!(world.call_until_answered(&inspect("a")), nobody());
    }
}

#[test]
fn replies_that_come_byte_by_byte_are_read() {
    let addr = peer(|stream| {
        stream.set_nodelay(true).expect("a socket");
        answering(stream, |request, stream| usual(request).chunks(1).try_for_each(|byte| stream.write_all(byte)));
    });
    let world = World::with(&format!("redis://{addr}"), patient());
    assert_eq!(world.call(inspect("a")), Ok(nobody()));
}

#[test]
fn connection_that_ends_at_any_byte_of_the_greeting_is_made_again() {
    let requests = ["HELLO", "CLIENT", "PING", "INFO", "INFO", "CLIENT", "CLIENT"];
    let greeting: usize = requests.iter().map(|word| usual(&[word.as_bytes().to_vec()]).len()).sum();
    let connections = AtomicUsize::new(0);
    let addr = peer(move |stream| {
        // Each connection ends one byte later than the previous one.
        let mut left = connections.fetch_add(1, Ordering::SeqCst);
        let is_whole = left > greeting;
        answering(stream, |request, stream| {
            let reply = usual(request);
            let taken = if is_whole { reply.len() } else { reply.len().min(left) };
            stream.write_all(&reply[..taken])?;
            left -= taken.min(left);
            if is_whole || left > 0 { Ok(()) } else { Err(io::ErrorKind::ConnectionAborted.into()) }
        });
    });
    let target = ServerTarget::parse(&format!("redis://{addr}")).expect("a target");
    let settings = patient();
    let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
    for _ in 0..greeting {
        let server = target.servers.first().cloned().expect("a server");
        let error = runtime
            .block_on(Connection::connect(&target, server, &settings, &Arc::default()))
            .err()
            .expect("no connection");
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
        assert!(error.to_string().contains(&addr.to_string()), "{error}");
    }
    let home = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let world = World::try_new(target, settings, home).expect("a link");
    assert_eq!(world.call(inspect("a")), Ok(nobody()));
}
