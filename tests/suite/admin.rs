//! Looking at a lock from outside, ending a hold that is not one's own, and threads without a runtime.

use crate::support::world::idle;
use crate::support::{NEVER, RENEWED, World, ms, secs, until};
use leasehold::blocking::wait;
use leasehold::{AnyLock, Error, LossReason, Tuning};

pub(crate) async fn an_inspection_names_the_holder(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("inspected");
    assert_eq!(other.lock(&name).inspect().await.expect("an answer"), None);
    let guard = client.lock(&name).acquire().lease(secs(60)).await.expect("the lock");
    let inner = guard.reenter().await.expect("a re-entry");
    let holder = other.lock(&name).inspect().await.expect("an answer").expect("a holder");
    assert!(holder.id.is_of(&client.id()), "{holder:?}");
    assert_eq!(holder.hold_count, 2);
    let remaining = holder.remaining.expect("a lease");
    assert!(remaining > secs(40) && remaining <= secs(60), "{remaining:?}");
    inner.release().await.expect("a release");
    guard.release().await.expect("a release");
    assert_eq!(client.lock(&name).inspect().await.expect("an answer"), None);
    // A hash without a lease, as another client's mistake may leave it.
    let _ = world.command(&name, &["HSET", &name, "somebody:1", "1"]);
    let holder = client.lock(&name).inspect().await.expect("an answer").expect("a holder");
    assert_eq!((holder.id.as_str(), holder.hold_count, holder.remaining), ("somebody:1", 1, None));
    world.delete(&name);
}

pub(crate) async fn grant_tells_the_earlier_holder_of_its_loss_at_once(world: World) {
    let client = world.client().await;
    let name = |kind: &str| world.name(&format!("lost-{kind}"));
    let both = client.read_write_lock(name("read"));
    let other_way = client.read_write_lock(name("writer-first"));
    let locks: [(AnyLock, AnyLock); 9] = [
        client.lock(name("lock")).erase(),
        client.fair_lock(name("fair")).erase(),
        client.fenced_lock(name("fenced")).erase(),
        client.fair_lock(name("fenced-fair")).fenced().erase(),
        client.spin_lock(name("spin")).erase(),
        client.simple_lock(name("simple"), secs(60)).erase(),
        client.read_write_lock(name("write")).write().erase(),
        both.read().erase(),
        other_way.write().erase(),
    ]
    .map(|lock| match lock.name() {
        name if name == both.name() => (lock, both.write().erase()),
        name if name == other_way.name() => (lock, other_way.read().erase()),
        _ => (lock.clone(), lock),
    });
    for (lock, next) in locks {
        let first = lock.acquire().await.expect("the lock");
        assert!(first.is_held());
        world.delete(lock.name());
        let second = next.try_acquire().await.expect("an answer").expect("nothing is there any more");
        assert!(!first.is_held(), "the client knows better: {lock:?}");
        let error = first.release().await.expect_err("it was lost");
        assert!(matches!(error, Error::Lost { reason: LossReason::Removed, .. }), "{error}");
        assert!(second.is_held(), "{lock:?}");
        second.release().await.expect("a release");
    }
}

pub(crate) async fn grant_of_permits_has_missing_ones_asked_for_at_once(world: World) {
    let client = world.client_with(|builder| builder.lease(NEVER)).await;
    let seats = client.semaphore(world.name("lost-seats"));
    assert!(seats.try_set_permits(4).await.expect("an answer"));
    let first = seats.acquire().permits(2).await.expect("permits");
    let second = seats.acquire().await.expect("a permit");
    assert!(first.is_held() && second.is_held());
    // The data is lost, and the semaphore is set anew: no message tells the client, and this test does not live to see the next renewal.
    let deadlines = format!("{{{}}}:timeout", seats.name());
    world.command(seats.name(), &["DEL", seats.name(), &deadlines]);
    assert!(seats.try_set_permits(4).await.expect("an answer"));
    let third = seats.acquire().permits(2).await.expect("permits");
    for lost in [&first, &second] {
        assert_eq!(lost.lost().await.reason(), LossReason::Removed);
    }
    assert!(third.is_held(), "what the server has is not doubted");
    third.release().await.expect("a release");
}

pub(crate) async fn a_force_release_wakes_waiters_and_is_a_loss(world: World) {
    // A waiter that is not woken sleeps until the test has ended.
    let holder = world.client_with(|builder| builder.lease(NEVER)).await;
    let waiter = world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await;
    let operator = world.client().await;
    let name = world.name("forced");
    assert_eq!(operator.lock(&name).force_release().await.expect("an answer"), None);
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    let waiting = tokio::spawn({
        let lock = waiter.lock(&name);
        async move { lock.acquire().await }
    });
    until("the waiter listens", || world.subscribers(&name) == 1).await;
    let ended = operator.lock(&name).force_release().await.expect("an answer").expect("a holder");
    assert!(ended.id.is_of(&holder.id()), "{ended:?}");
    let got = waiting.await.expect("a task").expect("the lock");
    assert!(matches!(guard.release().await, Err(Error::Lost { reason: LossReason::Removed, .. })));
    assert_eq!(world.count(&name), 1, "the release of a lost hold does not touch the next one");
    got.release().await.expect("a release");
    world.gone(&name).await;
    idle(&holder).await;
    // The next renewal finds the loss.
    let brief = world.client_with(|builder| builder.lease(RENEWED)).await;
    let guard = brief.lock(&name).acquire().await.expect("the lock");
    operator.lock(&name).force_release().await.expect("an answer").expect("a holder");
    assert_eq!(guard.lost().await.reason(), LossReason::Removed);
}

pub(crate) async fn threads_without_a_runtime_take_the_same_locks(world: World) {
    let client = world.client().await;
    let name = world.name("threads");
    let guard = client.lock(&name).acquire().await.expect("the lock");
    let (url, embedded) = (world.url(), world.embedded().cloned());
    let (began, begun) = tokio::sync::oneshot::channel();
    let in_threads = {
        let name = name.clone();
        std::thread::spawn(move || {
            let client = match (url, embedded) {
                (Some(url), _) => wait(leasehold::Client::connect(&url)).expect("a client"),
                (None, Some(server)) => leasehold::Client::builder().embedded(&server).expect("a client"),
                (None, None) => unreachable!("an engine is one of the two"),
            };
            let lock = client.lock(&name);
            assert!(wait(lock.try_acquire()).expect("an answer").is_none());
            let error = wait(lock.acquire().wait(ms(30))).expect_err("a busy lock");
            assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
            began.send(()).expect("somebody who listens");
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    let lock = lock.clone();
                    std::thread::spawn(move || {
                        let guard = wait(lock.acquire()).expect("the lock");
                        assert_eq!(wait(lock.inspect()).expect("an answer").map(|holder| holder.hold_count), Some(1));
                        let again = wait(guard.reenter()).expect("a re-entry");
                        assert_eq!(again.hold_count(), 2);
                        wait(again.release()).expect("a release");
                        assert!(guard.is_held() && guard.remaining() > ms(0));
                        wait(guard.release()).expect("a release");
                    })
                })
                .collect();
            for worker in workers {
                worker.join().expect("a thread");
            }
            assert_eq!(wait(lock.with(async |held| held.hold_count())).expect("work under the lock"), 1);
            let guard = wait(lock.acquire().lease(ms(80))).expect("the lock");
            let token = guard.cancellation_token();
            assert_eq!(wait(guard.lost()).reason(), LossReason::LeaseExpired);
            assert!(token.is_cancelled());
            drop(guard);
            let guard = wait(lock.acquire()).expect("the lock");
            assert!(wait(lock.force_release()).expect("an answer").is_some());
            assert!(matches!(wait(guard.release()), Err(Error::Lost { .. })));
            wait(lock.acquire()).expect("the lock").detach();
            wait(client.shutdown(secs(5))).expect("nothing is left but what was detached");
        })
    };
    begun.await.expect("threads that begin");
    until("a thread waits for the lock", || world.subscribers(&name) == 1).await;
    guard.release().await.expect("a release");
    tokio::task::spawn_blocking(|| in_threads.join()).await.expect("a thread").expect("a thread that did not panic");
    assert_eq!(world.count(&name), 1, "the detached lock runs out by itself");
    world.delete(&name);
}

pub(crate) async fn a_blocking_call_panics_in_an_async_context(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("async"));
    let from_async = tokio::spawn({
        let lock = lock.clone();
        async move { wait(lock.acquire()).map(drop) }
    });
    let panic = from_async.await.expect_err("a panic").into_panic();
    let text =
        panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    let text = text.expect("a text");
    assert!(text.contains("leasehold::blocking") && text.contains("spawn_blocking"), "{text}");
    // A thread that the runtime keeps for blocking may block.
    let kept = tokio::task::spawn_blocking({
        let lock = lock.clone();
        move || wait(wait(lock.acquire())?.release())
    });
    kept.await.expect("a task").expect("the lock, and its release");
    world.gone(lock.name()).await;
}
