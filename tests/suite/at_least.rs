//! Locks that stay busy after their release, and jobs that run once in a period.

use crate::support::world::idle;
use crate::support::{Actor, Stage, World, ms, secs, until};
use leasehold::embedded::{EmbeddedServer, ServerClock};
use leasehold::once::{Occurrence, Period};
use leasehold::{Client, ClientBuilder, Error, Fallback, InvalidInput, LossReason, WithError};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

/// Longer than a test takes.
const LONG: Duration = secs(600);

pub(crate) async fn released_lock_stays_busy_for_its_least_time(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    for way in 0..3 {
        let name = world.name("kept");
        let guard = client.lock(&name).acquire().keep_busy_for(LONG).await.expect("the lock");
        let holder = guard.holder_id();
        match way {
            0 => guard.release().await.expect("a release"),
            1 => drop(guard),
            _ => {
                let inner = guard.reenter().await.expect("a re-entry");
                guard.release().await.expect("a release");
                assert!(inner.is_held(), "the lock has another guard");
                inner.release().await.expect("a release");
            }
        }
        idle(&client).await;
        assert_eq!(world.holds(&name), [(format!("{holder}!"), 1)]);
        // The lease was shorter.
        assert!(world.lease(&name).is_some_and(|left| left > LONG - secs(60) && left <= LONG));
        for client in [&client, &other] {
            let lock = client.lock(&name);
            assert!(lock.try_acquire().await.expect("an answer").is_none(), "not for its former client either");
            assert!(lock.inspect().await.expect("an answer").is_some_and(|holder| holder.is_kept()));
        }
        assert!(other.lock(&name).force_release().await.expect("an answer").is_some(), "an operator can free it");
        other
            .lock(&name)
            .try_acquire()
            .await
            .expect("an answer")
            .expect("the lock")
            .release()
            .await
            .expect("a release");
    }
}

pub(crate) async fn waiter_gets_a_kept_lock_when_its_time_is_over(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("kept");
    // The lease of 30 s, by which the waiter would look again, ends long after that.
    let begun = std::time::Instant::now();
    let guard = client.fenced_lock(&name).acquire().keep_busy_for(ms(600)).await.expect("the lock");
    let token = guard.fencing_token();
    let waiting = tokio::spawn(other.fenced_lock(&name).acquire().wait(secs(20)).into_future());
    until("the waiter listens", || world.subscribers(&name) == 1).await;
    guard.release().await.expect("a release");
    let next = waiting.await.expect("a task").expect("the lock, when the time is over");
    assert!(begun.elapsed() >= ms(590), "it was in after {:?}", begun.elapsed());
    assert!(next.fencing_token() > token);
    next.release().await.expect("a release");
    world.gone(&name).await;
}

pub(crate) async fn only_a_release_of_what_was_held_keeps_a_lock_busy(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    // A time that is over frees the lock.
    let name = world.name("over");
    let guard = client.lock(&name).acquire().keep_busy_for(ms(1)).await.expect("the lock");
    until("the time is over", || guard.held_for() > ms(20)).await;
    guard.release().await.expect("a release");
    assert!(!world.exists(&name));
    // What was lost is not kept.
    let name = world.name("lost");
    let guard = client.lock(&name).acquire().keep_busy_for(LONG).await.expect("the lock");
    other.lock(&name).force_release().await.expect("an answer").expect("a holder");
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    let next = other.lock(&name).try_acquire().await.expect("an answer").expect("the lock");
    next.release().await.expect("a release");
    let name = world.name("lost");
    let guard = client.lock(&name).acquire().max_hold(ms(300)).keep_busy_for(LONG).await.expect("the lock");
    assert_eq!(guard.lost().await.reason(), LossReason::MaxHold);
    drop(guard);
    world.gone(&name).await;
    // A client that hands holds on, or lets them linger, does not do so with these.
    let client = world.client_with(|builder| builder.hand_over(true)).await;
    let name = world.name("handed on");
    let lock = client.lock(&name).linger(ms(500));
    let guard = lock.acquire().keep_busy_for(LONG).await.expect("the lock");
    let waiting = tokio::spawn(lock.acquire().into_future());
    until("the waiter listens", || world.subscribers(&name) == 1).await;
    guard.release().await.expect("a release");
    client.shutdown(secs(5)).await.expect("nothing is left");
    assert!(matches!(waiting.await.expect("a task"), Err(Error::ShutDown { .. })), "it waits until the end");
    assert!(world.exists(&name), "it stays busy beyond its client");
    world.delete(&name);
}

pub(crate) async fn least_times_are_checked_before_anything_is_sent(world: World) {
    let client = world.client().await;
    let lock = client.lock(world.name("kept"));
    for wrong in [Duration::ZERO, Duration::MAX] {
        let refused = lock.acquire().keep_busy_for(wrong).await.expect_err("it cannot be");
        assert!(matches!(refused, Error::Invalid(InvalidInput::Duration { .. })), "{refused}");
    }
    let refused = lock.fallback(Fallback::Local).acquire().keep_busy_for(secs(1)).await.expect_err("it cannot be");
    assert!(matches!(refused, Error::Invalid(InvalidInput::Contradiction(_))), "{refused}");
}

pub(crate) async fn job_runs_once_in_a_period(world: World) {
    let client = world.client_with(|builder| builder.lease(secs(3))).await;
    let other = world.client().await;
    let name = world.name("nightly");
    let on = |client: &Client, day: &str| client.once(&name, Period::key(day));
    // It fails at first, and is not done; then it is at work, and then it is done.
    let failed = on(&client, "23").try_run(async |_| Err::<u32, _>("disk full")).await.expect("a run");
    assert_eq!(failed, Occurrence::Ran(Err("disk full")));
    let job = on(&client, "23");
    let elsewhere = job.try_run(async |held| {
        let seen = on(&other, "23").run(async |_| panic!("it runs twice")).await.expect("an answer");
        let Occurrence::Elsewhere(holder) = seen else { panic!("it is at work, and not {seen:?}") };
        assert_eq!(holder.id, held.holder_id());
        Ok::<_, ()>(7)
    });
    assert_eq!(elsewhere.await.expect("a run"), Occurrence::Ran(Ok(7)));
    for client in [&client, &other] {
        let seen = on(client, "23").run(async |_| panic!("it runs twice")).await.expect("an answer");
        assert_eq!(seen, Occurrence::AlreadyDone);
    }
    assert_eq!(on(&other, "24").run(async |_| 8).await.expect("a run"), Occurrence::Ran(8), "the next period");
    // A job that was dropped in its middle is not done.
    let dropped = on(&client, "25");
    assert!(tokio::time::timeout(ms(200), dropped.run(async |_| std::future::pending::<()>().await)).await.is_err());
    world.gone(dropped.lock().name()).await;
    // One whose lock was lost is told so.
    let lost = dropped.run(async |_| {
        other.lock(dropped.lock().name()).force_release().await.expect("an answer").expect("a holder");
        std::future::pending::<()>().await;
    });
    let lost = tokio::time::timeout(secs(60), lost).await.expect("an end").expect_err("a loss");
    assert!(matches!(lost, WithError::Lost { value: None, .. }), "{lost}");
    for day in ["23", "24"] {
        world.delete(on(&client, day).lock().name());
    }
}

/// Fails at its first call in a process.
#[leasehold::once(name = name, period = Period::key(day))]
async fn nightly(client: &Client, name: &str, day: &str, calls: &AtomicUsize) -> Result<usize, String> {
    let call = calls.fetch_add(1, Ordering::Relaxed);
    if call == 0 {
        return Err("disk full".to_owned());
    }
    Ok(call)
}

/// The nearest full millennium since 1970 is the same at any time of this test.
#[leasehold::once(name = name, every = "1000years")]
async fn millennium(name: String, client: Client) {}

struct Service {
    client: Client,
    name: String,
}

impl Service {
    #[leasehold::once(name = &self.name, period = Period::key("23"), client = self.client)]
    async fn report(&self, pages: u32) -> u32 {
        pages
    }
}

pub(crate) async fn function_with_the_attribute_runs_once_in_a_period(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let (name, calls) = (world.name("nightly"), Arc::new(AtomicUsize::new(0)));
    // In a task of its own: the future can change threads.
    let task = {
        let (client, name, calls) = (client.clone(), name.clone(), calls.clone());
        tokio::spawn(async move { nightly(&client, &name, "23", &calls).await })
    };
    let failed = task.await.expect("a task").expect("a run");
    assert_eq!(failed, Occurrence::Ran(Err("disk full".to_owned())));
    assert_eq!(nightly(&other, &name, "23", &calls).await.expect("a run"), Occurrence::Ran(Ok(1)), "it was not done");
    assert_eq!(nightly(&client, &name, "23", &calls).await.expect("an answer"), Occurrence::AlreadyDone);
    assert_eq!(nightly(&client, &name, "24", &calls).await.expect("a run"), Occurrence::Ran(Ok(2)), "the next period");
    // While another process runs it, its body does not run.
    let elsewhere = other.once(&name, Period::key("25"));
    let Occurrence::Ran(guard) = elsewhere.begin().await.expect("an answer") else { panic!("it is free") };
    let seen = nightly(&client, &name, "25", &calls).await.expect("an answer");
    assert!(matches!(&seen, Occurrence::Elsewhere(holder) if holder.id == guard.holder_id()), "{seen:?}");
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    guard.release().await.expect("a release");

    let job = world.name("millennium");
    for expected in [Occurrence::Ran(()), Occurrence::AlreadyDone] {
        assert_eq!(millennium(job.clone(), client.clone()).await.expect("an answer"), expected);
    }
    let service = Service { client: client.clone(), name: world.name("service") };
    assert_eq!(service.report(7).await.expect("a run"), Occurrence::Ran(7));
    assert_eq!(service.report(8).await.expect("an answer"), Occurrence::AlreadyDone);
    for (job, period) in [(&name, "23"), (&name, "24"), (&job, "0"), (&service.name, "23")] {
        world.delete(client.once(job, Period::key(period)).lock().name());
    }
}

pub(crate) async fn jobs_whose_names_join_alike_run_apart(world: World) {
    let client = world.client().await;
    let name = world.name("nightly");
    let apart = [
        (name.clone(), "b@c".to_owned()),
        (format!("{name}@b"), "c".to_owned()),
        (name.clone(), "b%40c".to_owned()),
        (format!("{name}@b%40c"), "%".to_owned()),
        (name.clone(), "b%40c@%".to_owned()),
    ];
    for (job, period) in &apart {
        let ran = client.once(job, Period::key(period)).run(async |_| ()).await.expect("an answer");
        assert_eq!(ran, Occurrence::Ran(()), "{job} in {period}");
    }
    for (job, period) in &apart {
        world.delete(client.once(job, Period::key(period)).lock().name());
    }
    assert_eq!(client.once("report", Period::key("2026-11-23")).lock().name(), "report@2026-11-23");
    for (job, period) in [("", "23"), ("report", "")] {
        let error = client.once(job, Period::key(period)).run(async |_| ()).await.expect_err("it has no name");
        assert!(matches!(error, WithError::NotAcquired(Error::Invalid(_))), "{job:?} in {period:?}: {error}");
    }
}

pub(crate) async fn tick_between_two_periods_is_refused(world: World) {
    let client = world.client().await;
    let hour = secs(3_600);
    let (day, midnight) = (24 * hour, UNIX_EPOCH + 20_783 * 24 * hour);
    let name = world.name("job");
    let schedules = [
        ("daily at noon", midnight + day / 2, day),
        ("hourly at half past", midnight + hour / 2, hour),
        ("every five minutes at 2:30", midnight + secs(150), secs(300)),
        ("weekly on Sunday at noon", midnight + 3 * day + day / 2, 7 * day),
    ];
    for (schedule, tick, every) in schedules {
        let with_phase =
            |clock| client.once(format!("{name}:{schedule}"), Period::around(clock, every).offset(every / 2));
        for clock in [tick - ms(20), tick, tick + ms(20)] {
            let job = client.once(&name, Period::around(clock, every));
            let error = job.run(async |_| ()).await.expect_err("another clock reads another period");
            let WithError::NotAcquired(Error::Invalid(InvalidInput::Period { job, message })) = error else {
                panic!("{schedule}: {error}");
            };
            assert_eq!(job, name);
            assert!(message.contains("offset") && message.contains("Period::at"), "{schedule}: {message}");
            let first = with_phase(clock).run(async |_| ()).await.expect("an answer");
            assert_eq!(first == Occurrence::Ran(()), clock < tick, "{schedule}: one run for the three clocks");
        }
        world.delete(with_phase(tick).lock().name());
    }
}

pub(crate) async fn job_runs_only_by_grant_of_its_server(_: World) {
    for fallback in [Fallback::Local, Fallback::PassThrough] {
        let stage = Stage::new();
        let settings = |builder: ClientBuilder| builder.fallback(fallback).unreachable_after(ms(300));
        let client = stage.client_with(settings);
        stage.server.set_down(true);
        let plain = client.lock("plain");
        let mut actors = [Actor::new(async move { plain.acquire().await })];
        stage.pass_until("a fallback", secs(5), &mut actors, |actors| actors[0].is_done());
        assert!(actors[0].take().expect("a guard").is_degraded());
        let job = client.once("report", Period::key("23"));
        let mut runs = [Actor::new(async move { job.run(async |_| ()).await })];
        stage.pass_until("an answer", secs(5), &mut runs, |runs| runs[0].is_done());
        let error = runs[0].take().expect_err("each process would run it");
        let unreachable = matches!(error, WithError::NotAcquired(Error::Unreachable { .. }));
        assert!(unreachable, "{fallback:?}: {error}");
    }
}

/// Five processes with clocks that differ by up to 4 s, a job that is done in a moment, and replies that take time.
pub(crate) fn thousand_ticks_of_five_processes_run_once_each() {
    const TICKS: u32 = 1_000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    for round_trip in [ms(0), ms(5), ms(100)] {
        runtime.as_ref().expect("a runtime").block_on(async {
            let zero = tokio::time::Instant::now();
            let server = EmbeddedServer::with_clock(ServerClock::tokio(zero));
            server.set_round_trip(round_trip);
            let ran: Arc<Vec<AtomicUsize>> = Arc::new((0..TICKS).map(|_| AtomicUsize::new(0)).collect());
            let every = secs(10);
            let mut processes = Vec::new();
            for offset in [0, 1_000, 2_000, 3_000, 4_000].map(ms) {
                let client = Client::builder().tokio_clock(zero).embedded(&server).expect("a client");
                let ran = ran.clone();
                processes.push(tokio::spawn(async move {
                    for tick in 0..TICKS {
                        tokio::time::sleep_until(zero + every * (tick + 1) + offset).await;
                        // Its clock is behind by the offset, and its timer is late by a moment.
                        let clock = UNIX_EPOCH + every * (tick + 1) + ms(3);
                        let job = async |_: &_| {
                            tokio::time::sleep(ms(1_000)).await;
                            ran[tick as usize].fetch_add(1, Ordering::Relaxed);
                        };
                        client.once("job", Period::around(clock, every)).run(job).await.expect("an answer");
                    }
                }));
            }
            for process in processes {
                process.await.expect("a process");
            }
            let wrong = ran.iter().filter(|ran| ran.load(Ordering::Relaxed) != 1).count();
            assert_eq!(wrong, 0, "of {TICKS} ticks so many did not run once, with replies after {round_trip:?}");
        });
    }
}

pub(crate) async fn job_that_panics_is_not_done_and_runs_elsewhere(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("nightly");
    let job = client.once(&name, Period::key("23"));
    let task = tokio::spawn(async move { job.run(async |_| panic!("a job that panics")).await.map(drop) });
    assert!(task.await.expect_err("a panic").is_panic());
    let job = other.once(&name, Period::key("23"));
    // The release of the first one is on its way.
    world.gone(job.lock().name()).await;
    assert_eq!(job.run(async |_| 7).await.expect("an answer"), Occurrence::Ran(7));
    assert_eq!(job.run(async |_| 8).await.expect("an answer"), Occurrence::AlreadyDone);
    world.delete(job.lock().name());
}

pub(crate) async fn done_job_runs_again_after_the_time_for_which_it_is_kept(_: World) {
    use futures_util::FutureExt as _;
    let clock = leasehold::embedded::ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().manual_clock(&clock).embedded(&server).expect("a client");
    let run = || {
        let job = client.once("report", Period::key("23").keep(secs(90)));
        let ran = Box::pin(async move { job.run(async |_| ()).await }).now_or_never().expect("an answer");
        ran.expect("no error") == Occurrence::Ran(())
    };
    assert!(run());
    clock.advance(secs(89));
    assert!(!run(), "it is kept, for longer than a lease");
    clock.advance(secs(2));
    assert!(run() && !run());
}
