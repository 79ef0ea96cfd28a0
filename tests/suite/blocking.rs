//! Every kind, for threads without a runtime.

use crate::support::world::idle;
use crate::support::{World, ms, secs};
use leasehold::blocking::wait;
use leasehold::{Client, Error, LossReason, QuorumLock, WithError};

/// Runs `work` on a thread without a runtime.
async fn in_thread(world: &World, work: impl FnOnce(&Client) + Send + 'static) {
    let client = world.client().await;
    let on_thread = client.clone();
    let thread = std::thread::spawn(move || work(&on_thread));
    tokio::task::spawn_blocking(|| thread.join()).await.expect("a thread").expect("a thread that did not panic");
    idle(&client).await;
}

pub(crate) async fn threads_take_locks_of_every_kind(world: World) {
    let names: Vec<String> = (0..8).map(|_| world.name("threads")).collect();
    in_thread(&world, move |client| {
        let fair = client.fair_lock(&names[0]);
        let guard = wait(fair.acquire().wait(secs(5))).expect("the lock");
        assert!(wait(fair.try_acquire()).expect("an answer").is_none());
        let queue = wait(fair.inspect()).expect("an answer");
        assert_eq!(queue.holder.map(|holder| holder.id), Some(guard.holder_id()));
        assert_eq!(wait(fair.force_release()).expect("an answer").map(|holder| holder.id), Some(guard.holder_id()));
        assert_eq!(wait(guard.lost()).reason(), LossReason::Removed);
        assert!(matches!(wait(guard.release()), Err(Error::Lost { .. })));

        let fenced = client.fenced_lock(&names[1]);
        let value = client.fenced_value(&names[2]);
        let guard = wait(fenced.acquire()).expect("the lock");
        assert!(guard.fencing_token().as_u64() > 0 && guard.held_for() < secs(20));
        wait(value.check(&guard)).expect("the newest token");
        wait(value.write(&guard, "1")).expect("the newest token");
        assert_eq!(wait(value.read(&guard)).expect("the newest token").as_deref(), Some(b"1".as_slice()));
        assert!(guard.is_held());
        drop(guard);

        let spin = client.spin_lock(&names[3]).class("tests");
        assert_eq!(wait(spin.with(async |held| (held.is_held(), held.hold_count()))).expect("work"), (true, 1));
        let busy = wait(spin.acquire()).expect("the lock");
        let error = wait(spin.acquire().wait(ms(20)).with(async |_| ())).expect_err("a busy lock");
        assert!(matches!(Error::from(error), Error::WaitElapsed { .. }));
        wait(busy.release()).expect("a release");

        let simple = client.simple_lock(&names[4], secs(30)).with_id("worker-7");
        wait(simple.acquire()).expect("the lock").detach();
        assert_eq!(wait(simple.inspect()).expect("an answer").map(|holder| holder.id), Some("worker-7".into()));
        assert!(wait(simple.release()).expect("an answer"));
        assert_eq!(wait(simple.force_release()).expect("an answer"), None);

        let catalog = client.read_write_lock(&names[5]);
        let writing = wait(catalog.write().acquire()).expect("the write half");
        assert!(wait(catalog.read().try_acquire()).expect("an answer").is_none());
        let beside = wait(writing.read()).expect("the read half");
        wait(beside.release()).expect("a release");
        let reading = wait(writing.downgrade()).expect("a reader");
        let seen = wait(catalog.inspect()).expect("an answer");
        assert_eq!((seen.writer, seen.readers.len()), (None, 1));
        assert_eq!(wait(catalog.write().inspect()).expect("an answer"), None);
        assert_eq!(wait(catalog.read().inspect()).expect("an answer").len(), 1);
        wait(reading.release()).expect("a release");

        let multi = client.multi_lock([client.lock(&names[6]), client.lock(&names[7])]);
        let both = wait(multi.acquire().wait(secs(5))).expect("both locks");
        assert!(both.is_held() && both.remaining() > ms(0) && !both.cancellation_token().is_cancelled());
        assert!(wait(multi.try_acquire()).expect("an answer").is_none());
        wait(both.release()).expect("a release");
        let quorum = QuorumLock::new([client.clone()], &names[6]);
        let guard = wait(quorum.acquire()).expect("a quorum of one");
        assert!(guard.is_held());
        wait(guard.release()).expect("a release");
    })
    .await;
}

pub(crate) async fn threads_take_permits_and_wait_at_latches(world: World) {
    let names: Vec<String> = (0..3).map(|_| world.name("threads")).collect();
    in_thread(&world, move |client| {
        let seats = client.bare_semaphore(&names[0]);
        assert!(wait(seats.try_set_permits(2)).expect("an answer"));
        let guard = wait(seats.acquire().permits(2)).expect("two permits");
        assert_eq!((guard.permits(), wait(seats.available_permits()).expect("an answer")), (2, 0));
        let other = std::thread::spawn({
            let seats = seats.clone();
            move || wait(wait(seats.acquire())?.release())
        });
        wait(guard.release()).expect("a release");
        other.join().expect("a thread").expect("a permit, and its release");
        assert_eq!(wait(seats.drain_permits()).expect("an answer"), 2);
        assert_eq!(
            (wait(seats.release_permits(1)).expect("an answer"), wait(seats.add_permits(1)).expect("an answer")),
            (1, 2)
        );
        assert!(wait(seats.try_acquire_many(3)).expect("an answer").is_none());

        let seats = client.semaphore(&names[1]);
        assert!(wait(seats.try_set_permits(1)).expect("an answer"));
        let error = wait(seats.acquire().permits(2)).expect_err("more than there are");
        assert!(matches!(error, Error::ExceedsCapacity { capacity: 1, .. }), "{error}");
        assert_eq!(wait(seats.resize(2)).expect("an answer"), 2);
        let guard = wait(seats.acquire()).expect("a permit");
        assert_eq!(
            (wait(seats.held_permits()).expect("an answer"), wait(seats.available_permits()).expect("an answer")),
            (1, 1)
        );
        assert!(wait(seats.lease_of(guard.ids()[0])).expect("an answer").is_some());
        assert_eq!(wait(seats.inspect()).expect("an answer").map(|counts| counts.permits.len()), Some(1));
        assert_eq!(wait(seats.release_ids(&guard.ids())).expect("an answer"), [true]);
        assert!(matches!(wait(guard.release()), Err(Error::Lost { .. })));

        let parts = client.count_down_latch(&names[2]);
        assert!(wait(parts.try_set_count(2)).expect("an answer"));
        let error = wait(parts.opened().wait(ms(20))).expect_err("a closed latch");
        assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
        let waiting = std::thread::spawn({
            let parts = parts.clone();
            move || wait(parts.opened())
        });
        assert_eq!((wait(parts.count_down()).expect("an answer"), wait(parts.count()).expect("an answer")), (1, 1));
        assert_eq!(wait(parts.count_down_by(5)).expect("an answer"), 0);
        waiting.join().expect("a thread").expect("an open latch");
        assert!(!wait(parts.delete()).expect("an answer"));
    })
    .await;
}

pub(crate) async fn an_owner_of_threads_takes_its_locks_again(world: World) {
    let name = world.name("threads");
    in_thread(&world, move |client| {
        let lock = client.lock(&name);
        let owner = client.new_owner();
        let outer = owner.scope_blocking(|| {
            let outer = wait(lock.acquire()).expect("the lock");
            let inner = wait(lock.acquire()).expect("a re-entry");
            assert_eq!(inner.hold_count(), 2);
            assert_eq!(client.stats().held, 1);
            wait(inner.release()).expect("a release");
            outer
        });
        assert!(wait(lock.try_acquire()).expect("an answer").is_none(), "the scope is over");
        let named = wait(lock.acquire().owner(&owner)).expect("a named owner");
        assert_eq!(wait(named.reenter()).expect("a re-entry").hold_count(), 3);
        let elsewhere = std::thread::spawn({
            let lock = lock.clone();
            move || wait(lock.try_acquire()).map(|guard| guard.is_some())
        });
        assert!(!elsewhere.join().expect("a thread").expect("an answer"), "another thread is not in the scope");
        wait(named.release()).expect("a release");
        wait(outer.release()).expect("a release");
        assert_eq!(wait(client.who_is(client.id())).expect("an answer"), None);
    })
    .await;
}

pub(crate) async fn thread_whose_lock_was_lost_is_told_and_keeps_its_value(world: World) {
    let name = world.name("threads");
    in_thread(&world, move |client| {
        let lock = client.lock(&name);
        let outcome = wait(lock.with(async |_held| {
            wait(lock.force_release()).expect("an answer");
            7
        }));
        let Err(WithError::Lost { reason, value, .. }) = outcome else { panic!("it was lost: {outcome:?}") };
        assert_eq!((reason, value), (LossReason::Removed, Some(7)));
    })
    .await;
}
