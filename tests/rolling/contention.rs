//! One holds and the other waits, each of either version.

use crate::clients::{Client, LEASE, Version};
use crate::place::Place;
use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold_core::command::lock::{Forced, Inspected};
use leasehold_core::command::{Acquired, Released, Renewed};
use leasehold_test_support::{Binary, Server, until};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const PAIRS: [(Version, Version); 2] = [(Version::First, Version::Present), (Version::Present, Version::First)];

/// Runs a test with a holder of one version and a rival of the other, both ways, everywhere.
fn both_ways(test: impl Fn(&Place, &Client<'_>, &Client<'_>)) {
    Place::everywhere(|place| {
        for (one, other) in PAIRS {
            let name = format!("stock-{one:?}");
            // The words of the last one at its end are of no account.
            place.heard();
            test(place, &Client::new(place, one, 1, &name), &Client::new(place, other, 2, &name));
        }
    });
}

#[test]
fn one_excludes_the_other() {
    both_ways(|place, holder, rival| {
        assert!(holder.gets(1));
        place.advance(Duration::from_secs(1));
        let left = LEASE - Duration::from_secs(1);
        assert_eq!(rival.acquire(1), Acquired::Busy { left: Some(left), time: None });
        assert_eq!(rival.release(0), Released::Gone);
        assert_eq!(holder.release(0), Released::Ended);
        assert!(rival.gets(1));
        assert!(!holder.gets(1));
        assert_eq!(rival.release(0), Released::Ended);
    });
}

#[test]
fn counts_are_kept_and_copies_change_nothing() {
    both_ways(|_, holder, rival| {
        for count in [1, 2, 2, 3, 1] {
            assert!(holder.gets(count));
            assert!(!rival.gets(1));
        }
        for (count, released) in [(2, Released::Lowered), (2, Released::Lowered), (1, Released::Lowered)] {
            assert_eq!(holder.release(count), released);
            assert!(!rival.gets(1));
        }
        let held = |count| Inspected::Held {
            holder: String::from_utf8_lossy(holder.field()).into_owned(),
            count,
            left: Some(LEASE),
        };
        assert_eq!(rival.inspect(), held(1));
        assert_eq!(holder.release(0), Released::Ended);
        assert_eq!(rival.inspect(), Inspected::Free);
        assert!(rival.gets(1));
        // Late copies of what was sent for a hold that has ended.
        assert_eq!(holder.release(0), Released::Gone);
        assert_eq!(holder.acquire(2), Acquired::Lost);
        assert!(rival.gets(2));
        assert_eq!(rival.release(0), Released::Ended);
    });
}

#[test]
fn the_end_of_a_hold_is_announced_to_the_other_once() {
    both_ways(|place, holder, rival| {
        place.listen(rival.name.channel());
        assert!(holder.gets(1) && holder.gets(2));
        assert_eq!(holder.release(1), Released::Lowered);
        assert_eq!(place.heard(), [""; 0], "the holder goes on");
        assert_eq!(holder.release(0), Released::Ended);
        assert_eq!(place.heard(), ["0"]);
        assert_eq!(holder.release(0), Released::Gone);
        assert_eq!(place.heard(), [""; 0], "a copy says nothing");
        assert!(rival.gets(1));
        assert_eq!(rival.release(0), Released::Ended);
        assert_eq!(place.heard(), ["0"]);
    });
}

#[test]
fn a_renewal_keeps_the_other_out() {
    both_ways(|place, holder, rival| {
        assert!(holder.gets(1));
        for _ in 0..4 {
            place.advance(LEASE / 2);
            assert_eq!(rival.renew(), Renewed::Gone);
            assert_eq!(holder.renew(), Renewed::Held { count: 1, left: LEASE });
        }
        // To the last millisecond.
        place.advance(LEASE);
        assert!(!rival.gets(1));
        place.advance(Duration::from_millis(1));
        assert!(rival.gets(1));
        assert_eq!(rival.release(0), Released::Ended);
    });
}

#[test]
fn a_lease_that_ran_out_is_lost_to_the_other() {
    both_ways(|place, holder, rival| {
        place.listen(rival.name.channel());
        assert!(holder.gets(1));
        place.advance(LEASE + Duration::from_millis(1));
        assert!(rival.gets(1));
        // Nothing that the old holder still sends disturbs the new one.
        assert_eq!(holder.renew(), Renewed::Gone);
        assert_eq!(holder.release(1), Released::Gone);
        assert_eq!(holder.release(0), Released::Gone);
        assert_eq!(holder.acquire(2), Acquired::Lost);
        assert_eq!(place.heard(), [""; 0]);
        assert_eq!(rival.renew(), Renewed::Held { count: 1, left: LEASE });
        assert_eq!(rival.release(0), Released::Ended);
    });
}

#[test]
fn a_hold_is_force_released_by_the_other() {
    both_ways(|place, holder, rival| {
        place.listen(rival.name.channel());
        assert_eq!(rival.force(holder.field()), Forced::Absent);
        assert!(holder.gets(1));
        assert_eq!(rival.force(rival.field()), Forced::Other);
        assert_eq!(rival.force(holder.field()), Forced::Ended);
        assert_eq!(place.heard(), ["0"]);
        assert_eq!(holder.renew(), Renewed::Gone);
        assert!(rival.gets(1));
        assert_eq!(rival.release(0), Released::Ended);
    });
}

/// Today's client as its users have it. Without a message it would sleep until the lease of the holder is over, and no time passes.
#[test]
fn a_waiter_of_today_is_woken_by_a_release_of_the_first_scripts() {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let place = Place::Embedded { link: server.link(), server: server.clone(), clock: clock.clone() };
    let old = Client::new(&place, Version::First, 1, "stock");
    assert!(old.gets(1));
    let client = leasehold::Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
    let lock = client.lock("stock");
    let mut acquire = pin!(lock.acquire().into_future());
    let mut poll = || {
        clock.advance(Duration::ZERO);
        acquire.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    };
    let early = (0..20).find_map(|_| if let Poll::Ready(result) = poll() { Some(result) } else { None });
    assert!(early.is_none(), "it waits: {early:?}");
    assert_eq!(server.subscribers(old.name.channel()), 1);

    assert_eq!(old.release(0), Released::Ended);
    let granted = (0..20).find_map(|_| if let Poll::Ready(result) = poll() { Some(result) } else { None });
    let guard = granted.expect("it is woken").expect("it gets the lock");
    assert!(guard.is_held() && !old.gets(1));
    // And the other way round.
    place.listen(old.name.channel());
    place.heard();
    drop(guard);
    clock.advance(Duration::ZERO);
    assert_eq!(place.heard(), ["0"]);
    assert!(old.gets(1));
}

/// The same on servers, whose messages take their way over fred.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_of_today_is_woken_on_every_server() {
    for binary in Binary::all().expect("a server program") {
        let server = Server::builder().binary(&binary).start();
        let client = leasehold::Client::connect(&server.url()).await.expect("the server is up");
        let run = |script: &str, keys: &[&str], args: &[&str]| {
            let count = keys.len().to_string();
            let words: Vec<&str> =
                ["EVAL", script, &count].into_iter().chain(keys.iter().chain(args).copied()).collect();
            server.command(&words)
        };
        let channel = "redisson_lock__channel:{stock}";
        let granted = run(include_str!("scripts/lock_acquire.lua"), &["stock"], &["old:1", "1", "600000", "-1"]);
        assert_eq!(granted.elements()[0].as_int(), Some(1), "{granted:?}");
        let lock = client.lock("stock");
        let waiter = tokio::spawn(async move { lock.acquire().await });
        until("it listens", || {
            server.command(&["PUBSUB", "NUMSUB", channel]).elements().get(1).and_then(|count| count.as_int()) == Some(1)
        });
        assert!(!waiter.is_finished());
        let released = run(include_str!("scripts/lock_release.lua"), &["stock", channel], &["old:1", "0", "PUBLISH"]);
        assert_eq!(released.as_int(), Some(1));
        // Far below the ten minutes of the lease, and below the half minute after which it would look again unasked.
        let woken = tokio::time::timeout(Duration::from_secs(15), waiter).await;
        let guard = woken.expect("it is woken").expect("it does not panic").expect("it gets the lock");
        let busy = run(include_str!("scripts/lock_acquire.lua"), &["stock"], &["old:2", "1", "600000", "-1"]);
        assert_eq!(busy.elements()[0].as_int(), Some(0), "{busy:?}");
        guard.release().await.expect("it was held");
        let granted = run(include_str!("scripts/lock_acquire.lua"), &["stock"], &["old:2", "1", "600000", "-1"]);
        assert_eq!(granted.elements()[0].as_int(), Some(1), "{granted:?}");
    }
}
