//! Locks in tests that move the time themselves: by hand, or by tokio's clock.

use crate::support::{World, ms, secs};
use futures_util::FutureExt as _;
use leasehold::embedded::{EmbeddedServer, ManualClock, ServerClock};
use leasehold::{Client, ClientStats, ConnectError, Error, LossReason};
use std::time::Duration;

pub(crate) async fn a_manual_clock_moves_leases_renewals_and_waits(_: World) {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = || Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
    let (one, other) = (client(), client());
    let guard = one.lock("report").acquire().await.expect("the lock");
    // A day passes in no time, and the lock is renewed all along.
    clock.advance(secs(24 * 60 * 60));
    assert!(guard.is_held());
    assert_eq!(guard.held_for(), secs(24 * 60 * 60));
    let mut waiting = Box::pin(other.lock("report").acquire().wait(secs(60)).into_future());
    for _ in 0..5 {
        assert!((&mut waiting).now_or_never().is_none());
        clock.advance(secs(10));
    }
    clock.advance(secs(9));
    assert!((&mut waiting).now_or_never().is_none(), "it waits for a minute");
    clock.advance(secs(2));
    let error = waiting.now_or_never().expect("the end of the wait").expect_err("a busy lock");
    assert!(matches!(error, Error::WaitElapsed { waited, .. } if waited >= secs(60) && waited <= secs(61)), "{error}");
    // A lease without renewal ends to the millisecond, less the margin of a hundredth and two milliseconds.
    guard.release().await.expect("a release");
    let fixed = one.lock("report").acquire().lease(secs(10)).await.expect("the lock");
    assert_eq!(fixed.remaining(), secs(10) - ms(102));
    clock.advance(secs(10) - ms(103));
    assert!(fixed.is_held());
    assert!(other.lock("report").try_acquire().await.expect("an answer").is_none());
    clock.advance(ms(1));
    assert!(!fixed.is_held(), "lost before the server can grant to another");
    assert!(other.lock("report").try_acquire().await.expect("an answer").is_none());
    // A server's key is there for the whole of its last millisecond.
    clock.advance(ms(103));
    let next = other.lock("report").try_acquire().await.expect("an answer").expect("the lock, whose lease has ended");
    assert_eq!(fixed.lost().await.reason(), LossReason::LeaseExpired);
    drop((fixed, next));
    clock.advance(ms(1));
    assert_eq!((one.stats(), other.stats()), (ClientStats::default(), ClientStats::default()));
}

pub(crate) async fn clients_take_the_clock_of_their_engine(_: World) {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = || Client::builder().embedded(&server).expect("a client");
    let (one, other) = (client(), client());
    let guard = one.lock("report").acquire().lease(secs(10)).await.expect("the lock");
    clock.advance(secs(9));
    assert!(guard.is_held() && other.lock("report").try_acquire().await.expect("an answer").is_none());
    clock.advance(secs(2));
    assert!(!guard.is_held() && other.lock("report").try_acquire().await.expect("an answer").is_some());
    let zero = tokio::time::Instant::now();
    let (machine, paused) = (EmbeddedServer::new(), EmbeddedServer::paused());
    let unknown = EmbeddedServer::with_clock(ServerClock::from_fn(Default::default));
    for (which, refused) in [
        Client::builder().tokio_clock(zero).embedded(&server),
        Client::builder().tokio_clock(zero).embedded(&machine),
        Client::builder().manual_clock(&clock).embedded(&machine),
        Client::builder().manual_clock(&clock).embedded(&paused),
        Client::builder().embedded(&unknown),
    ]
    .into_iter()
    .enumerate()
    {
        let error = refused.err().unwrap_or_else(|| panic!("{which}: two clocks"));
        assert!(matches!(error, ConnectError::Invalid { .. }), "{which}: {error}");
    }
}

/// A client on tokio's clock, and an engine on the same one.
fn on_tokios_clock(lease: Duration) -> (EmbeddedServer, impl Fn() -> Client) {
    let server = EmbeddedServer::paused();
    let for_clients = server.clone();
    let client = move || Client::builder().lease(lease).embedded(&for_clients).expect("a client");
    (server, client)
}

pub(crate) fn tokios_paused_clock_moves_them_too() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        let begun = std::time::Instant::now();
        let (server, client) = on_tokios_clock(secs(30));
        let (one, other) = (client(), client());
        let guard = one.lock("report").acquire().await.expect("the lock");
        let waiting = tokio::spawn({
            let lock = other.lock("report");
            async move { lock.acquire().wait(secs(3_600)).await }
        });
        tokio::time::sleep(secs(600)).await;
        assert!(guard.is_held() && !waiting.is_finished(), "both go by one clock");
        guard.release().await.expect("a release");
        let got = waiting.await.expect("a task").expect("the lock");
        got.release().await.expect("a release");
        let fixed = one.lock("report").acquire().lease(secs(10)).await.expect("the lock");
        let lost = fixed.lost().await;
        assert_eq!(lost.reason(), LossReason::LeaseExpired);
        drop(fixed);
        let error = {
            let _held = one.lock("report").acquire().wait(secs(20)).await.expect("the lock");
            other.lock("report").acquire().wait(secs(100)).await.expect_err("a busy lock")
        };
        assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
        one.shutdown(secs(5)).await.expect("nothing is left");
        other.shutdown(secs(5)).await.expect("nothing is left");
        assert!(server.keys().is_empty() && server.subscriptions() == 0);
        assert!(begun.elapsed() < secs(60), "no time passed but the clock's: {:?}", begun.elapsed());
    });
}
