//! Threads that write to one connection at the same time.

use super::super::connection::Connection;
use super::super::network::Network;
use super::super::target::Server;
use super::memory::{End, Memory};
use super::*;
use leasehold_core::wire::Frame;
use leasehold_test_support::{Resp, take_request};

#[test]
fn commands_of_threads_that_write_at_once_keep_the_order_of_each_thread() {
    const THREADS: usize = 4;
    const COMMANDS: usize = 200;
    let text = |thread, number| Bytes::from(format!("{thread}:{number}"));
    for seed in 0..6 {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_time().build().expect("a runtime");
        let network = Memory::new(seed);
        let mut accepted = network.listen(([127, 0, 0, 1], 7_000).into());
        let arrived = runtime.spawn(async move { echo(accepted.recv().await.expect("a client")).await });
        let target = ServerTarget::parse("redis://127.0.0.1:7000").expect("a target");
        let Some(Server::At(to)) = target.seeds().into_iter().next() else { panic!("an address") };
        let settings = LinkSettings { network: Network::Memory(network), ..patient() };
        let opened = runtime.block_on(Connection::open(&target, &to, to.label(), &settings, 1, true));
        let (connection, _router) = opened.expect("a connection");
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (connection, runtime) = (&connection, &runtime);
                scope.spawn(move || {
                    let send = |number| connection.begin("ECHO", &[text(thread, number)]).expect("it stands");
                    let sent: Vec<_> = (0..COMMANDS).map(send).collect();
                    for (number, sent) in sent.into_iter().enumerate() {
                        let reply = runtime.block_on(connection.answered(sent, Some(HUNG)));
                        assert_eq!(reply, Ok(Frame::Text(text(thread, number))), "seed {seed}");
                    }
                });
            }
        });
        connection.end();
        let arrived = runtime.block_on(arrived).expect("a server");
        for thread in 0..THREADS {
            let prefix = format!("{thread}:");
            let own = arrived.iter().filter(|text| text.starts_with(prefix.as_bytes())).cloned();
            assert!(own.eq((0..COMMANDS).map(|number| text(thread, number))), "seed {seed}");
        }
    }
}

/// Answers each command with its argument, and returns the arguments when the client has closed the stream.
async fn echo(end: End) -> Vec<Bytes> {
    let (mut buf, mut chunk, mut arrived) = (Vec::new(), [0; 1_024], Vec::new());
    loop {
        let read = end.read(&mut chunk).await;
        if read == 0 {
            return arrived;
        }
        buf.extend_from_slice(&chunk[..read]);
        while let Some(request) = take_request(&mut buf) {
            let text = request.into_iter().next_back().expect("an argument");
            // A client that has closed the stream reads no reply.
            let _ = end.write_all(&Resp::Bulk(text.clone()).to_wire()).await;
            arrived.push(text.into());
        }
    }
}
