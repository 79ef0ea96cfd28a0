//! The types that can be sent to other threads, shared between them, moved after they were polled, and kept for ever: every public type and
//! every future of `leasehold`. It is checked when this is compiled; a test sees that no type is forgotten.

use leasehold::error::{Cause, InvalidPermitId, InvalidTicket, NameError, ServerError};
use leasehold::group::{GroupAcquire, GroupGuard, GroupLock, MultiAcquire, MultiGuard, QuorumAcquire, QuorumGuard};
use leasehold::inspect::{
    AnnouncedClient, AnnouncedClients, AnnouncedLock, ClientRecord, Deadlock, DeadlockedWait, Deadlocks, FairQueue,
    FoundKind, HeldPermit, Holder, LockProblem, LockState, Locks, PermitCounts, ReadWriteHolders, UnseenLock, Waiter,
};
use leasehold::kind::{AllMembers, Fencing, LockKind, Owned};
use leasehold::leader::{Leader, LeaderHandle, LeaderState, Term};
use leasehold::once::{Occurrence, Once, Period};
use leasehold::{
    Acquire, Adopt, AnyLock, Backoff, BareSemaphore, CancellationToken, Client, ClientBuilder, ClientId, ClientStats,
    ConnectError, CountDownLatch, Credentials, Error, FairLock, FairSettings, Fallback, FencedFairLock, FencedLock,
    Guard, HoldEnd, HoldToken, HolderId, InvalidInput, LatchWait, Lock, LossReason, Lost, MultiLock, NotReleased,
    Owner, PermitId, PublishCommand, QuorumLock, ReadLock, ReadWriteLock, Replicas, Semaphore, ServerInfo, SimpleLock,
    SpinLock, StripedLock, Ticket, Tuning, WithError, WriteLock,
};
use leasehold::{embedded, fence};
use std::time::Duration;

struct Ambiguous;

/// A trait that a type implements twice if it is `Unpin`, so that naming the method does not compile then.
trait LacksUnpin<A> {
    fn lacks(_: &Self) {}
}
impl<T: ?Sized> LacksUnpin<()> for T {}
impl<T: ?Sized + Unpin> LacksUnpin<Ambiguous> for T {}

const fn send<T: Send>(_: &T) {}
const fn sync<T: Sync>(_: &T) {}
const fn unpin<T: Unpin>(_: &T) {}
const fn forever<T: 'static>(_: &T) {}

/// One row for each type: what it is.
macro_rules! types {
    ($($type:ty: $($auto:ident)*;)*) => {
        #[expect(dead_code, reason = "compiling it is the test")]
        fn types() {
            $(let _: fn(&$type) = |value| { $($auto(value);)* };)*
        }
    };
}

types! {
    Acquire: send sync unpin forever;
    Adopt: send sync unpin forever;
    AnnouncedClient: send sync unpin forever;
    AnnouncedClients: send sync unpin forever;
    AnnouncedLock: send sync unpin forever;
    AnyLock: send sync unpin forever;
    Backoff: send sync unpin forever;
    Cause: send sync unpin forever;
    ClientStats: send sync unpin forever;
    CancellationToken: send sync unpin forever;
    Client: send sync unpin forever;
    ClientBuilder: send sync unpin forever;
    ClientId: send sync unpin forever;
    ClientRecord: send sync unpin forever;
    ConnectError: send sync unpin forever;
    CountDownLatch: send sync unpin forever;
    Credentials: send sync unpin forever;
    Deadlock: send sync unpin forever;
    DeadlockedWait: send sync unpin forever;
    Deadlocks: send sync unpin forever;
    Error: send sync unpin forever;
    FairLock: send sync unpin forever;
    FairQueue: send sync unpin forever;
    FairSettings: send sync unpin forever;
    Fallback: send sync unpin forever;
    FencedFairLock: send sync unpin forever;
    FencedLock: send sync unpin forever;
    FoundKind: send sync unpin forever;
    GroupAcquire<AllMembers>: send sync unpin forever;
    GroupGuard<AllMembers>: send sync unpin forever;
    GroupLock<AllMembers>: send sync unpin forever;
    Guard: send sync unpin forever;
    ReadWriteHolders: send sync unpin forever;
    HeldPermit: send sync unpin forever;
    HoldEnd: send sync unpin forever;
    HoldToken: send sync unpin forever;
    HolderId: send sync unpin forever;
    Holder: send sync unpin forever;
    InvalidInput: send sync unpin forever;
    InvalidTicket: send sync unpin forever;
    InvalidPermitId: send sync unpin forever;
    LatchWait: send sync unpin forever;
    Leader: send sync unpin forever;
    LeaderHandle: send sync unpin forever;
    LeaderState: send sync unpin forever;
    Lock: send sync unpin forever;
    LockProblem: send sync unpin forever;
    LockState: send sync unpin forever;
    Locks: send sync unpin forever;
    LossReason: send sync unpin forever;
    Lost: send sync unpin forever;
    MultiAcquire: send sync unpin forever;
    MultiGuard: send sync unpin forever;
    MultiLock: send sync unpin forever;
    NameError: send sync unpin forever;
    NotReleased: send sync unpin forever;
    Occurrence<u32>: send sync unpin forever;
    Once: send sync unpin forever;
    Owner: send sync unpin forever;
    Period: send sync unpin forever;
    PermitCounts: send sync unpin forever;
    PermitId: send sync unpin forever;
    Semaphore: send sync unpin forever;
    Ticket: send sync unpin forever;
    Tuning: send sync unpin forever;
    PublishCommand: send sync unpin forever;
    QuorumAcquire: send sync unpin forever;
    QuorumGuard: send sync unpin forever;
    QuorumLock: send sync unpin forever;
    ReadLock: send sync unpin forever;
    ReadWriteLock: send sync unpin forever;
    Replicas: send sync unpin forever;
    BareSemaphore: send sync unpin forever;
    ServerError: send sync unpin forever;
    ServerInfo: send sync unpin forever;
    SimpleLock: send sync unpin forever;
    SpinLock: send sync unpin forever;
    StripedLock: send sync unpin forever;
    Term: send sync unpin forever;
    UnseenLock: send sync unpin forever;
    Waiter: send sync unpin forever;
    WithError<u32>: send sync unpin forever;
    WriteLock: send sync unpin forever;
    embedded::FaultTarget: send sync unpin forever;
    embedded::EmbeddedLink: send sync unpin forever;
    embedded::EmbeddedServer: send sync unpin forever;
    embedded::Fault: send sync unpin forever;
    embedded::ManualClock: send sync unpin forever;
    embedded::Recorded: send sync unpin forever;
    embedded::Recorder: send sync unpin forever;
    embedded::ServerClock: send sync unpin forever;
    fence::FencedValue: send sync unpin forever;
    fence::FencingToken: send sync unpin forever;
}

/// The locks and guards of a kind are what those of every other kind are.
#[expect(dead_code, reason = "compiling it is the test")]
fn every_kind<K: LockKind>(lock: &Lock<K>, acquire: &Acquire<K>, guard: &Guard<K>) {
    send(lock);
    sync(lock);
    send(acquire);
    sync(acquire);
    send(guard);
    sync(guard);
}

/// Futures of async functions may be sent while they are under way, and must be pinned.
macro_rules! future {
    ($future:expr) => {
        let future = $future;
        send(&future);
        LacksUnpin::lacks(&future);
        drop(future);
    };
}

#[expect(dead_code, reason = "compiling it is the test")]
fn futures(client: &Client, lock: &Lock, guard: Guard, owner: &Owner, token: &HoldToken) {
    send(&lock.acquire().into_future());
    future!(async { lock.acquire().await });
    future!(lock.try_acquire());
    future!(lock.with(async |held| held.hold_count()));
    future!(lock.acquire().wait(Duration::ZERO).with(async |held| held.hold_count()));
    future!(lock.inspect());
    future!(lock.force_release());
    future!(guard.reenter());
    future!(guard.lost());
    future!(guard.run(async { 1 }));
    future!(owner.scope(async { 1 }));
    future!(token.cancelled());
    future!(client.shutdown(Duration::ZERO));
    future!(Client::connect("redis://127.0.0.1"));
    future!(Client::builder().connect("redis://127.0.0.1"));
    future!(guard.release());
}

/// The methods that every kind has, and those that only some have.
#[expect(dead_code, reason = "compiling it is the test")]
fn futures_of_kinds<K: Owned, F: Fencing>(
    (lock, guard): (&Lock<K>, Guard<K>),
    (value, token): (&fence::FencedValue, &Guard<F>),
    (read_write, write): (&ReadWriteLock, Guard<leasehold::kind::Write>),
) {
    send(&lock.acquire().into_future());
    future!(lock.try_acquire());
    future!(lock.with(async |held| held.hold_count()));
    future!(guard.reenter());
    future!(guard.lost());
    future!(guard.run(async { 1 }));
    future!(guard.release());
    future!(value.read(token));
    future!(value.write(token, "value"));
    future!(value.check(token));
    future!(read_write.inspect());
    future!(write.read());
    future!(write.downgrade());
}

/// The types that are made of several locks, or of none.
#[expect(dead_code, reason = "compiling it is the test")]
fn futures_of_others(
    (multi, all): (&MultiLock, MultiGuard),
    (quorum, most): (&QuorumLock, QuorumGuard),
    (permits, seats, latch, id): (&Semaphore, &BareSemaphore, &CountDownLatch, PermitId),
    (client, simple): (&Client, &SimpleLock),
) {
    future!(async { multi.acquire().await });
    future!(multi.try_acquire());
    future!(all.lost());
    future!(all.run(async { 1 }));
    future!(all.release());
    future!(async { quorum.acquire().await });
    future!(quorum.try_acquire());
    future!(most.lost());
    future!(most.run(async { 1 }));
    future!(most.release());
    future!(async { permits.acquire().permits(2).await });
    future!(permits.try_acquire());
    future!(permits.try_acquire_many(2));
    future!(permits.with(async |held| held.permits()));
    future!(permits.try_set_permits(1));
    future!(permits.resize(1));
    future!(permits.add_permits(1));
    future!(permits.available_permits());
    future!(permits.held_permits());
    future!(permits.inspect());
    future!(permits.lease_of(id));
    future!(permits.release_ids(&[]));
    future!(async { seats.acquire().await });
    future!(seats.try_acquire());
    future!(seats.try_acquire_many(2));
    future!(seats.with(async |held| held.permits()));
    future!(seats.try_set_permits(1));
    future!(seats.add_permits(1));
    future!(seats.release_permits(1));
    future!(seats.drain_permits());
    future!(seats.available_permits());
    future!(latch.try_set_count(1));
    future!(latch.count_down());
    future!(latch.count_down_by(2));
    future!(latch.count());
    future!(latch.delete());
    future!(async { latch.opened().await });
    future!(client.who_is("id"));
    future!(simple.release());
}

/// Work that is sent whole to another thread: the future that awaits all of this is `Send` and `'static`.
async fn a_whole_life(client: Client) -> Result<u32, Box<dyn std::error::Error + Send + Sync>> {
    let lock = client.lock("auto-traits");
    let owner = client.new_owner();
    let counted = owner
        .scope(async {
            let outer = lock.acquire().wait(Duration::from_secs(5)).await?;
            let inner = outer.reenter().await?;
            let again = lock.acquire().owner(&owner).await?;
            let counted = outer.run(async { tokio::task::yield_now().await }).await;
            counted?;
            let count = again.hold_count();
            again.release().await?;
            inner.release().await?;
            outer.release().await?;
            Ok::<_, Error>(count)
        })
        .await?;
    let held = lock
        .with(async |held| {
            tokio::task::yield_now().await;
            held.is_held()
        })
        .await?;
    assert!(held, "the lock is held while the work runs");
    let guard = lock.try_acquire().await?.ok_or("the lock is free")?;
    let token = guard.cancellation_token();
    tokio::select! {
        lost = guard.lost() => return Err(lost.into()),
        () = tokio::task::yield_now() => {}
    }
    assert!(lock.inspect().await?.is_some(), "somebody holds it");
    drop(lock.force_release().await?);
    drop(guard);
    token.cancelled().await;
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(counted)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_life_can_be_spawned() {
    let counted = tokio::spawn(a_whole_life(Client::embedded())).await.expect("it does not panic");
    assert_eq!(counted.expect("it comes to its end"), 3);
}

/// The values that a caller's task carries while it waits. Ten thousand waiters are ten thousand of these.
#[tokio::test]
async fn futures_are_small() {
    let client = Client::embedded();
    let lock = client.lock("auto-traits");
    let guard = lock.acquire().await.expect("the lock is free");
    let reenter = size_of_val(&guard.reenter());
    let sizes = [
        ("acquire", size_of_val(&lock.acquire().into_future())),
        ("try_acquire", size_of_val(&lock.try_acquire())),
        ("with", size_of_val(&lock.with(async |held| held.hold_count()))),
        ("inspect", size_of_val(&lock.inspect())),
        ("force_release", size_of_val(&lock.force_release())),
        ("reenter", reenter),
        ("shutdown", size_of_val(&client.shutdown(Duration::ZERO))),
        ("release", size_of_val(&guard.release())),
    ];
    for (future, size) in sizes {
        assert!(size <= 3344, "the future of {future} has {size} bytes");
    }
}

/// The types that a file exports, with those of the files below it that it exports whole.
fn exported(file: &str, text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for statement in text.split("pub use ").skip(1) {
        let path = statement.split(';').next().expect("a statement ends");
        if let Some(module) = path.strip_suffix("::*") {
            let below = format!("{}{module}.rs", &file[..=file.rfind('/').expect("a folder")]);
            names.extend(exported(&below, &crate::files::read(&below)));
            continue;
        }
        let last = path.rsplit("::").next().filter(|last| !last.contains('}')).unwrap_or_default();
        let list = path.split_once('{').map_or(last, |(_, list)| list);
        let words = list.trim_end_matches(['}', '\n', ' ']).split(',').map(str::trim);
        // Constants are all capitals, and crates and modules begin with a small letter.
        let is_type = |word: &&str| {
            word.starts_with(|letter: char| letter.is_ascii_uppercase())
                && word.contains(|letter: char| letter.is_ascii_lowercase())
        };
        names.extend(words.filter(is_type).map(str::to_owned));
    }
    names
}

#[test]
fn no_public_type_is_forgotten() {
    let here = include_str!("auto_traits.rs");
    let table = here.split("types! {").nth(1).and_then(|rest| rest.split("\n}").next()).expect("the table");
    let rows: Vec<_> = table
        .lines()
        .filter_map(|line| line.split_once(": "))
        .map(|(row, _)| row.trim().split('<').next().expect("a name").to_owned())
        .collect();
    let source = "crates/leasehold/src/lib.rs";
    let lib = crate::files::read(source);
    let (crate_root, embedded) = lib.split_at(lib.find("pub mod embedded").expect("the module"));
    let mut names = exported(source, crate_root);
    names.extend(exported(source, embedded).iter().map(|name| format!("embedded::{name}")));
    for module in ["error", "inspect", "leader", "once"] {
        let file = format!("crates/leasehold/src/{module}.rs");
        let text = crate::files::read(&file);
        let types =
            text.lines().filter_map(|line| line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum ")));
        let types = types.map(|rest| rest.split(['(', ' ', '<', ';']).next().expect("a name").to_owned());
        names.extend(exported(&file, &text).into_iter().chain(types));
    }
    let file = "crates/leasehold/src/fence.rs";
    let text = crate::files::read(file);
    let structs = text.lines().filter_map(|line| line.strip_prefix("pub struct "));
    let structs = structs.map(|rest| rest.split(['(', ' ', '<', ';']).next().expect("a name").to_owned());
    names.extend(exported(file, &text).into_iter().chain(structs).map(|name| format!("fence::{name}")));
    for (a, b) in [(&names, &rows), (&rows, &names)] {
        let missing: Vec<_> = a.iter().filter(|name| !b.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?} are not in both: the exports of the crate, and the table");
    }
}
