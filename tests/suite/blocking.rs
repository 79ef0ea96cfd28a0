//! Every kind, for threads without a runtime.

use crate::support::world::idle;
use crate::support::{World, ms, secs};
use leasehold::{Error, LossReason, WithError, blocking};

/// Runs `work` on a thread without a runtime, with a client for threads.
async fn in_thread(world: &World, work: impl FnOnce(&blocking::Client) + Send + 'static) {
    let client = world.client().await;
    let on_thread = blocking::Client::from(client.clone());
    let thread = std::thread::spawn(move || work(&on_thread));
    tokio::task::spawn_blocking(|| thread.join()).await.expect("a thread").expect("a thread that did not panic");
    idle(&client).await;
}

pub(crate) async fn threads_take_locks_of_every_kind(world: World) {
    let names: Vec<String> = (0..8).map(|_| world.name("threads")).collect();
    in_thread(&world, move |client| {
        let fair = client.fair_lock(&names[0]);
        let guard = fair.acquire_with(|acquire| acquire.wait(secs(5))).expect("the lock");
        assert!(fair.try_acquire().expect("an answer").is_none());
        let queue = fair.inspect().expect("an answer");
        assert_eq!(queue.holder.map(|holder| holder.id), Some(guard.holder_id()));
        assert_eq!(fair.force_release().expect("an answer").map(|holder| holder.id), Some(guard.holder_id()));
        assert_eq!(guard.lost().reason(), LossReason::Removed);
        assert!(matches!(guard.release(), Err(Error::Lost { .. })));

        let fenced = client.fenced_lock(&names[1]);
        let value = client.fenced_value(&names[2]);
        let guard = fenced.acquire().expect("the lock");
        assert!(guard.fencing_token().as_u64() > 0 && guard.held_for() < secs(20));
        value.check(&guard).expect("the newest token");
        value.write(&guard, "1").expect("the newest token");
        assert_eq!(value.read(&guard).expect("the newest token").as_deref(), Some(b"1".as_slice()));
        let same = guard.into_async();
        assert!(same.is_held());
        drop(same);

        let spin = blocking::Lock::from(client.as_async().spin_lock(&names[3]).class("tests"));
        assert_eq!(spin.with(|held| (held.is_held(), held.hold_count())).expect("work"), (true, 1));
        let busy = spin.acquire().expect("the lock");
        let error = spin.with_acquire(|acquire| acquire.wait(ms(20)), |_| ()).expect_err("a busy lock");
        assert!(matches!(Error::from(error), Error::WaitElapsed { .. }));
        busy.release().expect("a release");

        let simple = blocking::Lock::from(client.as_async().simple_lock(&names[4], secs(30)).with_id("worker-7"));
        simple.acquire().expect("the lock").detach();
        assert_eq!(simple.inspect().expect("an answer").map(|holder| holder.id), Some("worker-7".into()));
        assert!(simple.release().expect("an answer"));
        assert_eq!(simple.force_release().expect("an answer"), None);

        let catalog = client.read_write_lock(&names[5]);
        let writing = catalog.write().acquire().expect("the write half");
        assert!(catalog.read().try_acquire().expect("an answer").is_none());
        let beside = writing.read().expect("the read half");
        beside.release().expect("a release");
        let reading = writing.downgrade().expect("a reader");
        let seen = catalog.inspect().expect("an answer");
        assert_eq!((seen.writer, seen.readers.len()), (None, 1));
        assert_eq!(catalog.write().inspect().expect("an answer"), None);
        assert_eq!(catalog.read().inspect().expect("an answer").len(), 1);
        reading.release().expect("a release");

        let multi = client.multi_lock([client.as_async().lock(&names[6]), client.as_async().lock(&names[7])]);
        let both = multi.acquire_with(|acquire| acquire.wait(secs(5))).expect("both locks");
        assert!(both.is_held() && both.remaining() > ms(0) && !both.cancellation_token().is_cancelled());
        assert!(multi.try_acquire().expect("an answer").is_none());
        both.release().expect("a release");
        let quorum = blocking::QuorumLock::new([client.as_async().clone()], &names[6]);
        let guard = quorum.acquire().expect("a quorum of one");
        assert!(guard.is_held());
        guard.release().expect("a release");
    })
    .await;
}

pub(crate) async fn threads_take_permits_and_wait_at_latches(world: World) {
    let names: Vec<String> = (0..3).map(|_| world.name("threads")).collect();
    in_thread(&world, move |client| {
        let seats = client.bare_semaphore(&names[0]);
        assert!(seats.try_set_permits(2).expect("an answer"));
        let guard = seats.acquire_with(|acquire| acquire.permits(2)).expect("two permits");
        assert_eq!((guard.permits(), seats.available_permits().expect("an answer")), (2, 0));
        let other = std::thread::spawn({
            let seats = seats.clone();
            move || seats.acquire()?.release()
        });
        guard.release().expect("a release");
        other.join().expect("a thread").expect("a permit, and its release");
        assert_eq!(seats.drain_permits().expect("an answer"), 2);
        assert_eq!((seats.release_permits(1).expect("an answer"), seats.add_permits(1).expect("an answer")), (1, 2));
        assert!(seats.try_acquire_many(3).expect("an answer").is_none());

        let seats = client.semaphore(&names[1]);
        assert!(seats.try_set_permits(1).expect("an answer"));
        let error = seats.acquire_with(|acquire| acquire.permits(2)).expect_err("more than there are");
        assert!(matches!(error, Error::ExceedsCapacity { capacity: 1, .. }), "{error}");
        assert_eq!(seats.resize(2).expect("an answer"), 2);
        let guard = seats.acquire().expect("a permit");
        assert_eq!((seats.held_permits().expect("an answer"), seats.available_permits().expect("an answer")), (1, 1));
        assert!(seats.lease_of(guard.ids()[0]).expect("an answer").is_some());
        assert_eq!(seats.inspect().expect("an answer").map(|counts| counts.permits.len()), Some(1));
        assert_eq!(seats.release_ids(&guard.ids()).expect("an answer"), [true]);
        assert!(matches!(guard.release(), Err(Error::Lost { .. })));

        let parts = client.count_down_latch(&names[2]);
        assert!(parts.try_set_count(2).expect("an answer"));
        let error = parts.wait_with(|wait| wait.wait(ms(20))).expect_err("a closed latch");
        assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
        let waiting = std::thread::spawn({
            let parts = parts.clone();
            move || parts.wait()
        });
        assert_eq!((parts.count_down().expect("an answer"), parts.count().expect("an answer")), (1, 1));
        assert_eq!(parts.count_down_by(5).expect("an answer"), 0);
        waiting.join().expect("a thread").expect("an open latch");
        assert!(!parts.delete().expect("an answer"));
    })
    .await;
}

pub(crate) async fn an_owner_of_threads_takes_its_locks_again(world: World) {
    let name = world.name("threads");
    in_thread(&world, move |client| {
        let lock = client.lock(&name);
        let owner = client.new_owner();
        let outer = owner.scope_blocking(|| {
            let outer = lock.acquire().expect("the lock");
            let inner = lock.acquire().expect("a re-entry");
            assert_eq!(inner.hold_count(), 2);
            assert_eq!(client.stats().held, 1);
            inner.release().expect("a release");
            outer
        });
        assert!(lock.try_acquire().expect("an answer").is_none(), "the scope is over");
        let named = lock.acquire_with(|acquire| acquire.owner(&owner)).expect("a named owner");
        assert_eq!(named.reenter().expect("a re-entry").hold_count(), 3);
        let elsewhere = std::thread::spawn({
            let lock = lock.clone();
            move || lock.try_acquire().map(|guard| guard.is_some())
        });
        assert!(!elsewhere.join().expect("a thread").expect("an answer"), "another thread is not in the scope");
        named.release().expect("a release");
        outer.release().expect("a release");
        assert_eq!(client.who_is(client.id()).expect("an answer"), None);
    })
    .await;
}

pub(crate) async fn thread_whose_lock_was_lost_is_told_and_keeps_its_value(world: World) {
    let name = world.name("threads");
    in_thread(&world, move |client| {
        let lock = client.lock(&name);
        let outcome = lock.with(|_held| {
            lock.force_release().expect("an answer");
            7
        });
        let Err(WithError::Lost { reason, value, .. }) = outcome else { panic!("it was lost: {outcome:?}") };
        assert_eq!((reason, value), (LossReason::Removed, Some(7)));
    })
    .await;
}
