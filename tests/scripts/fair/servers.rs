//! The scripts on real servers, where time passes by itself: what needs no time, and the messages.

use super::jvm::Jvm;
use super::world::{World, is_held, is_placed};
use crate::eval::eval;
use crate::support::Bench;
use leasehold_core::command::fair::Heartbeat;
use leasehold_core::command::lock::ForceReleased;
use leasehold_core::command::{Acquired, Kind};
use leasehold_test_support::{Connection, Resp};
use std::time::Duration;

/// Runs a test on every server that is installed.
fn on_each(test: impl Fn(World)) {
    for bench in Bench::started() {
        let mut world = World::on(bench);
        // The machine may be busy: nothing here is to depend on a window.
        world.settings.fair.liveness_timeout = Duration::from_secs(60);
        world.settings.fair.offer_timeout = Duration::from_secs(60);
        test(world);
    }
}

#[test]
fn a_queue_of_ours_goes_from_hand_to_hand() {
    on_each(|world| {
        let waiters = [(); 5].map(|()| world.process());
        assert!(is_held(&world.acquire(&waiters[0].hold(1))));
        for waiter in &waiters[1..] {
            assert!(is_placed(&world.acquire(&waiter.hold(1))));
            assert!(is_placed(&world.acquire(&waiter.hold(1))));
        }
        assert_eq!(world.release(&waiters[2].hold(1), 0), -1);
        assert_eq!(world.acquire(&waiters[2].hold(1)), Acquired::Withdrawn);
        let mut last = waiters[0];
        for next in [waiters[1], waiters[3], waiters[4]] {
            assert_eq!(world.release(&last.hold(1), 0), 1);
            assert_eq!(world.heard(&next.id()), [next.hold(1)]);
            assert!(matches!(world.beat(next, Some(&next.hold(1))), Heartbeat::Yours { .. }));
            assert!(is_held(&world.acquire(&next.hold(1))));
            world.assert_consistent();
            last = next;
        }
        assert_eq!(world.force_release(&last.hold(1)), ForceReleased::Ended);
        assert!(matches!(world.inspect(), (None, waiters) if waiters.is_empty()));
        assert!(world.ttl("marks") > 0);
    });
}

#[test]
fn jvms_and_ours_share_a_queue() {
    on_each(|world| {
        let (holder, ours, jvm) = (world.process(), world.process(), Jvm::new(1, 300_000));
        world.acquire(&holder.hold(1));
        jvm.acquire(&world, 30_000);
        world.acquire(&ours.hold(1));
        assert!(world.score(&ours.hold(1)) > 300_000);
        assert_eq!(world.release(&holder.hold(1), 0), 1);
        assert_eq!(world.heard(&jvm.entry), ["0"]);
        assert_eq!(jvm.acquire(&world, 30_000), None);
        assert!(matches!(world.beat(ours, Some(&ours.hold(1))), Heartbeat::Calm(standing) if standing.foreign));
        assert!(jvm.unlock(&world, 30_000));
        assert!(is_held(&world.acquire(&ours.hold(1))));
    });
}

#[test]
fn a_long_queue_is_walked_compacted_and_mended() {
    on_each(|world| {
        let (holder, ours, jvm) = (world.process(), world.process(), Jvm::new(1, 5_000));
        world.acquire(&holder.hold(1));
        for number in 1..=1_200 {
            world.acquire(&ours.hold(number));
        }
        for number in 2..=700 {
            world.release(&ours.hold(number), 0);
        }
        assert!(world.queue().len() < 1_200, "tombstones go");
        world.assert_consistent();
        jvm.acquire(&world, 30_000);
        world.beat(ours, None);
        assert_eq!(world.queue().len(), 502);
        world.command(&["DEL", &world.key("deadlines")]);
        world.beat(ours, None);
        world.assert_consistent();
        assert_eq!(world.queue().len(), 502);
    });
}

#[test]
fn tokens_are_texts_of_whole_numbers() {
    on_each(|world| {
        let world = World { kind: Kind::FencedFair, ..world };
        let mut last = 0;
        for number in 1..=50 {
            let hold = world.process().hold(number);
            let Acquired::Held { token: Some(token), .. } = world.acquire(&hold) else { panic!("a token") };
            assert!(token > last && token < 1 << 53);
            assert!(
                matches!(world.ask(&hold, |ask| ask.count = 2), Acquired::Held { token: Some(same), .. } if same == token)
            );
            last = token;
            world.release(&hold, 0);
        }
    });
}

#[test]
fn messages_reach_those_who_listen_in_the_way_they_listen() {
    on_each(|mut world| {
        world.settings.publish = "PUBLISH".into();
        let Bench::Real(server) = &world.bench else { panic!("a server") };
        let mut listener: Connection = server.connect().expect("a connection");
        let (holder, ours, jvm) = (world.process(), world.process(), Jvm::new(1, 5_000));
        let channel = |whose: &str| format!("{}:{whose}", world.key("channel"));
        for channel in [channel(&ours.id()), channel(&jvm.entry)] {
            listener.command(&["SUBSCRIBE", &channel]).expect("a subscription");
        }
        world.acquire(&holder.hold(1));
        world.acquire(&ours.hold(1));
        jvm.acquire(&world, 30_000);
        world.release(&holder.hold(1), 0);
        let mut message = || match listener.receive().expect("a message") {
            Resp::Array(parts) => parts[1..].iter().map(|part| part.as_str().unwrap_or_default().to_owned()).collect(),
            other => panic!("{other:?}"),
        };
        let first: Vec<String> = message();
        assert_eq!(first, [channel(&ours.id()), ours.hold(1)]);
        assert!(is_held(&world.acquire(&ours.hold(1))));
        world.release(&ours.hold(1), 0);
        assert_eq!(message(), [channel(&jvm.entry), "0".to_owned()]);
    });
}

#[test]
fn an_error_midway_leaves_no_hold_and_releases_none() {
    on_each(|world| {
        let Bench::Real(server) = &world.bench else { panic!("a server") };
        let (holder, ours) = (world.process(), world.process());
        world.acquire(&holder.hold(1));
        world.acquire(&ours.hold(1));
        let mut refused: Connection = server.connect().expect("a connection");
        for (denied, call, what) in [
            ("-hset", world.release_call(&holder.hold(1), 0), "who may not note the offer"),
            ("-rpush", world.release_call(&holder.hold(1), 0), "who may not publish"),
        ] {
            server.command(&["ACL", "SETUSER", "half", "reset", "on", ">half", "~*", "&*", "+@all", denied]);
            refused.auth(Some("half"), "half").expect("a user");
            let words = eval(call.script().source(), &call.keys().to_vec(), &call.args().to_vec());
            assert!(refused.command(&words).expect("a reply").is_error(), "{what} gets an error");
            assert_eq!(world.holder(), Some((holder.hold(1), 1)), "{what} has released nothing");
            world.assert_consistent();
        }
        world.release(&holder.hold(1), 0);
        for denied in ["-pexpire", "-hset"] {
            server.command(&["ACL", "SETUSER", "half", "reset", "on", ">half", "~*", "&*", "+@all", denied]);
            refused.auth(Some("half"), "half").expect("a user");
            let call = world.acquire_call(&ours.hold(1), |_| {});
            let words = eval(call.script().source(), &call.keys().to_vec(), &call.args().to_vec());
            assert!(refused.command(&words).expect("a reply").is_error());
            assert_eq!(world.holder(), None, "{denied}: no lock without an end, and none at all");
        }
    });
}
