//! Locks of every kind behind one face, so that a test is written once for all of them.

use super::{World, ms, secs};
use futures_util::future::{BoxFuture, LocalBoxFuture};
use leasehold::group::{MultiGuard, QuorumGuard};
use leasehold::kind::Owned;
use leasehold::kind::{Counter, Permit};
use leasehold::{BareSemaphore, Client, CountDownLatch, Error, Guard, Lock, MultiLock, Owner, QuorumLock, Semaphore};
use std::sync::Arc;
use std::time::Duration;

/// The kinds, each with what tells it from the others in a test that knows them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Lock,
    Fair,
    FencedFair,
    Fenced,
    Spin,
    Simple,
    ReadWrite,
    Multi,
    /// Several stripes of a striped lock.
    Striped,
    Quorum,
    /// A bare semaphore with one permit, which excludes as a lock does.
    Semaphore,
    /// A semaphore with one permit.
    Permits,
    /// A latch, which has no holder: a waiter is let in when it is open.
    Latch,
}

/// A lock of whatever kind.
#[derive(Clone)]
pub(crate) struct AnyLock {
    lock: Arc<dyn Lockable>,
    /// Whether others may hold it beside: the read half of a read-write lock.
    pub(crate) shared: bool,
}

/// A guard of whatever kind.
pub(crate) type AnyGuard = Box<dyn Held>;

/// The result of an acquire: `None` if a try found the lock busy.
type Taken = Result<Option<AnyGuard>, Error>;

/// How a lock is asked for.
#[derive(Clone, Debug, Default)]
struct How {
    tries: bool,
    wait: Option<Duration>,
    owner: Option<Owner>,
}

trait Lockable: Send + Sync {
    fn take(&self, how: How) -> BoxFuture<'static, Taken>;
    /// Takes it for a piece of work; `None` where the kind has no such call.
    fn with(&self) -> Option<LocalBoxFuture<'static, ()>> {
        None
    }
}

pub(crate) trait Held: Send + Sync {
    fn is_held(&self) -> bool;
    /// Runs a piece of work, and waits for the loss from then on where there can be one.
    fn run(&self) -> BoxFuture<'_, ()>;
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
    /// Takes it again; `None` where the kind has no re-entry by its guard.
    fn reenter(&self) -> Option<BoxFuture<'_, Result<AnyGuard, Error>>>;
    fn fencing_token(&self) -> Option<u64>;
}

impl Kind {
    pub(crate) const ALL: [Self; 13] = [
        Self::Lock,
        Self::Fair,
        Self::FencedFair,
        Self::Fenced,
        Self::Spin,
        Self::Simple,
        Self::ReadWrite,
        Self::Multi,
        Self::Striped,
        Self::Quorum,
        Self::Semaphore,
        Self::Permits,
        Self::Latch,
    ];

    /// How many independent servers it lies on.
    pub(crate) const fn servers(self) -> usize {
        if matches!(self, Self::Quorum) { 3 } else { 1 }
    }

    /// Whether its grants carry tokens, whose keys stay.
    pub(crate) const fn is_fenced(self) -> bool {
        matches!(self, Self::Fenced | Self::FencedFair)
    }

    /// Whether it has a queue on the server.
    pub(crate) const fn is_fair(self) -> bool {
        matches!(self, Self::Fair | Self::FencedFair)
    }

    /// Whether its waiters are told of a release, and send nothing until then.
    pub(crate) const fn is_told(self) -> bool {
        matches!(self, Self::Lock | Self::Fenced | Self::ReadWrite)
    }

    /// Whether an owner takes it again.
    pub(crate) const fn is_owned(self) -> bool {
        !matches!(self, Self::Quorum | Self::Semaphore | Self::Permits | Self::Latch)
    }

    /// Whether it is a number that a user set, and that stays.
    const fn is_counter(self) -> bool {
        matches!(self, Self::Semaphore | Self::Permits | Self::Latch)
    }

    /// Sets the number, for a kind that is one: one permit, or an open latch.
    pub(crate) fn prepare(self, client: &Client, name: &str) -> BoxFuture<'static, ()> {
        let (permits, leased) = (client.bare_semaphore(name), client.semaphore(name));
        Box::pin(async move {
            match self {
                Self::Semaphore => assert!(permits.try_set_permits(1).await.expect("an answer")),
                Self::Permits => assert!(leased.try_set_permits(1).await.expect("an answer")),
                _ => {}
            }
        })
    }

    /// Looks at it from outside.
    pub(crate) fn inspect(self, clients: &[Client], name: &str) -> BoxFuture<'static, Result<(), Error>> {
        let (client, name) = (clients[0].clone(), name.to_owned());
        Box::pin(async move {
            match self {
                Self::Lock | Self::Quorum => client.lock(&name).inspect().await.map(drop),
                Self::Multi => client.lock(format!("{name}:a")).inspect().await.map(drop),
                Self::Striped => client.striped_lock(&name, 4).of("a").inspect().await.map(drop),
                Self::Fair => client.fair_lock(&name).inspect().await.map(drop),
                Self::FencedFair => client.fair_lock(&name).fenced().inspect().await.map(drop),
                Self::Fenced => client.fenced_lock(&name).inspect().await.map(drop),
                Self::Spin => client.spin_lock(&name).inspect().await.map(drop),
                Self::Simple => client.simple_lock(&name, secs(30)).inspect().await.map(drop),
                Self::ReadWrite => client.read_write_lock(&name).inspect().await.map(drop),
                Self::Semaphore => client.bare_semaphore(&name).available_permits().await.map(drop),
                Self::Permits => client.semaphore(&name).inspect().await.map(drop),
                Self::Latch => client.count_down_latch(&name).count().await.map(drop),
            }
        })
    }

    /// Ends the present hold; `None` if the kind has no such call.
    pub(crate) fn force_release(self, clients: &[Client], name: &str) -> Option<BoxFuture<'static, Result<(), Error>>> {
        if matches!(self, Self::Multi | Self::Striped | Self::Quorum) || self.is_counter() {
            return None;
        }
        let (client, name) = (clients[0].clone(), name.to_owned());
        Some(Box::pin(async move {
            match self {
                Self::Fair => client.fair_lock(&name).force_release().await.map(drop),
                Self::FencedFair => client.fair_lock(&name).fenced().force_release().await.map(drop),
                Self::Fenced => client.fenced_lock(&name).force_release().await.map(drop),
                Self::Spin => client.spin_lock(&name).force_release().await.map(drop),
                Self::Simple => client.simple_lock(&name, secs(30)).force_release().await.map(drop),
                Self::ReadWrite => {
                    client.read_write_lock(&name).read().force_release().await?;
                    client.read_write_lock(&name).write().force_release().await.map(drop)
                }
                _ => client.lock(&name).force_release().await.map(drop),
            }
        }))
    }

    /// The methods that only this kind has, one after the other.
    pub(crate) fn story(self, clients: &[Client], name: &str) -> Option<BoxFuture<'static, Result<(), Error>>> {
        let (client, name) = (clients[0].clone(), name.to_owned());
        Some(match self {
            Self::ReadWrite => Box::pin(async move {
                let writer = client.read_write_lock(&name).write().acquire().await?;
                let reader = writer.read().await?;
                let downgraded = writer.downgrade().await?;
                reader.release().await?;
                downgraded.release().await
            }),
            Self::Simple => Box::pin(async move {
                let lock = client.simple_lock(&name, secs(30)).with_id("somebody");
                let guard = lock.acquire().renewed().await?;
                let again = lock.acquire().await?;
                again.release().await?;
                guard.release().await?;
                lock.release().await.map(drop)
            }),
            Self::Permits => Box::pin(async move {
                let seats = client.semaphore(&name);
                let guard = seats.acquire().await?;
                seats.lease_of(guard.ids()[0]).await?;
                seats.release_ids(&guard.ids()).await.map(drop)
            }),
            Self::Latch => Box::pin(async move {
                let latch = client.count_down_latch(&name);
                latch.try_set_count(2).await?;
                latch.count_down().await?;
                latch.delete().await.map(drop)
            }),
            _ => return None,
        })
    }

    /// The ways to ask for the lock of that name by the clients of one process, one client for each server.
    pub(crate) fn locks(self, clients: &[Client], name: &str) -> Vec<AnyLock> {
        let client = &clients[0];
        match self {
            Self::Lock => vec![of(client.lock(name), no_token)],
            Self::Fair => vec![of(client.fair_lock(name), no_token)],
            Self::FencedFair => vec![of(client.fair_lock(name).fenced(), |guard| Some(guard.fencing_token().as_u64()))],
            Self::Fenced => vec![of(client.fenced_lock(name), |guard| Some(guard.fencing_token().as_u64()))],
            Self::Spin => vec![of(client.spin_lock(name), no_token)],
            Self::Simple => vec![of(client.simple_lock(name, secs(30)), no_token)],
            Self::ReadWrite => {
                let lock = client.read_write_lock(name);
                vec![of(lock.write(), no_token), AnyLock { shared: true, ..of(lock.read(), no_token) }]
            }
            Self::Multi => {
                // Two who name the members in another order.
                let members = [client.lock(format!("{name}:a")), client.lock(format!("{name}:b"))];
                let reversed = [members[1].clone(), members[0].clone()];
                [members, reversed].map(|members| any(client.multi_lock(members))).into()
            }
            Self::Striped => {
                let striped = client.striped_lock(name, 4);
                let ways = [striped.all_of(vec!["a", "b"]), striped.all_of(vec!["b", "a", "b"])].map(any);
                // All of them take the stripe of this one.
                ways.into_iter().chain([of(striped.of("a"), no_token)]).collect()
            }
            Self::Quorum => vec![any(QuorumLock::new(clients.iter().cloned(), name))],
            Self::Semaphore => vec![any(client.bare_semaphore(name))],
            Self::Permits => vec![any(client.semaphore(name))],
            Self::Latch => vec![any(client.count_down_latch(name))],
        }
    }

    /// The same lock of the first client, as one that lingers, where the kind has such.
    pub(crate) fn lingering(self, clients: &[Client], name: &str) -> Option<AnyLock> {
        (self == Self::Lock).then(|| of(clients[0].lock(name).linger(ms(20)), no_token))
    }

    /// The first of [`Kind::locks`], which excludes all others.
    pub(crate) fn lock(self, clients: &[Client], name: &str) -> AnyLock {
        self.locks(clients, name).swap_remove(0)
    }

    /// The keys on a server that should not be there without holders and waiters. Fencing tokens stay for good, the numbers that a user set
    /// too, and the bookkeeping of fair locks and the records of operations for a while. All permits are back.
    #[track_caller]
    pub(crate) fn leftovers(self, world: &World) -> Vec<String> {
        let mut keys = world.keys();
        keys.retain(|key| {
            if key.starts_with("leasehold:1:fair:") && self.is_fair()
                || key.starts_with("leasehold:1:op:") && self.is_counter()
            {
                // It may have gone meanwhile.
                assert_ne!(world.command(key, &["PTTL", key]).as_int(), Some(-1), "{key} stays for ever");
                return false;
            }
            if self.is_counter() && !key.contains('{') {
                return self != Self::Latch && world.command(key, &["GET", key]).as_str() != Some("1");
            }
            !(self.is_fenced() && key.starts_with("redisson_lock_token:"))
        });
        keys
    }
}

impl AnyLock {
    pub(crate) fn acquire(&self) -> BoxFuture<'static, Result<AnyGuard, Error>> {
        self.granted(How::default())
    }

    pub(crate) fn acquire_within(&self, wait: Duration) -> BoxFuture<'static, Result<AnyGuard, Error>> {
        self.granted(How { wait: Some(wait), ..How::default() })
    }

    pub(crate) fn acquire_as(&self, owner: &Owner) -> BoxFuture<'static, Result<AnyGuard, Error>> {
        self.granted(How { owner: Some(owner.clone()), ..How::default() })
    }

    pub(crate) fn try_acquire(&self) -> BoxFuture<'static, Taken> {
        self.lock.take(How { tries: true, ..How::default() })
    }

    /// Takes it for a piece of work.
    pub(crate) fn with(&self) -> Option<LocalBoxFuture<'static, ()>> {
        self.lock.with()
    }

    fn granted(&self, how: How) -> BoxFuture<'static, Result<AnyGuard, Error>> {
        let taking = self.lock.take(how);
        Box::pin(async move { Ok(taking.await?.expect("only a try finds a lock busy")) })
    }
}

/// A lock of one name, and how its guards tell their fencing token.
struct Single<K: Owned> {
    lock: Lock<K>,
    token: Token<K>,
}

type Token<K> = fn(&Guard<K>) -> Option<u64>;

struct SingleGuard<K: Owned> {
    guard: Guard<K>,
    token: Token<K>,
}

fn of<K: Owned>(lock: Lock<K>, token: Token<K>) -> AnyLock {
    any(Single { lock, token })
}

fn any(lock: impl Lockable + 'static) -> AnyLock {
    AnyLock { lock: Arc::new(lock), shared: false }
}

const fn no_token<K: Owned>(_: &Guard<K>) -> Option<u64> {
    None
}

impl<K: Owned> Lockable for Single<K> {
    fn take(&self, how: How) -> BoxFuture<'static, Taken> {
        let (lock, token) = (self.lock.clone(), self.token);
        Box::pin(async move {
            if how.tries {
                return Ok(lock.try_acquire().await?.map(|guard| held(SingleGuard { guard, token })));
            }
            let mut acquire = lock.acquire();
            if let Some(wait) = how.wait {
                acquire = acquire.wait(wait);
            }
            if let Some(owner) = &how.owner {
                acquire = acquire.owner(owner);
            }
            acquire.await.map(|guard| Some(held(SingleGuard { guard, token })))
        })
    }

    fn with(&self) -> Option<LocalBoxFuture<'static, ()>> {
        let lock = self.lock.clone();
        Some(Box::pin(async move { drop(lock.with(async |_| tokio::task::yield_now().await).await) }))
    }
}

/// The kinds whose guards have no more than what every guard has.
macro_rules! plain {
    ($($lock:ty, $guard:ty, $($owned:ident)?;)+) => {$(
        impl Lockable for $lock {
            fn take(&self, how: How) -> BoxFuture<'static, Taken> {
                let lock = self.clone();
                Box::pin(async move {
                    if how.tries {
                        return Ok(lock.try_acquire().await?.map(held));
                    }
                    let mut acquire = lock.acquire();
                    if let Some(wait) = how.wait {
                        acquire = acquire.wait(wait);
                    }
                    $(if let Some(owner) = &how.owner {
                        acquire = acquire.$owned(owner);
                    })?
                    acquire.await.map(|guard| Some(held(guard)))
                })
            }
        }

        impl Held for $guard {
            fn is_held(&self) -> bool {
                self.is_held()
            }

            fn run(&self) -> BoxFuture<'_, ()> {
                Box::pin(async {
                    drop(self.run(tokio::task::yield_now()).await);
                    drop(self.lost().await);
                })
            }

            fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
                Box::pin((*self).release())
            }

            fn reenter(&self) -> Option<BoxFuture<'_, Result<AnyGuard, Error>>> {
                None
            }

            fn fencing_token(&self) -> Option<u64> {
                None
            }
        }
    )+};
}

plain! {
    MultiLock, MultiGuard, owner;
    QuorumLock, QuorumGuard, ;
    BareSemaphore, Guard<Counter>, ;
    Semaphore, Guard<Permit>, ;
}

impl Lockable for CountDownLatch {
    fn take(&self, how: How) -> BoxFuture<'static, Taken> {
        let mut wait = self.opened();
        if let Some(patience) = how.wait.or_else(|| how.tries.then_some(Duration::ZERO)) {
            wait = wait.wait(patience);
        }
        Box::pin(async move {
            match wait.await {
                Err(Error::WaitElapsed { .. }) if how.tries => Ok(None),
                let_in => let_in.map(|()| Some(held(LetIn))),
            }
        })
    }
}

/// The grant that a latch gives to those it lets in.
struct LetIn;

impl Held for LetIn {
    fn is_held(&self) -> bool {
        true
    }

    fn run(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn reenter(&self) -> Option<BoxFuture<'_, Result<AnyGuard, Error>>> {
        None
    }

    fn fencing_token(&self) -> Option<u64> {
        None
    }
}

fn held(guard: impl Held + 'static) -> AnyGuard {
    Box::new(guard)
}

impl<K: Owned> Held for SingleGuard<K> {
    fn is_held(&self) -> bool {
        self.guard.is_held()
    }

    fn run(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            drop(self.guard.run(tokio::task::yield_now()).await);
            drop(self.guard.lost().await);
        })
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin(self.guard.release())
    }

    fn reenter(&self) -> Option<BoxFuture<'_, Result<AnyGuard, Error>>> {
        Some(Box::pin(async {
            let guard = self.guard.reenter().await?;
            Ok(held(Self { guard, token: self.token }))
        }))
    }

    fn fencing_token(&self) -> Option<u64> {
        (self.token)(&self.guard)
    }
}

/// Makes one test of each kind of lock out of a test that is told the kind; of semaphores too, where that is said.
macro_rules! for_every_kind {
    ($test:ident) => { $crate::support::kinds::for_every_kind! { $test:
        lock Lock, fair Fair, fenced_fair FencedFair, fenced Fenced, spin Spin, simple Simple, read_write ReadWrite,
        multi Multi, striped Striped, quorum Quorum
    } };
    ($test:ident, and permits) => {
        $crate::support::kinds::for_every_kind! { $test }
        $crate::support::kinds::for_every_kind! { $test: semaphore Semaphore, permits Permits }
    };
    ($test:ident: $($name:ident $kind:ident),+) => {$(
        pub(crate) async fn $name(world: $crate::support::World) {
            $test(world, $crate::support::Kind::$kind).await;
        }
    )+};
}

pub(crate) use for_every_kind;

/// How long the marks of a process that has gone count in a fair queue, and a little more.
pub(crate) const FAIR_WINDOW: Duration = ms(2_100);

/// How long whose turn it is in a fair queue has to claim it.
pub(crate) const FAIR_CLAIM: Duration = secs(2);
