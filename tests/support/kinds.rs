//! Locks of every kind behind one face, so that a test is written once for all of them.

use super::{World, ms, secs};
use futures_util::future::BoxFuture;
use leasehold::kind::{Leased, Owned};
use leasehold::{Client, Error, Guard, Lock, MultiGuard, MultiLock, QuorumGuard, QuorumLock};
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
    Quorum,
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

/// What came of an acquire: `None` where a try found the lock busy.
type Taken = Result<Option<AnyGuard>, Error>;

/// How a lock is asked for.
#[derive(Clone, Debug, Default)]
struct How {
    tries: bool,
    wait: Option<Duration>,
}

trait Lockable: Send + Sync {
    fn take(&self, how: How) -> BoxFuture<'static, Taken>;
}

pub(crate) trait Held: Send + Sync {
    fn is_held(&self) -> bool;
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
    /// Takes it again; `None` where the kind has no re-entry by its guard.
    fn reenter(&self) -> Option<BoxFuture<'_, Result<AnyGuard, Error>>>;
    fn fencing_token(&self) -> Option<u64>;
}

impl Kind {
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

    /// The ways to ask for the lock of that name by the clients of one process, one client for each server.
    pub(crate) fn locks(self, clients: &[Client], name: &str) -> Vec<AnyLock> {
        let client = &clients[0];
        match self {
            Self::Lock => vec![of(client.lock(name), no_token)],
            Self::Fair => vec![of(client.fair_lock(name), no_token)],
            Self::FencedFair => vec![of(client.fair_lock(name).fenced(), |guard| Some(guard.fencing_token()))],
            Self::Fenced => vec![of(client.fenced_lock(name), |guard| Some(guard.fencing_token()))],
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
            Self::Quorum => vec![any(QuorumLock::new(clients.iter().cloned(), name))],
        }
    }

    /// The keys on a server that should not be there when nobody holds or waits. Fencing tokens stay for good, and the
    /// bookkeeping of fair locks for a while.
    #[track_caller]
    pub(crate) fn leftovers(self, world: &World) -> Vec<String> {
        let mut keys = world.keys();
        keys.retain(|key| {
            if self.is_fair() && key.starts_with("leasehold:1:fair:") {
                // It may have gone meanwhile.
                assert_ne!(world.command(key, &["PTTL", key]).as_int(), Some(-1), "{key} stays for ever");
                return false;
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

    pub(crate) fn try_acquire(&self) -> BoxFuture<'static, Taken> {
        self.lock.take(How { tries: true, ..How::default() })
    }

    fn granted(&self, how: How) -> BoxFuture<'static, Result<AnyGuard, Error>> {
        let taking = self.lock.take(how);
        Box::pin(async move { Ok(taking.await?.expect("only a try finds a lock busy")) })
    }
}

/// A lock of one name, and how its guards tell their fencing token.
struct Single<K: Leased + Owned> {
    lock: Lock<K>,
    token: Token<K>,
}

type Token<K> = fn(&Guard<K>) -> Option<u64>;

struct SingleGuard<K: Leased + Owned> {
    guard: Guard<K>,
    token: Token<K>,
}

fn of<K: Leased + Owned>(lock: Lock<K>, token: Token<K>) -> AnyLock {
    any(Single { lock, token })
}

fn any(lock: impl Lockable + 'static) -> AnyLock {
    AnyLock { lock: Arc::new(lock), shared: false }
}

const fn no_token<K: Leased + Owned>(_: &Guard<K>) -> Option<u64> {
    None
}

impl<K: Leased + Owned> Lockable for Single<K> {
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
            acquire.await.map(|guard| Some(held(SingleGuard { guard, token })))
        })
    }
}

impl Lockable for MultiLock {
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
            acquire.await.map(|guard| Some(held(guard)))
        })
    }
}

impl Lockable for QuorumLock {
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
            acquire.await.map(|guard| Some(held(guard)))
        })
    }
}

fn held(guard: impl Held + 'static) -> AnyGuard {
    Box::new(guard)
}

impl<K: Leased + Owned> Held for SingleGuard<K> {
    fn is_held(&self) -> bool {
        self.guard.is_held()
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

macro_rules! grouped {
    ($($guard:ty),+) => {$(
        impl Held for $guard {
            fn is_held(&self) -> bool {
                self.is_held()
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

grouped!(MultiGuard, QuorumGuard);

/// Makes one test of each kind out of a test that is told the kind.
macro_rules! for_every_kind {
    ($test:ident) => { $crate::support::kinds::for_every_kind! { $test:
        lock Lock, fair Fair, fenced_fair FencedFair, fenced Fenced, spin Spin, simple Simple, read_write ReadWrite,
        multi Multi, quorum Quorum
    } };
    ($test:ident: $($name:ident $kind:ident),+) => {$(
        pub(crate) async fn $name(world: $crate::support::World) {
            $test(world, $crate::support::Kind::$kind).await;
        }
    )+};
}

pub(crate) use for_every_kind;

/// How long the marks of a process that has gone count in a fair queue, and a little more.
pub(crate) const FAIR_WINDOW: Duration = ms(2_100);
