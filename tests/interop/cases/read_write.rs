//! Readers and writers of both sides.

use crate::kind::{Held, Kind, Wish};
use crate::place::PlaceName;
use crate::suite::Cases;
use crate::world::{LEASE, NEVER, SLACK, World, clock, pass, settings, soon};
use std::time::{Duration, Instant};

/// How many of a side wait at once.
const MANY: usize = 3;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(place, "read-write: readers of both sides read together, and keep writers of both out", together);
        cases.add(place, "read-write: all Rust readers wake up when a JVM's writer leaves", rust_readers_wake);
        cases.add(place, "read-write: all JVM's readers wake up when a Rust writer leaves", jvm_readers_wake);
        cases.add(place, "read-write: a Rust writer gets in when the last reader, of a JVM, leaves", rust_writer_wakes);
        cases.add(place, "read-write: a JVM's writer gets in when the last reader, of Rust, leaves", jvm_writer_wakes);
        cases.add(place, "read-write: readers of both sides are renewed for 3 leases", renewed);
        let reader =
            |lease: &str| format!("read-write: a {lease} reader of Rust outlives a JVM's that renews and dies");
        cases.add_with(place, reader("60 s"), false, long_reader);
        cases.add_with(place, reader("renewed 60 s"), true, long_reader);
        cases.add(
            place,
            "read-write: a Rust writer does not sleep for a JVM's reader that has left",
            rust_writer_looks,
        );
        cases.add(place, "read-write: a JVM's reader that was killed lets a Rust writer in", jvm_reader_dies);
        cases.add(place, "read-write: a Rust reader that was killed lets a JVM's writer in", rust_reader_dies);
        cases.add(place, "read-write: a downgrade of Rust lets a JVM's readers in, and no writer", rust_downgrades);
        cases.add(place, "read-write: a downgrade of a JVM lets Rust readers in, and no writer", jvm_downgrades);
        cases.add(place, "read-write: counts of readers of both sides", counts);
    }
}

/// Neither side gets a writer in.
async fn no_writer(world: &World) {
    let other = world.actor("writer");
    assert!(!other.yes("tryLock", &[&world.object(Kind::Write)]).await, "somebody reads");
    let writer = world.lock(Kind::Write).try_acquire().await.expect("an answer");
    assert!(writer.is_none(), "somebody reads");
}

async fn reader(world: &World) -> Box<dyn Held> {
    world.lock(Kind::Read).try_acquire().await.expect("an answer").expect("a lock that can be read")
}

async fn together(world: World) {
    let (jvm, read, write) = (world.actor("jvm"), world.object(Kind::Read), world.object(Kind::Write));
    assert!(jvm.yes("tryLock", &[&read]).await);
    let guard = reader(&world).await;
    let second = reader(&world).await;
    assert!(world.actor("next").yes("tryLock", &[&read]).await);
    no_writer(&world).await;
    assert!(jvm.yes("isLocked", &[&read]).await && !jvm.yes("isLocked", &[&write]).await);
    second.release().await.expect("a release");
    jvm.tell("unlock", &[&read]).await;
    no_writer(&world).await;
    world.actor("next").tell("unlock", &[&read]).await;
    no_writer(&world).await;
    guard.release().await.expect("a release");
    assert!(jvm.yes("tryLock", &[&write]).await, "nobody reads");
    assert!(world.lock(Kind::Read).try_acquire().await.expect("an answer").is_none(), "a JVM writes");
    jvm.tell("unlock", &[&write]).await;
    let writer = world.lock(Kind::Write).try_acquire().await.expect("an answer").expect("a lock that is free");
    assert!(!jvm.yes("tryLock", &[&read]).await, "Rust writes");
    writer.release().await.expect("a release");
    assert!(world.fields(&world.name).is_empty());
}

async fn rust_readers_wake(world: World) {
    let (jvm, write) = (world.actor("jvm"), world.object(Kind::Write));
    jvm.tell("lock", &[&write, &NEVER.as_millis().to_string()]).await;
    let waiting: Vec<_> = (0..MANY).map(|_| tokio::spawn(world.lock(Kind::Read).acquire(Wish::default()))).collect();
    world.until_waiting(Kind::Read, 1).await;
    let unlocked = clock();
    jvm.tell("unlock", &[&write]).await;
    let mut guards = Vec::new();
    for waiter in waiting {
        guards.push(waiter.await.expect("a task").expect("the lock"));
    }
    soon(unlocked);
    no_writer(&world).await;
    for guard in guards {
        guard.release().await.expect("a release");
    }
}

async fn jvm_readers_wake(world: World) {
    let read = world.object(Kind::Read);
    let writer = world.lock(Kind::Write).acquire(Wish { lease: Some(NEVER), ..Wish::default() }).await;
    let actors: Vec<_> = (0..MANY).map(|number| world.actor(&format!("reader-{number}"))).collect();
    let mut waiting = Vec::new();
    for actor in &actors {
        waiting.push(actor.begin("lock", &[&read]).await);
    }
    world.until_waiting(Kind::Read, 1).await;
    // Those who share the subscription fall asleep a moment later; a message wakes those who sleep.
    pass(Duration::from_millis(300)).await;
    let released = clock();
    writer.expect("the lock").release().await.expect("a release");
    for waiter in waiting {
        waiter.await.expect("an answer").expect("no exception");
    }
    soon(released);
    no_writer(&world).await;
    for actor in &actors {
        actor.tell("unlock", &[&read]).await;
    }
}

async fn rust_writer_wakes(world: World) {
    let (jvm, read) = (world.actor("jvm"), world.object(Kind::Read));
    jvm.tell("lock", &[&read, &NEVER.as_millis().to_string()]).await;
    let guard = reader(&world).await;
    let waiting = tokio::spawn(world.lock(Kind::Write).acquire(Wish::default()));
    world.until_waiting(Kind::Write, 1).await;
    guard.release().await.expect("a release");
    pass(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "the JVM still reads");
    let unlocked = clock();
    jvm.tell("unlock", &[&read]).await;
    let writer = waiting.await.expect("a task").expect("the lock");
    soon(unlocked);
    assert!(!jvm.yes("tryLock", &[&read]).await, "Rust writes");
    writer.release().await.expect("a release");
}

/// A JVM does not tell that it leaves while others read, and no message tells of the other reader's end.
async fn rust_writer_looks(world: World) {
    let (jvm, read) = (world.actor("jvm"), world.object(Kind::Read));
    let short = Wish { lease: Some(LEASE), ..Wish::default() };
    jvm.tell("lock", &[&read, &NEVER.as_millis().to_string()]).await;
    let _over = world.lock(Kind::Read).acquire(short).await.expect("the lock");
    let begun = clock();
    let waiting = tokio::spawn(world.lock(Kind::Write).acquire(Wish::default()));
    world.until_waiting(Kind::Write, 1).await;
    jvm.tell("unlock", &[&read]).await;
    let writer = waiting.await.expect("a task").expect("the lock");
    within_a_lease(begun);
    writer.release().await.expect("a release");
}

async fn jvm_writer_wakes(world: World) {
    let (jvm, read, write) = (world.actor("jvm"), world.object(Kind::Read), world.object(Kind::Write));
    let long = Wish { lease: Some(NEVER), ..Wish::default() };
    let guard = world.lock(Kind::Read).acquire(long).await.expect("the lock");
    jvm.tell("lock", &[&read, &NEVER.as_millis().to_string()]).await;
    let writer = world.actor("writer");
    let waiting = writer.begin("lock", &[&write]).await;
    world.until_waiting(Kind::Write, 1).await;
    jvm.tell("unlock", &[&read]).await;
    pass(Duration::from_millis(200)).await;
    assert!(!waiting.is_finished(), "Rust still reads");
    let released = clock();
    guard.release().await.expect("a release");
    waiting.await.expect("an answer").expect("no exception");
    soon(released);
    assert!(world.lock(Kind::Read).try_acquire().await.expect("an answer").is_none(), "the JVM writes");
    writer.tell("unlock", &[&write]).await;
}

async fn renewed(world: World) {
    let (jvm, read) = (world.actor("jvm"), world.object(Kind::Read));
    jvm.tell("lock", &[&read]).await;
    let guard = reader(&world).await;
    let end = Instant::now() + LEASE * 3;
    while Instant::now() < end {
        no_writer(&world).await;
        pass(Duration::from_millis(200)).await;
    }
    assert!(jvm.yes("isHeld", &[&read]).await, "the JVM lost it, and the server has {:?}", world.fields(&world.name));
    if !guard.is_held() {
        panic!("Rust lost it: {}; the server has {:?}", guard.lost().await, world.fields(&world.name));
    }
    jvm.tell("unlock", &[&read]).await;
    pass(LEASE).await;
    no_writer(&world).await;
    guard.release().await.expect("a lock that was held throughout");
    let writer = world.lock(Kind::Write).try_acquire().await.expect("an answer").expect("a lock that is free");
    writer.release().await.expect("a release");
}

async fn long_reader(world: World, is_renewed: bool) {
    const LONG: Duration = Duration::from_secs(60);
    // It takes its time to start, in which nothing must be renewed yet.
    let (jvm, doomed) = world.mortal().await;
    let read = world.object(Kind::Read);
    let client = world.client(settings().lease(LONG)).await;
    let wish = Wish { lease: (!is_renewed).then_some(LONG), ..Wish::default() };
    let guard = Kind::Read.of(&client, &world.name).acquire(wish).await.expect("the lock");
    doomed.tell("lock", &[&read]).await;
    // It renews, which sets the lease of the hash to that of its watchdog.
    pass(LEASE / 2).await;
    no_writer(&world).await;
    jvm.kill();
    let end = Instant::now() + LEASE * 2;
    while Instant::now() < end {
        no_writer(&world).await;
        pass(Duration::from_millis(200)).await;
    }
    // A reader that comes and goes reckons anew who is left.
    let passing = world.actor("passing");
    assert!(passing.yes("tryLock", &[&read]).await);
    passing.tell("unlock", &[&read]).await;
    no_writer(&world).await;
    assert!(guard.is_held());
    guard.release().await.expect("a lock that was held throughout");
    let writer = world.lock(Kind::Write).acquire(Wish { wait: Some(SLACK), ..Wish::default() }).await;
    writer.expect("a lock that is free").release().await.expect("a release");
}

async fn jvm_reader_dies(world: World) {
    let (jvm, doomed) = world.mortal().await;
    doomed.tell("lock", &[&world.object(Kind::Read)]).await;
    let waiting = tokio::spawn(world.lock(Kind::Write).acquire(Wish::default()));
    world.until_waiting(Kind::Write, 1).await;
    jvm.kill();
    let killed = clock();
    let writer = waiting.await.expect("a task").expect("the lock");
    within_a_lease(killed);
    writer.release().await.expect("a release");
}

async fn rust_reader_dies(world: World) {
    let (jvm, write) = (world.actor("jvm"), world.object(Kind::Write));
    let mut child = world.child().await;
    child.acquire(Kind::Read, &world.name).await;
    let waiting = jvm.begin("lock", &[&write]).await;
    world.until_waiting(Kind::Write, 1).await;
    child.kill();
    let killed = clock();
    waiting.await.expect("an answer").expect("no exception");
    within_a_lease(killed);
    jvm.tell("unlock", &[&write]).await;
}

async fn rust_downgrades(world: World) {
    let (jvm, read) = (world.actor("jvm"), world.object(Kind::Read));
    let client = world.client(settings().lease(NEVER)).await;
    let writer = client.read_write_lock(&world.name).write().acquire().await.expect("the lock");
    let waiting = jvm.begin("lock", &[&read]).await;
    world.until_waiting(Kind::Read, 1).await;
    let downgraded = clock();
    let guard = writer.downgrade().await.expect("the read half");
    waiting.await.expect("an answer").expect("no exception");
    soon(downgraded);
    no_writer(&world).await;
    jvm.tell("unlock", &[&read]).await;
    no_writer(&world).await;
    guard.release().await.expect("a release");
    assert!(jvm.yes("tryLock", &[&world.object(Kind::Write)]).await, "nobody reads");
    jvm.tell("unlock", &[&world.object(Kind::Write)]).await;
}

async fn jvm_downgrades(world: World) {
    let (jvm, read, write) = (world.actor("jvm"), world.object(Kind::Read), world.object(Kind::Write));
    jvm.tell("lock", &[&write]).await;
    jvm.tell("lock", &[&read]).await;
    assert!(world.lock(Kind::Read).try_acquire().await.expect("an answer").is_none(), "the JVM still writes");
    jvm.tell("unlock", &[&write]).await;
    let guard = reader(&world).await;
    no_writer(&world).await;
    jvm.tell("unlock", &[&read]).await;
    no_writer(&world).await;
    guard.release().await.expect("a release");
    assert!(jvm.yes("tryLock", &[&write]).await, "nobody reads");
    jvm.tell("unlock", &[&write]).await;
}

async fn counts(world: World) {
    let (jvm, read) = (world.actor("jvm"), world.object(Kind::Read));
    let id = world.holder_id(&jvm).await;
    let count = |id: &str| {
        let fields = world.fields(&world.name);
        fields.into_iter().find(|(field, _)| field.starts_with(id)).map(|(_, count)| count)
    };
    let owner = world.rust.new_owner();
    let wish = Wish { owner: Some(owner), ..Wish::default() };
    let mut guards = Vec::new();
    for number in ["1", "2", "3"] {
        jvm.tell("lock", &[&read]).await;
        guards.push(world.lock(Kind::Read).acquire(wish.clone()).await.expect("the lock"));
        assert_eq!([count(&id), count(world.rust.id().as_str())], [Some(number.to_owned()), Some(number.to_owned())]);
        assert_eq!(jvm.ask("holdCount", &[&read]).await, number);
    }
    for left in [2, 1] {
        jvm.tell("unlock", &[&read]).await;
        guards.pop().expect("a guard").release().await.expect("a release");
        assert_eq!([count(&id), count(world.rust.id().as_str())], [Some(left.to_string()), Some(left.to_string())]);
        no_writer(&world).await;
    }
    jvm.tell("unlock", &[&read]).await;
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&read]).await;
    assert_eq!([count(&id), count(world.rust.id().as_str())], [None, Some("1".to_owned())]);
    guards.pop().expect("a guard").release().await.expect("a release");
    assert!(world.fields(&world.name).is_empty());
}

#[track_caller]
fn within_a_lease(since: u64) {
    let waited = Duration::from_micros(clock().saturating_sub(since));
    assert!(waited <= LEASE + SLACK, "{waited:?}");
}
