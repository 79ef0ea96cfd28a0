//! The read-write lock. RW1 to RW18 are faults of other libraries, by their ids in `docs/field-bugs.md`.

use crate::support::world::idle;
use crate::support::{Actor, NEVER, Stage, World, ms, secs, until};
use leasehold::kind::{Read, Write};
use leasehold::{Client, Error, Guard, LossReason, ReadLock, Tuning, WriteLock};
use leasehold_core::reply::Reply;
use std::time::Duration;

/// The time that a command and the turn of a future take on a clock that only ticks.
const STEP: Duration = ms(10);

/// A guard of either half.
#[derive(Debug)]
#[expect(dead_code, reason = "a guard is kept for what it holds")]
enum Either {
    Read(Guard<Read>),
    Write(Guard<Write>),
}

type Waiter = Actor<Result<Either, Error>>;

fn reads(lock: &ReadLock) -> Waiter {
    let lock = lock.clone();
    Actor::new(async move { lock.acquire().await.map(Either::Read) })
}

fn writes(lock: &WriteLock) -> Waiter {
    let lock = lock.clone();
    Actor::new(async move { lock.acquire().await.map(Either::Write) })
}

impl Stage {
    fn reader(&self, client: &Client, name: &str) -> Guard<Read> {
        let lock = client.read_write_lock(name).read();
        self.now(async move { lock.acquire().await }).expect("the read half")
    }

    fn writer(&self, client: &Client, name: &str) -> Guard<Write> {
        let lock = client.read_write_lock(name).write();
        self.now(async move { lock.acquire().await }).expect("the write half")
    }

    fn all_done(&self, waiters: &mut [Waiter]) -> Duration {
        self.pass_until("everybody", secs(60), waiters, |waiters| waiters.iter().all(Actor::is_done))
    }

    /// Nothing of the lock is left, and no client listens.
    #[track_caller]
    fn is_clean(&self) {
        self.pass(STEP, &mut Vec::<Waiter>::new());
        assert!(self.keys().is_empty(), "{:?}", self.keys());
        assert_eq!(self.server.subscriptions(), 0);
    }
}

pub(crate) async fn readers_and_writers_exclude_each_other(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let name = world.name("halves");
    let (here, there) = (one.read_write_lock(&name), other.read_write_lock(&name));
    let writing = here.write().acquire().await.expect("the write half");
    assert!(there.read().try_acquire().await.expect("an answer").is_none());
    assert!(there.write().try_acquire().await.expect("an answer").is_none());
    assert!(here.read().try_acquire().await.expect("an answer").is_none(), "another owner of the same client");
    // RW2 and RW10: those who wait to read come in together when the writer becomes a reader.
    let mut tasks = Vec::new();
    for lock in [here.read(), there.read(), there.read()] {
        tasks.push(tokio::spawn(async move { lock.acquire().await }));
    }
    until("all wait", || one.stats().requests == 1 && other.stats().requests == 2).await;
    let reading = writing.downgrade().await.expect("the read half");
    let mut guards = vec![reading];
    for task in tasks {
        guards.push(task.await.expect("a task").expect("the read half"));
    }
    assert!(guards.iter().all(|guard| guard.is_held()));
    assert!(there.write().try_acquire().await.expect("an answer").is_none());
    let waiting = tokio::spawn({
        let lock = there.write();
        async move { lock.acquire().await }
    });
    for guard in guards {
        guard.release().await.expect("a release");
    }
    waiting.await.expect("a task").expect("the write half").release().await.expect("a release");
    idle(&one).await;
    idle(&other).await;
    until("nothing is left", || !world.exists(&name) && !world.exists(&format!("leasehold:1:rw_readers:{{{name}}}")))
        .await;
}

/// RW4, RW15 and RW18, in every order in which an owner can take and leave both halves.
pub(crate) async fn rw4_an_owner_leaves_the_halves_in_any_order(world: World) {
    let (client, other) = (world.client().await, world.client().await);
    let name = world.name("nested");
    let (lock, outside) = (client.read_write_lock(&name), other.read_write_lock(&name));
    for read_first in [true, false] {
        let owner = client.new_owner();
        owner
            .scope(async {
                let writing = lock.write().acquire().await.expect("the write half");
                let reading = lock.read().acquire().await.expect("its own read half");
                let again = lock.read().acquire().await.expect("and again");
                again.release().await.expect("a release");
                assert!(outside.read().try_acquire().await.expect("an answer").is_none());
                if read_first {
                    reading.release().await.expect("a release");
                    assert!(writing.is_held());
                    writing.release().await.expect("a release");
                } else {
                    writing.release().await.expect("a release");
                    assert!(reading.is_held());
                    assert!(outside.write().try_acquire().await.expect("an answer").is_none());
                    drop(outside.read().try_acquire().await.expect("an answer").expect("readers may come in"));
                    reading.release().await.expect("a release");
                }
            })
            .await;
        until("nothing is left", || !world.exists(&name)).await;
    }
    // A reader that has entered twice and left once still reads.
    let owner = client.new_owner();
    let outer = lock.read().acquire().owner(&owner).await.expect("the read half");
    let inner = lock.read().acquire().owner(&owner).await.expect("a re-entry");
    inner.release().await.expect("a release");
    assert!(outside.write().try_acquire().await.expect("an answer").is_none());
    outer.release().await.expect("a release");
    outside
        .write()
        .try_acquire()
        .await
        .expect("an answer")
        .expect("the write half")
        .release()
        .await
        .expect("a release");
    idle(&client).await;
    idle(&other).await;
}

pub(crate) async fn rw11_a_reader_does_not_become_a_writer(world: World) {
    let client = world.client().await;
    let lock = client.read_write_lock(world.name("upgrade"));
    let owner = client.new_owner();
    let reading = lock.read().acquire().owner(&owner).await.expect("the read half");
    for _ in 0..2 {
        let error = lock.write().acquire().owner(&owner).await.expect_err("an upgrade");
        assert!(matches!(error, Error::UpgradeNotSupported { .. }), "{error}");
    }
    assert!(reading.is_held());
    reading.release().await.expect("a release");
    lock.write().acquire().owner(&owner).await.expect("the write half").release().await.expect("a release");
    idle(&client).await;
}

/// One of two readers, that with the long lease, leaves, and the other one's lease runs out. The writer is told of neither.
pub(crate) async fn a_writer_does_not_sleep_for_a_reader_that_has_left(world: World) {
    let (client, other) =
        (world.client().await, world.client_with(|builder| builder.tuning(Tuning::new().recheck(NEVER))).await);
    let name = world.name("sleeps");
    let read = client.read_write_lock(&name).read();
    let _short = read.acquire().lease(secs(2)).await.expect("the read half");
    let long = read.acquire().lease(NEVER).await.expect("the read half");
    let waiting = tokio::spawn({
        let lock = other.read_write_lock(&name).write();
        async move { lock.acquire().await }
    });
    until("the writer listens", || world.listeners(&name, &format!("redisson_rwlock:{{{name}}}")) == 1).await;
    long.release().await.expect("a release");
    let writing = waiting.await.expect("a task").expect("the write half");
    writing.release().await.expect("a release");
}

/// The same on a clock that only ticks: not a moment later than the short lease.
pub(crate) async fn a_writer_looks_again_when_the_first_lease_may_be_over(_: World) {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    let reader = |lease: Duration| {
        let lock = client.read_write_lock("first").read();
        stage.now(async move { lock.acquire().lease(lease).await }).expect("the read half")
    };
    let (short, long) = (reader(secs(2)), reader(secs(20)));
    let mut waiters = [writes(&other.read_write_lock("first").write())];
    stage.pass(ms(400), &mut waiters);
    drop(long);
    let took = stage.all_done(&mut waiters) + ms(400);
    assert!(took >= secs(2) - STEP && took <= secs(2) + 3 * STEP, "in after {took:?}");
    drop((short, waiters));
    stage.is_clean();
}

/// The dead reader's hold ends by its own deadline, whichever others are renewed.
pub(crate) async fn rw1_a_dead_reader_is_gone_by_its_own_lease(_: World) {
    let mut stage = Stage::new();
    let (mortal, alive, other) = (stage.mortal(), stage.client(), stage.client());
    let dead = stage.reader(&mortal, "zombie");
    let living = stage.reader(&alive, "zombie");
    let _clocks = stage.kill();
    std::mem::forget(dead);
    let mut waiters = [writes(&other.read_write_lock("zombie").write())];
    stage.pass(secs(45), &mut waiters);
    // Others come and go, and find it gone.
    drop(stage.reader(&alive, "zombie"));
    assert!(!waiters[0].is_done() && living.is_held());
    let Reply::Int(fields) = stage.command(&["HLEN", "zombie"]) else { panic!("a length") };
    assert_eq!(fields, 2, "the mode and one reader");
    drop(living);
    assert!(stage.all_done(&mut waiters) <= STEP);
    drop(waiters);
    stage.is_clean();
    std::mem::forget(mortal);
}

pub(crate) async fn rw5_leases_do_not_add_up(_: World) {
    let stage = Stage::new();
    let client = stage.client();
    let outer = stage.writer(&client, "sum");
    let mut inner = Vec::new();
    let owner_guard = std::sync::Arc::new(outer);
    for _ in 0..3 {
        let guard = owner_guard.clone();
        inner.push(stage.now(async move { guard.reenter().await }).expect("a re-entry"));
    }
    assert!(matches!(stage.command(&["PTTL", "sum"]), Reply::Int(left) if left <= 30_000));
    drop((inner, owner_guard));
    stage.is_clean();
}

pub(crate) async fn rw8_every_reader_of_a_client_is_renewed(_: World) {
    let stage = Stage::new();
    let client = stage.client();
    let mut guards: Vec<Guard<Read>> = (0..100).map(|_| stage.reader(&client, "many")).collect();
    stage.clock.advance(secs(75));
    assert!(guards.iter().all(Guard::is_held));
    while let Some(guard) = guards.pop() {
        stage.now(guard.release()).expect("a release");
    }
    stage.is_clean();
}

/// A hold that is released after its end was lost, on both halves.
pub(crate) async fn rw9_a_release_after_the_end_is_a_loss(_: World) {
    let stage = Stage::new();
    let client = stage.client();
    let reading = stage.reader(&client, "late");
    stage.command(&["DEL", "late"]);
    let error = stage.now(reading.release()).expect_err("a lost hold");
    assert!(matches!(error, Error::Lost { reason: LossReason::Removed, .. }), "{error}");
    let writing = stage.writer(&client, "late");
    stage.command(&["DEL", "late"]);
    let error = stage.now(writing.release()).expect_err("a lost hold");
    assert!(matches!(error, Error::Lost { reason: LossReason::Removed, .. }), "{error}");
}

pub(crate) async fn rw10_readers_come_in_together(_: World) {
    let stage = Stage::new();
    let (holder, one, other) = (stage.client(), stage.client(), stage.client());
    let writing = stage.writer(&holder, "together");
    let mut waiters: Vec<Waiter> =
        [&one, &one, &other, &one].iter().map(|client| reads(&client.read_write_lock("together").read())).collect();
    stage.pass(ms(100), &mut waiters);
    drop(writing);
    assert!(stage.all_done(&mut waiters) <= STEP);
    drop(waiters);
    stage.is_clean();
}

/// Readers that overlap without an end: a writer that is preferred gets in, however long it has to wait for the reader before.
pub(crate) async fn rw12_a_writer_that_is_preferred_gets_in(_: World) {
    let stage = Stage::new();
    let (one, other) = (stage.client(), stage.client());
    let lock = one.read_write_lock("starved").prefer_writers();
    let long = stage.now({
        let read = lock.read();
        async move { read.acquire().await }
    });
    let mut waiters = [writes(&other.read_write_lock("starved").prefer_writers().write())];
    stage.pass(ms(20), &mut waiters);
    // The mark of a writer that waits does not run out.
    for _ in 0..40 {
        let read = lock.read();
        assert!(stage.now(async move { read.try_acquire().await }).expect("an answer").is_none(), "a new reader");
        stage.pass(ms(500), &mut waiters);
    }
    drop(long);
    assert!(stage.all_done(&mut waiters) <= STEP);
    let mut readers = [reads(&lock.read()), reads(&other.read_write_lock("starved").prefer_writers().read())];
    stage.pass(ms(20), &mut readers);
    drop(waiters);
    assert!(stage.all_done(&mut readers) <= STEP);
    // The mark of a writer that gives up goes with it.
    let mut waiters = [writes(&lock.write())];
    stage.pass(secs(1), &mut waiters);
    let mut more = [reads(&lock.read())];
    stage.pass(ms(20), &mut more);
    assert!(!more[0].is_done());
    waiters[0].dropped();
    assert!(stage.all_done(&mut more) <= STEP);
    drop((readers, more));
    stage.is_clean();
}

/// An owner that waits to read, and then writes in another branch, would wait for itself.
pub(crate) async fn a_reader_is_let_in_beside_its_own_owner(_: World) {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    let (lock, owner) = (client.read_write_lock("beside"), client.new_owner());
    let busy = stage.writer(&other, "beside");
    let (reading, writing) = (lock.read().acquire().owner(&owner), lock.write().acquire().owner(&owner));
    let mut waiters = [
        Actor::new(async move { writing.await.map(Either::Write) }),
        Actor::new(async move { reading.await.map(Either::Read) }),
    ];
    stage.pass(ms(100), &mut waiters);
    drop(busy);
    let took = stage.pass_until("both halves", secs(5), &mut waiters, |waiters| waiters.iter().all(Actor::is_done));
    assert!(took <= STEP, "in after {took:?}");
    drop(waiters);
    stage.is_clean();
}
