//! The intervals of pings, and the time to replace a silent connection, on an in-memory network and a paused clock.

use super::super::network::Network;
use super::hostile::usual;
use super::memory::{End, Memory};
use super::*;
use leasehold_test_support::take_request;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::time::{Instant, sleep};

const TIMEOUT: Duration = Duration::from_secs(1);

/// The time limit to replace a connection that is waited for.
const SOON: Duration = Duration::from_millis(1_510);

/// A server, and its observations.
#[derive(Default)]
struct Peer {
    pings: usize,
    /// The time of the last accepted connection.
    accepted: Option<Instant>,
    /// The server reads but does not reply.
    silent: bool,
}

/// A link to one server.
struct Scene {
    link: ServerLink,
    peer: Arc<Mutex<Peer>>,
}

/// The thing that is waited for.
#[derive(Clone, Copy, Debug)]
enum Use {
    Call,
    NewSubscription,
    Subscription,
}

/// Runs a test with a connected link.
fn play<T>(test: impl AsyncFnOnce(&Scene) -> T) -> T {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let network = Memory::whole();
        let peer = Arc::<Mutex<Peer>>::default();
        let mut streams = network.listen(([127, 0, 0, 1], 7_000).into());
        let accepting = Arc::clone(&peer);
        drop(tokio::spawn(async move {
            while let Some(end) = streams.recv().await {
                accepting.lock().accepted = Some(Instant::now());
                drop(tokio::spawn(serve(Arc::clone(&accepting), end)));
            }
        }));
        let network = Network::Memory(network);
        let settings = LinkSettings { command_timeout: TIMEOUT, network, ..LinkSettings::default() };
        let target = ServerTarget::parse("redis://127.0.0.1:7000").expect("a target");
        let link = open(target, settings, None).await.expect("a link");
        test(&Scene { link, peer }).await
    })
}

async fn serve(peer: Arc<Mutex<Peer>>, end: End) {
    let mut requests = Vec::new();
    while end.read_more(&mut requests).await {
        while let Some(request) = take_request(&mut requests) {
            let silent = {
                let mut peer = peer.lock();
                peer.pings += usize::from(request == [b"PING"]);
                peer.silent
            };
            let reply = match request.as_slice() {
                [command, channel] if command.ends_with(b"SUBSCRIBE") => {
                    let (command, channel) = (String::from_utf8_lossy(command), String::from_utf8_lossy(channel));
                    let count = usize::from(command == "SUBSCRIBE");
                    format!(">3\r\n+{}\r\n+{channel}\r\n:{count}\r\n", command.to_lowercase()).into_bytes()
                }
                _ => usual(&request),
            };
            if !silent && end.write_all(&reply).await.is_err() {
                return;
            }
        }
    }
}

impl Scene {
    async fn pings_in(&self, time: Duration) -> usize {
        let before = self.peer.lock().pings;
        sleep(time).await;
        self.peer.lock().pings - before
    }

    /// Silences the server, and returns the time until the client reconnects.
    async fn replaced_after_silence(&self) -> Duration {
        let began = Instant::now();
        {
            let mut peer = self.peer.lock();
            peer.silent = true;
            peer.accepted = None;
        }
        loop {
            if let Some(accepted) = self.peer.lock().accepted {
                return accepted - began;
            }
            assert!(began.elapsed() < HUNG, "the connection is never replaced");
            sleep(Duration::from_millis(1)).await;
        }
    }
}

#[test]
fn connections_for_which_nobody_waits_are_pinged_seldom() {
    play(async |scene| {
        scene.link.subscribe(key("c")).await.expect("a subscription");
        scene.link.unsubscribe(key("c")).await.expect("the end of it");
        scene.link.call(inspect("a")).await.expect("a reply");
        let pings = scene.pings_in(Duration::from_secs(60)).await;
        assert!((10..=16).contains(&pings), "{pings} pings in a minute");
    });
}

#[test]
fn connection_with_a_subscription_is_pinged_twice_a_timeout() {
    play(async |scene| {
        scene.link.subscribe(key("c")).await.expect("a subscription");
        let pings = scene.pings_in(Duration::from_secs(60)).await;
        assert!((115..150).contains(&pings), "{pings} pings in a minute");
    });
}

#[test]
fn silent_connection_for_which_nobody_waits_is_replaced_before_long() {
    play(async |scene| {
        sleep(Duration::from_secs(20)).await;
        let after = scene.replaced_after_silence().await;
        assert!(after < Duration::from_secs(7), "{after:?}");
    });
}

#[test]
fn silent_connection_is_replaced_soon_after_somebody_waits_for_it() {
    for use_of_it in [Use::Call, Use::NewSubscription, Use::Subscription] {
        // The use begins at any time of the idle interval, and soon after the connect.
        for idle in (0..120).map(|step| Duration::from_millis(step * 97)) {
            let after = play(async |scene| {
                sleep(idle).await;
                if let Use::Call = use_of_it {
                    let call = scene.link.call(inspect("a"));
                    let (_, after) = futures_util::join!(call, scene.replaced_after_silence());
                    return after;
                }
                scene.link.subscribe(key("c")).await.expect("a subscription");
                if let Use::Subscription = use_of_it {
                    sleep(idle).await;
                }
                scene.replaced_after_silence().await
            });
            assert!(after <= SOON, "{use_of_it:?} after {idle:?}: {after:?}");
        }
    }
}
