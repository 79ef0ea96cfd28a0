//! Looking at fair, read-write and simple locks from outside, and who is behind a holder.

use crate::support::world::idle;
use crate::support::{World, ms, secs, until};
use leasehold::{Client, Error, LossReason};
use std::time::Duration;

/// Asks until the answer is what is wanted.
async fn sees<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<T, Error>, wanted: impl Fn(&T) -> bool) -> T {
    let end = std::time::Instant::now() + secs(20);
    loop {
        let seen = ask().await.expect("an answer");
        if wanted(&seen) {
            return seen;
        }
        assert!(std::time::Instant::now() < end, "waited in vain until {what}");
        tokio::time::sleep(ms(2)).await;
    }
}

pub(crate) async fn a_fair_lock_tells_its_holder_and_its_queue(world: World) {
    let (holder, waiter, operator) =
        (world.client_with(|builder| builder.lease(secs(3))).await, world.client().await, world.client().await);
    let name = world.name("till");
    let till = operator.fair_lock(&name);
    let free = till.inspect().await.expect("an answer");
    assert_eq!((free.holder, free.waiters.len()), (None, 0));
    assert_eq!(till.force_release().await.expect("an answer"), None);
    let guard = holder.fair_lock(&name).acquire().await.expect("the lock");
    let inner = guard.reenter().await.expect("a re-entry");
    let mut waiting = Vec::new();
    for place in 1..=2 {
        let mine = waiter.fair_lock(&name);
        waiting.push(tokio::spawn(async move { mine.acquire().await }));
        sees("the task has its place", async || till.inspect().await, |seen| seen.waiters.len() == place).await;
    }
    let seen = till.inspect().await.expect("an answer");
    let held = seen.holder.expect("a holder");
    assert_eq!((held.id.clone(), held.hold_count), (guard.holder_id(), 2));
    assert!(held.remaining.is_some_and(|left| left > Duration::ZERO && left <= secs(3)), "{held:?}");
    assert!(seen.waiters.iter().all(|one| one.is_alive && one.id.is_of(&waiter.id())), "{:?}", seen.waiters);
    assert!(seen.waiters[0].waited.expect("a native waiter") >= seen.waiters[1].waited.expect("a native waiter"));
    inner.release().await.expect("a release");
    let ended = till.force_release().await.expect("an answer").expect("a holder");
    assert_eq!((ended.id, ended.hold_count), (held.id, 1));
    let first = waiting.remove(0).await.expect("a task").expect("the lock, for whoever came first");
    assert_eq!(first.holder_id(), seen.waiters[0].id, "the queue told who would be next");
    assert_eq!(guard.lost().await.reason(), LossReason::Removed);
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    first.release().await.expect("a release");
    waiting.remove(0).await.expect("a task").expect("the lock").release().await.expect("a release");
    let fenced = operator.fair_lock(world.name("fenced")).fenced();
    let guard = fenced.acquire().await.expect("the lock");
    assert_eq!(fenced.inspect().await.expect("an answer").holder.map(|held| held.id), Some(guard.holder_id()));
    assert!(fenced.force_release().await.expect("an answer").is_some());
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    idle(&holder).await;
    idle(&waiter).await;
}

pub(crate) async fn a_read_write_lock_tells_both_halves(world: World) {
    let (client, operator) = (world.client().await, world.client().await);
    let name = world.name("catalog");
    let (catalog, outside) = (client.read_write_lock(&name), operator.read_write_lock(&name));
    let free = outside.inspect().await.expect("an answer");
    assert_eq!((free.writer, free.readers.len()), (None, 0));
    let one = catalog.read().acquire().await.expect("the read half");
    let other = catalog.read().acquire().lease(secs(60)).await.expect("the read half");
    let again = other.reenter().await.expect("a re-entry");
    let seen = outside.inspect().await.expect("an answer");
    assert_eq!((seen.writer, seen.readers.len()), (None, 2));
    let second = seen.readers.iter().find(|reader| reader.id == other.holder_id()).expect("the second reader");
    assert_eq!(second.hold_count, 2);
    assert!(second.remaining.is_some_and(|left| left > secs(35) && left <= secs(60)), "its own lease: {second:?}");
    assert!(seen.readers.iter().any(|reader| reader.id == one.holder_id() && reader.hold_count == 1));
    assert_eq!(outside.write().force_release().await.expect("an answer"), None, "nobody writes");
    let writing = tokio::spawn({
        let write = catalog.write();
        async move { write.acquire().await }
    });
    until("the writer waits", || client.stats().requests == 1).await;
    let ended = outside.read().force_release().await.expect("an answer");
    assert_eq!(ended.len(), 2);
    let writer = writing.await.expect("a task").expect("the write half, since nobody reads");
    for reader in [one, other] {
        assert!(matches!(reader.release().await, Err(Error::Lost { .. })));
    }
    drop(again);
    let reading = writer.read().await.expect("the read half beside it");
    let seen = outside.inspect().await.expect("an answer");
    assert_eq!(seen.writer.as_ref().map(|held| &held.id), Some(&writer.holder_id()));
    assert_eq!(seen.readers.iter().map(|held| held.id.clone()).collect::<Vec<_>>(), [reading.holder_id()]);
    let alone = outside.write().inspect().await.expect("an answer");
    assert_eq!(alone.map(|held| held.id), Some(writer.holder_id()));
    let ended = outside.write().force_release().await.expect("an answer").expect("a writer");
    assert_eq!(ended.id, writer.holder_id());
    assert!(matches!(writer.release().await, Err(Error::Lost { .. })));
    reading.release().await.expect("the read half was left to it");
    idle(&client).await;
}

pub(crate) async fn a_simple_lock_tells_its_id(world: World) {
    let (client, operator) = (world.client().await, world.client().await);
    let name = world.name("report");
    let outside = operator.simple_lock(&name, secs(60));
    assert_eq!(outside.inspect().await.expect("an answer"), None);
    let guard = client.simple_lock(&name, secs(60)).with_id("worker-7").acquire().await.expect("the lock");
    let held = outside.inspect().await.expect("an answer").expect("a holder");
    assert_eq!((held.id.as_str(), held.hold_count), ("worker-7", 1));
    assert_eq!(guard.holder_id(), "worker-7");
    assert!(held.remaining.is_some_and(|left| left > secs(35) && left <= secs(60)), "{held:?}");
    assert_eq!(outside.force_release().await.expect("an answer").map(|held| held.id), Some("worker-7".into()));
    assert!(!world.exists(&name));
    assert!(matches!(guard.release().await, Err(Error::Lost { .. })));
    assert_eq!(outside.force_release().await.expect("an answer"), None);
    let error = client.simple_lock(&name, Duration::ZERO).acquire().await.expect_err("a lease of nothing");
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    idle(&client).await;
}

pub(crate) async fn a_client_that_announces_itself_can_be_found(world: World) {
    let quiet = world.client().await;
    let named = world.client_with(|builder| builder.announce("orders")).await;
    let lock = named.lock(world.name("stock"));
    let guard = lock.acquire().await.expect("the lock");
    let holder = quiet.lock(lock.name()).inspect().await.expect("an answer").expect("a holder");
    let who = sees("the record is there", async || quiet.who_is(&holder.id).await, Option::is_some).await;
    let who = who.expect("it was seen");
    assert_eq!((who.application.as_str(), who.pid), ("orders", std::process::id()));
    assert!(!who.host.is_empty());
    assert!(who.since.elapsed().is_ok_and(|age| age < secs(60)), "{who:?}");
    let again = quiet.who_is(&named.id()).await.expect("an answer").expect("the same record");
    assert_eq!((&again.host, again.pid, again.since), (&who.host, who.pid, who.since));
    assert!(again.up >= who.up && again.written_ago <= again.up && again.within.is_empty(), "{again:?}");
    assert_eq!(quiet.who_is(&quiet.id()).await.expect("an answer"), None, "it announced nothing");
    assert_eq!(quiet.who_is("worker-7").await.expect("an answer"), None, "that is none of this library");
    let key = format!("leasehold:1:client:{}", named.id());
    let left = world.command(&key, &["PTTL", &key]).as_int().expect("an integer");
    assert!(left > 30_000 && left <= 60_000, "{left}");
    guard.release().await.expect("a release");
    idle(&named).await;
    let id = named.id();
    named.shutdown(secs(5)).await.expect("nothing is held");
    assert_eq!(quiet.who_is(&id).await.expect("an answer"), None, "the record is removed at the end");
}

pub(crate) async fn a_client_that_did_a_job_can_be_found_after_its_end(world: World) {
    drop(world);
    let clock = leasehold::embedded::ManualClock::new();
    let server = leasehold::embedded::EmbeddedServer::with_clock(clock.clone());
    let client = |builder: leasehold::ClientBuilder| builder.manual_clock(&clock).embedded(&server).expect("a client");
    let named = client(Client::builder().announce("orders").announce_note("nightly dump"));
    let (other, id) = (client(Client::builder()), named.id());
    let period = leasehold::once::Period::key("23").keep(secs(300));
    let ran = named.once("nightly", period).run(async |_| clock.advance(secs(2))).await.expect("a run");
    assert_eq!(ran, leasehold::once::Occurrence::Ran(()));
    drop(named);
    clock.advance(secs(10));
    clock.advance(secs(280));
    let who = other.who_is(&id).await.expect("an answer").expect("the record of the job");
    assert_eq!((who.application.as_str(), who.note.as_str()), ("orders", "nightly dump"));
    assert!(who.written_ago >= secs(290), "{who:?}");
    assert_eq!(other.locks_of(&id).await.expect("an answer"), []);
    clock.advance(secs(15));
    assert_eq!(other.who_is(&id).await.expect("an answer"), None, "the job is forgotten");
}

pub(crate) async fn a_record_is_written_again_before_it_ends(world: World) {
    drop(world);
    let clock = leasehold::embedded::ManualClock::new();
    let server = leasehold::embedded::EmbeddedServer::with_clock(clock.clone());
    let client = |builder: leasehold::ClientBuilder| builder.manual_clock(&clock).embedded(&server).expect("a client");
    let (named, other) = (client(Client::builder().announce("orders")), client(Client::builder()));
    let id = named.id();
    for _ in 0..20 {
        clock.advance(secs(10));
        assert!(other.who_is(&id).await.expect("an answer").is_some());
    }
    let written = server.calls(leasehold_core::script::RECORD_PUT.name());
    assert!((10..=12).contains(&written), "a third of a minute lies between two writings: {written}");
    server.set_down(true);
    drop(named);
    clock.advance(secs(45));
    server.set_down(false);
    assert!(other.who_is(&id).await.is_ok_and(|who| who.is_some()), "as after a crash, it is still there");
    clock.advance(secs(60));
    assert_eq!(other.who_is(&id).await.expect("an answer"), None, "and goes away by itself");
}

pub(crate) async fn an_entry_that_no_lock_writes_is_named_and_can_be_removed(world: World) {
    let operator = world.client().await;
    for value in ["many", "-1", "2147483648", "nan"] {
        let name = world.name("garbled");
        let says = |error: Error| {
            assert!(
                matches!(&error, Error::KeyConflict { kind, .. } if kind.contains("6f0c:7") && kind.contains(value)),
                "{error}"
            );
        };
        let garble = |words: &[&str]| assert!(!world.command(&name, words).is_error(), "{words:?}");
        let (lock, fair, halves) = (operator.lock(&name), operator.fair_lock(&name), operator.read_write_lock(&name));

        garble(&["HSET", &name, "6f0c:7", value]);
        says(lock.inspect().await.expect_err("no hold count"));
        says(lock.force_release().await.expect_err("no hold count"));
        assert!(!lock.force_release_holder("6f0c:8").await.expect("an answer"), "nobody of that name");
        assert!(world.exists(&name), "nothing was removed yet");
        assert!(lock.force_release_holder("6f0c:7").await.expect("an answer"), "it is removed when it is named");
        assert_eq!(lock.inspect().await.expect("an answer"), None);

        garble(&["HSET", &name, "6f0c:7", value]);
        says(fair.inspect().await.expect_err("no hold count"));
        says(fair.force_release().await.expect_err("no hold count"));
        assert!(fair.force_release_holder("6f0c:7").await.expect("an answer"));
        fair.acquire().await.expect("a free lock").release().await.expect("a release");

        garble(&["HSET", &name, "mode", "write", "6f0c:7:write", value]);
        says(halves.inspect().await.expect_err("no hold count"));
        says(halves.write().force_release().await.expect_err("no hold count"));
        assert!(halves.write().force_release_holder("6f0c:7").await.expect("an answer"));
        halves.read().acquire().await.expect("a free lock").release().await.expect("a release");
        assert!(!world.exists(&name));
    }
    idle(&operator).await;
}
