//! Kinds that meet under one name, and input that every kind refuses.

use crate::support::kinds::AnyGuard;
use crate::support::{Kind, World, ms, secs, until};
use leasehold::error::NameError;
use leasehold::{Client, Error, InvalidInput};
use std::time::Duration;

/// The data of a kind on the server.
const fn shape(kind: Kind) -> u8 {
    match kind {
        Kind::ReadWrite => 1,
        Kind::Simple => 2,
        Kind::Semaphore | Kind::Permits | Kind::Latch => 3,
        _ => 4,
    }
}

/// The name of a kind in errors.
const fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Fair => "fair lock",
        Kind::FencedFair => "fenced fair lock",
        Kind::Fenced => "fenced lock",
        Kind::Spin => "spin lock",
        Kind::Simple => "simple lock",
        Kind::ReadWrite => "read-write lock",
        Kind::Semaphore => "bare semaphore",
        Kind::Permits => "semaphore",
        _ => "lock",
    }
}

/// The kinds with a key of the very name.
fn named() -> impl Iterator<Item = Kind> {
    Kind::ALL.into_iter().filter(|kind| !matches!(kind, Kind::Multi | Kind::Striped | Kind::Quorum))
}

/// Has the name be of a kind. A latch has no holder.
async fn occupy(kind: Kind, client: &Client, name: &str) -> Option<AnyGuard> {
    if kind == Kind::Latch {
        assert!(client.count_down_latch(name).try_set_count(1).await.expect("an answer"));
        return None;
    }
    kind.prepare(client, name).await;
    Some(kind.lock(std::slice::from_ref(client), name).acquire().await.expect("the lock"))
}

fn is_conflict(error: &Error) -> bool {
    matches!(error, Error::KeyConflict { .. })
}

/// Every way to ask for a kind ends in a conflict.
async fn is_refused(kind: Kind, clients: &[Client], name: &str, what: &str) {
    for lock in kind.locks(clients, name) {
        let tried = lock.try_acquire().await.err().unwrap_or_else(|| panic!("{what}: a try"));
        assert!(is_conflict(&tried), "{what}: {tried}");
        let waited = lock.acquire_within(secs(5)).await.err().unwrap_or_else(|| panic!("{what}: a wait"));
        assert!(is_conflict(&waited), "{what}: {waited}");
    }
}

/// Whatever is on the server for a name, and how it is named.
fn of_name(world: &World, name: &str) -> Vec<(String, leasehold_test_support::Resp)> {
    world.contents(|key| key.contains(name) && !key.starts_with("leasehold:1:op:"))
}

pub(crate) async fn rw13_kinds_under_one_name_are_told_apart_by_their_data(world: World) {
    let (client, others) = (world.client().await, [world.client().await]);
    for held in named() {
        let name = world.name("shared");
        let guard = occupy(held, &client, &name).await;
        let before = of_name(&world, &name);
        assert!(!before.is_empty(), "{held:?} has a key");
        for asked in named().filter(|asked| shape(*asked) != shape(held)) {
            let what = format!("{asked:?} where {held:?} is");
            // The value of a simple lock may be anything, and so a number too.
            if asked == Kind::Simple && shape(held) == shape(Kind::Semaphore) {
                continue;
            }
            is_refused(asked, &others, &name, &what).await;
            let seen = asked.inspect(&others, &name).await.err().unwrap_or_else(|| panic!("{what}: an inspection"));
            assert!(is_conflict(&seen), "{what}: {seen}");
            if let Some(forced) = asked.force_release(&others, &name) {
                let forced = forced.await.err().unwrap_or_else(|| panic!("{what}: a forced release"));
                assert!(is_conflict(&forced), "{what}: {forced}");
            }
            assert_eq!(of_name(&world, &name), before, "{what}: nothing has changed");
        }
        if let Some(guard) = guard {
            assert!(guard.is_held());
            guard.release().await.expect("a release");
        }
        world.delete(&name);
    }
}

pub(crate) async fn rw13_kinds_under_one_name_are_told_apart_in_one_client(world: World) {
    let clients = [world.client().await];
    for held in named().filter(|held| *held != Kind::Latch) {
        let name = world.name("shared");
        let guard = occupy(held, &clients[0], &name).await.expect("a guard");
        let before = of_name(&world, &name);
        for asked in named().filter(|asked| !matches!(asked, Kind::Latch) && *asked != held) {
            let what = format!("{asked:?} beside {held:?}");
            is_refused(asked, &clients, &name, &what).await;
            let told = asked.locks(&clients, &name)[0].try_acquire().await.err();
            assert!(matches!(&told, Some(Error::KeyConflict { kind, .. }) if kind == word(held)), "{what}: {told:?}");
            assert_eq!(of_name(&world, &name), before, "{what}: nothing has changed");
        }
        assert!(guard.is_held());
        guard.release().await.expect("a release");
        // The client refuses another kind only while it uses the first.
        let alike = |kind: &Kind| shape(*kind) == 4 && shape(held) == 4;
        for asked in named().filter(alike) {
            let lock = &asked.locks(&clients, &name)[0];
            let guard = lock.try_acquire().await.expect("an answer");
            let guard = guard.unwrap_or_else(|| panic!("{asked:?} after {held:?} is busy"));
            guard.release().await.expect("a release");
        }
        world.delete(&name);
    }
}

pub(crate) async fn kind_beside_one_that_is_waited_for_is_refused(world: World) {
    let (holder, clients) = (world.client().await, [world.client().await]);
    let name = world.name("shared");
    let guard = holder.lock(&name).acquire().await.expect("the lock");
    let waiter = tokio::spawn(clients[0].lock(&name).acquire().into_future());
    until("it waits", || clients[0].stats().requests == 1).await;
    for asked in [Kind::Fair, Kind::Fenced, Kind::Spin] {
        is_refused(asked, &clients, &name, &format!("{asked:?} beside a waiter")).await;
    }
    guard.release().await.expect("a release");
    waiter.await.expect("a task").expect("the lock").release().await.expect("a release");
    world.gone(&name).await;
}

pub(crate) async fn every_kind_refuses_bad_input_before_anything_is_sent(world: World) {
    let world = world.own();
    let stranger = world.client().await.new_owner();
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Quorum) {
        let clients = [world.client().await];
        let before = world.calls();
        let long = "x".repeat(1_025);
        let reasons = [("", NameError::Empty), (&long, NameError::TooLong { bytes: 1_025 })];
        for (name, reason) in reasons.iter().filter(|_| !matches!(kind, Kind::Multi | Kind::Striped)) {
            let refused = Error::Invalid(InvalidInput::Name(reason.clone()));
            for lock in kind.locks(&clients, name) {
                assert_eq!(lock.try_acquire().await.err(), Some(refused.clone()), "{kind:?}");
                assert_eq!(lock.acquire().await.err(), Some(refused.clone()), "{kind:?}");
            }
            assert_eq!(kind.inspect(&clients, name).await, Err(refused.clone()), "{kind:?}");
            if let Some(forced) = kind.force_release(&clients, name) {
                assert_eq!(forced.await, Err(refused.clone()), "{kind:?}");
            }
            if let Some(story) = kind.story(&clients, name) {
                assert_eq!(story.await, Err(refused.clone()), "{kind:?}");
            }
        }
        // The keys of locks are called so, also if the lock is a stripe or a member.
        let reserved = "leasehold:1:rw_readers:{stock}";
        let is_reserved = |error: Option<Error>| matches!(&error, Some(Error::Invalid(InvalidInput::Name(NameError::Reserved { name, .. }))) if name.starts_with(reserved));
        for lock in kind.locks(&clients, reserved) {
            assert!(is_reserved(lock.try_acquire().await.err()), "{kind:?}");
            assert!(is_reserved(lock.acquire().await.err()), "{kind:?}");
        }
        assert!(is_reserved(kind.inspect(&clients, reserved).await.err()), "{kind:?}");
        if let Some(forced) = kind.force_release(&clients, reserved) {
            assert!(is_reserved(forced.await.err()), "{kind:?}");
        }
        if let Some(story) = kind.story(&clients, reserved) {
            assert!(is_reserved(story.await.err()), "{kind:?}");
        }
        for lock in kind.locks(&clients, &world.name("input")).into_iter().filter(|_| kind.is_owned()) {
            let error = lock.acquire_as(&stranger).await.err();
            assert_eq!(error, Some(Error::Invalid(InvalidInput::ForeignOwner)), "{kind:?}");
        }
        assert_eq!(world.calls(), before, "{kind:?}: nothing was sent");
    }
    let client = world.client().await;
    let value = client.fenced_value("leasehold:1:fence:{v}");
    let guard = client.fenced_lock(world.name("fenced")).acquire().await.expect("a guard");
    let refused = value.read(&guard).await.expect_err("a register is no value");
    assert!(matches!(refused, Error::Invalid(InvalidInput::Name(NameError::Reserved { .. }))), "{refused}");
    guard.release().await.expect("a release");
    for locks in [client.striped_lock("leasehold:1:fence:{v}", 4), client.striped_lock("users", 0)] {
        let wanted = |error: Error| match error {
            Error::Invalid(InvalidInput::Name(NameError::Reserved { .. })) => locks.stripes() == 4,
            Error::Invalid(InvalidInput::NoStripes { ref name }) => locks.stripes() == 0 && name == "users",
            _ => false,
        };
        assert!(wanted(locks.of("x").acquire().await.expect_err("a stripe that cannot be")));
        assert!(wanted(locks.of("x").inspect().await.expect_err("a stripe that cannot be")));
        assert!(wanted(locks.all_of(["x", "y"]).try_acquire().await.expect_err("a stripe that cannot be")));
    }
    let quorum = leasehold::QuorumLock::new([client.clone()], "leasehold:1:fence:{v}");
    let refused = quorum.try_acquire().await.expect_err("no server has such a lock");
    assert!(matches!(refused, Error::Invalid(InvalidInput::Name(NameError::Reserved { .. }))), "{refused}");
    let before = world.calls();
    for lease in [Duration::ZERO, ms(1), leasehold::MAX_LEASE + ms(1), Duration::MAX] {
        let simple = client.simple_lock("input", lease).with_id("somebody");
        let refused = |error: Error| {
            assert!(
                matches!(&error, Error::Invalid(InvalidInput::Duration { given, .. }) if *given == lease),
                "{error}"
            );
        };
        refused(simple.acquire().await.expect_err("a lease that cannot be used"));
        refused(simple.try_acquire().await.expect_err("a lease that cannot be used"));
        refused(simple.release().await.expect_err("a lease that cannot be used"));
        refused(client.semaphore("input").acquire().lease(lease).await.expect_err("a lease that cannot be used"));
        refused(client.fair_lock("input").acquire().lease(lease).await.expect_err("a lease that cannot be used"));
        let multi = client.multi_lock([client.lock("input")]);
        refused(multi.acquire().lease(lease).await.expect_err("a lease that cannot be used"));
        let halves = client.read_write_lock("input");
        refused(halves.read().acquire().lease(lease).await.expect_err("a lease that cannot be used"));
        refused(halves.write().acquire().max_hold(lease).await.expect_err("a hold that cannot be used"));
    }
    assert_eq!(world.calls(), before, "nothing was sent");
}
