//! Threads that write to one connection at the same time.

use super::super::connection::Connection;
use super::super::network::Network;
use super::super::target::Server;
use super::memory::{End, Memory};
use super::*;
use futures_util::future::join_all;
use leasehold_core::reply::Reply;
use leasehold_test_support::{Resp, take_request};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use tokio::task::JoinHandle;

const ADDRESS: ([u8; 4], u16) = ([127, 0, 0, 1], 7_000);

#[test]
fn commands_of_threads_that_write_at_once_keep_the_order_of_each_thread() {
    const THREADS: usize = 4;
    const COMMANDS: usize = 200;
    let text = |thread, number| Bytes::from(format!("{thread}:{number}"));
    for seed in 0..6 {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
        let (connection, arrived) = runtime.block_on(connect(Memory::new(seed)));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (connection, runtime) = (&connection, &runtime);
                scope.spawn(move || {
                    let send = |number| connection.begin("ECHO", &[text(thread, number)]).expect("it stands");
                    let sent: Vec<_> = (0..COMMANDS).map(send).collect();
                    for (number, sent) in sent.into_iter().enumerate() {
                        let reply = runtime.block_on(connection.answered(sent, HUNG));
                        assert_eq!(reply, Ok(Reply::Bulk(text(thread, number))), "seed {seed}");
                    }
                });
            }
        });
        connection.end();
        let (arrived, _) = runtime.block_on(arrived).expect("a server");
        for thread in 0..THREADS {
            let prefix = format!("{thread}:");
            let own = arrived.iter().filter(|text| text.starts_with(prefix.as_bytes())).cloned();
            assert!(own.eq((0..COMMANDS).map(|number| text(thread, number))), "seed {seed}");
        }
    }
}

#[test]
fn callers_that_replies_wake_together_share_a_write() {
    const CALLERS: usize = 16;
    const COMMANDS: usize = 50;
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let (_, writes) = runtime.block_on(async {
        let (connection, arrived) = connect(Memory::whole()).await;
        let connection = Arc::new(connection);
        let callers = (0..CALLERS).map(|_| Arc::clone(&connection)).map(|connection| async move {
            for _ in 0..COMMANDS {
                connection.send("ECHO", vec![Bytes::from_static(b"text")], HUNG).await.expect("a reply");
            }
        });
        join_all(callers.map(tokio::spawn)).await;
        connection.end();
        arrived.await.expect("a server")
    });
    assert!(writes * 2 < CALLERS * COMMANDS, "{writes} writes");
}

/// Sends a command as soon as a reply arrives, as the session does.
struct SendsOnReply(Connection);

impl Wake for SendsOnReply {
    fn wake(self: Arc<Self>) {
        drop(self.0.begin("ECHO", &[Bytes::from_static(b"last")]).expect("it stands"));
    }
}

#[test]
fn command_sent_during_a_corked_read_leaves_although_a_later_read_is_small() {
    const FIRST: usize = 8;
    const READ: usize = 16 * 1024;
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    let network = Memory::whole();
    runtime.block_on(async {
        let mut accepted = network.listen(ADDRESS.into());
        let connection = Arc::new(SendsOnReply(open(Arc::clone(&network)).await));
        let mut sent: Vec<_> = (0..FIRST).map(|_| connection.0.begin("PING", &[]).expect("it stands")).collect();
        let waker = Waker::from(Arc::clone(&connection));
        assert!(pin!(&mut sent[0]).poll(&mut Context::from_waker(&waker)).is_pending());
        let end = accepted.recv().await.expect("a client");
        let mut requests = Vec::new();
        // Two replies fill the first read, and the second read has one.
        let long = "x".repeat(READ - "+1\r\n$16370\r\n\r\n".len());
        let replies = format!("+1\r\n${}\r\n{long}\r\n+3\r\n", long.len());
        assert_eq!(replies.len(), READ + 4);
        end.write_all(replies.as_bytes()).await.expect("it stands");
        let arrives = async {
            while !requests.ends_with(b"last\r\n") {
                assert!(end.read_more(&mut requests).await, "the connection ended");
            }
        };
        tokio::time::timeout(HUNG, arrives).await.expect("the command leaves");
    });
}

#[test]
fn command_of_another_thread_ends_the_rest_of_an_idle_connection() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    for round in 0..400 {
        let network = Memory::whole();
        // The server never replies: the first command leaves the connection in use.
        let _streams = network.listen(ADDRESS.into());
        let connection = runtime.block_on(open(network));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..round * 16).for_each(|_| std::hint::spin_loop());
                connection.begin("PING", &[]).expect("it stands")
            });
            let ended = runtime.block_on(async { tokio::time::timeout(HUNG, connection.used()).await });
            ended.expect("the rest ends");
        });
    }
}

/// A connection to a server that echoes. The server returns the arguments that have arrived, and how often its client
/// has written.
async fn connect(network: Arc<Memory>) -> (Connection, JoinHandle<(Vec<Bytes>, usize)>) {
    let mut accepted = network.listen(ADDRESS.into());
    let arrived = tokio::spawn(async move {
        let end = accepted.recv().await.expect("a client");
        (echo(&end).await, end.writes())
    });
    (open(network).await, arrived)
}

async fn open(network: Arc<Memory>) -> Connection {
    let target = ServerTarget::parse("redis://127.0.0.1:7000").expect("a target");
    let Some(Server::At(to)) = target.servers.first() else { panic!("an address") };
    let settings = LinkSettings { network: Network::Memory(network), ..patient() };
    Connection::open(&target, to, &settings, &Arc::default(), true).await.expect("a connection")
}

/// Answers each command with its argument, in two parts if several commands arrive together. Returns the arguments when
/// the client has closed the stream.
async fn echo(end: &End) -> Vec<Bytes> {
    let (mut requests, mut arrived) = (Vec::new(), Vec::new());
    while end.read_more(&mut requests).await {
        let texts: Vec<Bytes> = std::iter::from_fn(|| take_request(&mut requests))
            .map(|request| request.into_iter().next_back().expect("an argument").into())
            .collect();
        for turn in texts.chunks(texts.len().div_ceil(2).max(1)) {
            let replies: Vec<u8> = turn.iter().flat_map(|text| Resp::Bulk(text.to_vec()).to_wire()).collect();
            // A client that has closed the stream reads no reply.
            let _ = end.write_all(&replies).await;
            tokio::task::yield_now().await;
        }
        arrived.extend(texts);
    }
    arrived
}
