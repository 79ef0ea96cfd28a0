//! Waiting: who is woken when, and what it costs.

use crate::support::world::idle;
use crate::support::{Engine, NEVER, World, ms, secs, until};
use leasehold::{Client, Error, Tuning};
use leasehold_test_support::Rounds;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

pub(crate) async fn a_try_on_a_busy_lock_is_none_at_once(world: World) {
    let (holder, other) = (world.client().await, world.client().await);
    let name = world.name("busy");
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    assert!(holder.lock(&name).try_acquire().await.expect("an answer").is_none(), "the holder's own client");
    assert!(other.lock(&name).try_acquire().await.expect("an answer").is_none(), "another client");
    guard.release().await.expect("a release");
    let taken = other.lock(&name).try_acquire().await.expect("an answer").expect("the lock, which is free");
    taken.release().await.expect("a release");
    world.gone(&name).await;
    idle(&other).await;
}

pub(crate) async fn elapsed_wait_names_the_holder_of_every_exclusive_kind(world: World) {
    let (first, second) = (world.client().await, world.client().await);
    macro_rules! names {
        ($label:literal, $held:expr, $asked:expr) => {{
            let name = world.name($label);
            let guard = $held(&first, &name).acquire().await.expect("the lock");
            let error = $asked(&second, &name).acquire().wait(ms(30)).await.expect_err("a busy lock");
            let Error::WaitElapsed { holder, .. } = &error else { panic!("{error}") };
            assert_eq!(*holder, Some(guard.holder_id()), "{}: {error}", $label);
            assert!(error.to_string().contains(guard.holder_id().as_str()), "{error}");
            guard.release().await.expect("a release");
        }};
        ($label:literal, $lock:expr) => {
            names!($label, $lock, $lock)
        };
    }
    names!("plain", |client: &Client, name: &str| client.lock(name));
    names!("fenced", |client: &Client, name: &str| client.fenced_lock(name));
    names!("spin", |client: &Client, name: &str| client.spin_lock(name));
    names!("fair", |client: &Client, name: &str| client.fair_lock(name));
    names!("simple", |client: &Client, name: &str| client.simple_lock(name, secs(30)));
    let read = |client: &Client, name: &str| client.read_write_lock(name).read();
    let write = |client: &Client, name: &str| client.read_write_lock(name).write();
    names!("written", write, read);
    names!("read", read, write);
    let name = world.name("seats");
    let seat = first.semaphore(&name);
    seat.try_set_permits(1).await.expect("an answer");
    let guard = seat.acquire().await.expect("the permit");
    let error = second.semaphore(&name).acquire().wait(ms(30)).await.expect_err("no permit");
    assert!(matches!(error, Error::WaitElapsed { holder: None, .. }), "{error}");
    guard.release().await.expect("a release");
}

pub(crate) async fn a_wait_that_runs_out_makes_a_last_attempt(world: World) {
    let (holder, waiter) = (world.client().await, world.client().await);
    let name = world.name("busy");
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    let begun = Instant::now();
    let error = waiter.lock(&name).acquire().wait(ms(80)).await.expect_err("a busy lock");
    let Error::WaitElapsed { lock, waited, .. } = &error else { panic!("{error}") };
    assert!(*lock == name && *waited >= ms(80), "{error}");
    assert!(begun.elapsed() >= ms(80));
    drop(guard);
    world.gone(&name).await;
    // A release of which no waiter was told: the key alone goes. Only an attempt at the end of the wait can see it. A machine that is held up for the
    // whole wait spoils a round.
    let mut rounds = Rounds::default();
    loop {
        let guard = holder.lock(&name).acquire().await.expect("the lock");
        let last = tokio::spawn({
            let lock = waiter.lock(&name);
            async move { lock.acquire().wait(secs(2)).await }
        });
        until("the waiter listens, or has listened", || world.subscribers(&name) == 1 || last.is_finished()).await;
        world.delete(&name);
        let got = last.await.expect("a task");
        drop(guard);
        if rounds.end_with(got.is_ok(), got.as_ref().err()) {
            got.expect("the lock").release().await.expect("a release");
            break;
        }
        world.gone(&name).await;
    }
    world.gone(&name).await;
    idle(&waiter).await;
}

pub(crate) async fn a_wait_of_zero_is_one_attempt(world: World) {
    let (holder, waiter) = (world.client().await, world.client().await);
    let name = world.name("busy");
    // A caller whose task is held up beside the reply finds that its grant has passed.
    let mut rounds = Rounds::default();
    loop {
        let free = waiter.lock(&name).acquire().wait(Duration::ZERO).await;
        if rounds.end_with(free.is_ok(), free.as_ref().err()) {
            free.expect("a free lock needs no wait").release().await.expect("a release");
            break;
        }
    }
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    let error = waiter.lock(&name).acquire().wait(Duration::ZERO).await.expect_err("a busy lock");
    assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    guard.release().await.expect("a release");
    world.gone(&name).await;
    idle(&waiter).await;
}

pub(crate) async fn a_wait_without_end_does_not_overflow(world: World) {
    let (holder, waiter) = (world.client().await, world.client().await);
    let name = world.name("busy");
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    for wait in [Duration::MAX, Duration::MAX - ms(1), secs(u64::MAX / 2)] {
        let waiting = tokio::spawn({
            let lock = waiter.lock(&name);
            async move { lock.acquire().wait(wait).await }
        });
        until("the waiter listens", || world.subscribers(&name) == 1).await;
        assert!(!waiting.is_finished(), "it waits");
        waiting.abort();
        assert!(waiting.await.expect_err("an aborted task").is_cancelled());
        until("nobody listens", || world.subscribers(&name) == 0).await;
    }
    let waiting = waiter.lock(&name);
    let waiting = tokio::spawn(async move { waiting.acquire().wait(Duration::MAX).await });
    until("the waiter listens", || world.subscribers(&name) == 1).await;
    guard.release().await.expect("a release");
    let got = waiting.await.expect("a task").expect("the lock, once it is free");
    got.release().await.expect("a release");
}

/// The waiter has one attempt before it listens, one after, and one when it is told: nothing in between, however long it waits.
pub(crate) async fn a_release_wakes_another_client_without_polling(world: World) {
    let world = world.own();
    world.warm();
    // A waiter that is not woken sleeps until the test has ended.
    let holder = world.client_with(|builder| builder.lease(NEVER)).await;
    let waiter = world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await;
    // A task that is held up makes one call more: no round is without these, and one is without others.
    let mut rounds = Rounds::default();
    loop {
        let name = world.name("busy");
        let guard = holder.lock(&name).acquire().await.expect("the lock");
        let before = world.calls();
        let waiting = tokio::spawn({
            let lock = waiter.lock(&name);
            async move { lock.acquire().await }
        });
        until("the waiter has tried before and after listening", || world.calls() >= before + 2).await;
        assert_eq!(world.subscribers(&name), 1);
        tokio::time::sleep(ms(400)).await;
        let asleep = world.calls() - before;
        guard.release().await.expect("a release");
        let got = waiting.await.expect("a task").expect("the lock");
        let in_all = world.calls() - before;
        got.release().await.expect("a release");
        world.gone(&name).await;
        idle(&waiter).await;
        // Nothing is sent while it waits; then there is a release, and one attempt that it caused.
        if rounds.end_with((asleep, in_all) == (2, 4), (asleep, in_all)) {
            break;
        }
    }
}

/// Ten thousand tasks on the embedded engine, fewer where every step is a round trip.
pub(crate) async fn many_waiters_are_one_subscription_and_one_attempt_a_release(world: World) {
    let world = world.own();
    world.warm();
    let tasks: u64 = match world.engine {
        Engine::Embedded => 10_000,
        Engine::Slow => 100,
        _ => 300,
    };
    let (holder, client) = (world.client().await, world.client().await);
    let mut rounds = Rounds::default();
    loop {
        let name = world.name("crowd");
        let guard = holder.lock(&name).acquire().await.expect("the lock");
        let mut crowd = JoinSet::new();
        for _ in 0..tasks {
            let lock = client.lock(&name);
            crowd.spawn(async move {
                let guard = lock.acquire().await.expect("the lock");
                assert!(guard.is_held());
                guard.release().await.expect("a release");
            });
        }
        let waiting = usize::try_from(tasks).expect("a number of tasks");
        until("all wait", || client.stats().requests == waiting).await;
        until("the waiters listen", || world.subscribers(&name) == 1).await;
        assert_eq!(world.subscriptions(), 1);
        assert_eq!(client.stats().subscriptions, 1);
        let before = world.calls();
        guard.release().await.expect("a release");
        while let Some(done) = crowd.join_next().await {
            done.expect("a task");
        }
        let calls = world.calls() - before;
        let turns = client.stats();
        world.gone(&name).await;
        idle(&client).await;
        // An attempt and a release for each task, and one attempt more for each turn that passes while its task is held up.
        if rounds
            .end_with(calls <= 2 * tasks + 1 + tasks / 5 + 10, format!("{calls} calls for {tasks} tasks, {turns:?}"))
        {
            break;
        }
    }
}

pub(crate) async fn a_waiter_gets_what_a_crashed_holder_left_when_the_lease_ends(world: World) {
    let (crashed, waiter) =
        (world.client().await, world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await);
    let name = world.name("crashed");
    let begun = Instant::now();
    // A holder that will never renew nor release, and of whose end no waiter is told.
    crashed.lock(&name).acquire().lease(ms(400)).await.expect("the lock").detach();
    let got = waiter.lock(&name).acquire().await.expect("the lock");
    assert!(begun.elapsed() >= ms(390), "in after {:?}", begun.elapsed());
    got.release().await.expect("a release");
    world.gone(&name).await;
}

pub(crate) async fn elapsed_wait_says_that_its_task_waited_for_itself(world: World) {
    let client = world.client().await;
    let (outer, inner) = (client.new_owner(), client.new_owner());
    let waited_for_itself = |error: &Error| {
        let Error::WaitElapsed { waits_for_itself, .. } = error else { panic!("{error}") };
        assert_eq!(error.to_string().contains("waits for itself"), *waits_for_itself, "{error}");
        *waits_for_itself
    };
    let (lock, halves) = (client.lock(world.name("stock")), client.read_write_lock(world.name("book")));
    outer
        .scope(async {
            let guard = lock.acquire().await.expect("the lock");
            let reader = halves.read().acquire().await.expect("the read half");
            // The inner scope has another owner, and does not re-enter.
            inner
                .scope(async {
                    let error = lock.acquire().wait(ms(30)).await.expect_err("the scope around it has it");
                    assert!(waited_for_itself(&error));
                    let error = halves.write().acquire().wait(ms(30)).await.expect_err("the scope around it reads");
                    assert!(waited_for_itself(&error));
                })
                .await;
            // An owner that is named hides the scope in the same way.
            let error = lock.acquire().owner(&inner).wait(ms(30)).await.expect_err("the scope around it has it");
            assert!(waited_for_itself(&error));
            // A task of its own is in no scope, and merely waits.
            let elsewhere = tokio::spawn({
                let lock = lock.clone();
                async move { lock.acquire().wait(ms(30)).await }
            });
            assert!(!waited_for_itself(&elsewhere.await.expect("a task").expect_err("it is held")));
            reader.release().await.expect("a release");
            guard.release().await.expect("a release");
        })
        .await;
    // After the release it is contention like any other.
    let guard = lock.acquire().await.expect("the lock");
    let error = outer.scope(async { lock.acquire().wait(ms(30)).await }).await.expect_err("another owner has it");
    assert!(!waited_for_itself(&error));
    guard.release().await.expect("a release");
    idle(&client).await;
}

pub(crate) async fn a_wait_until_an_instant_ends_then(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let lock = client.lock(world.name("deadline"));
    let guard = other.lock(lock.name()).acquire().await.expect("the lock");
    let begun = Instant::now();
    let waits = lock.acquire().wait_until(begun + ms(300));
    tokio::time::sleep(ms(200)).await;
    let error = waits.await.expect_err("a busy lock");
    assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    assert!(begun.elapsed() >= ms(300), "after {:?}", begun.elapsed());
    let Error::WaitElapsed { waited, .. } = error else { return };
    assert!(waited < ms(300), "the wait counts from the instant, not from the first poll: {waited:?}");
    let both = client.multi_lock([lock.clone(), client.lock(world.name("free"))]);
    let error = both.acquire().wait_until(begun).await.expect_err("a busy lock, and an instant in the past");
    assert!(matches!(error, Error::WaitElapsed { .. }), "{error}");
    guard.release().await.expect("a release");
    let guard = lock.acquire().wait_until(begun).await.expect("a free lock needs no wait");
    guard.release().await.expect("a release");
}
