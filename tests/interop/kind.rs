//! The kinds of locks that both sides have, in one form, so that a case is written once for all of them.

use futures_util::future::BoxFuture;
use leasehold::inspect::Holder;
use leasehold::kind::{Leased, Owned};
use leasehold::{Client, Error, Guard, Lock, LossReason, Owner};
use std::fmt;
use std::time::Duration;

/// A kind of lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `Client::lock`, `RLock`.
    Lock,
    /// `Client::fair_lock`, `RFairLock`.
    Fair,
    /// `Client::fenced_lock`, `RFencedLock`.
    Fenced,
    /// `Client::spin_lock`, `RSpinLock`.
    Spin,
    /// The write half of `Client::read_write_lock` and `RReadWriteLock`.
    Write,
    /// The read half of the same.
    Read,
}

impl Kind {
    /// Those that exclude: one holder at a time.
    pub(crate) const ALL: [Self; 5] = [Self::Lock, Self::Fair, Self::Fenced, Self::Spin, Self::Write];

    /// Those that are a hash of hold counts and nothing else, into which our side can look.
    pub(crate) const PLAIN: [Self; 3] = [Self::Lock, Self::Fenced, Self::Spin];

    /// Those whose releases wake waiters.
    pub(crate) const NOTICED: [Self; 4] = [Self::Lock, Self::Fair, Self::Fenced, Self::Write];

    /// The kind of that word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().chain([Self::Read]).find(|kind| kind.word() == word)
    }

    /// The kind by its word, which is also the agent's.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
            Self::Fair => "fair",
            Self::Fenced => "fenced",
            Self::Spin => "spin",
            Self::Write => "write",
            Self::Read => "read",
        }
    }

    /// A lock of this kind as the agent names it.
    pub(crate) fn object(self, name: &str) -> String {
        format!("{}:{name}", self.word())
    }

    /// A lock of this kind on our side.
    pub(crate) fn of(self, client: &Client, name: &str) -> Box<dyn RustLock> {
        match self {
            Self::Lock => Box::new(client.lock(name)),
            Self::Fair => Box::new(client.fair_lock(name)),
            Self::Fenced => Box::new(client.fenced_lock(name)),
            Self::Spin => Box::new(client.spin_lock(name)),
            Self::Write => Box::new(client.read_write_lock(name).write()),
            Self::Read => Box::new(client.read_write_lock(name).read()),
        }
    }

    /// The holder, as our side sees it. Only for [`Kind::PLAIN`].
    pub(crate) async fn inspect(self, client: &Client, name: &str) -> Option<Holder> {
        let holder = match self {
            Self::Fenced => client.fenced_lock(name).inspect().await,
            Self::Spin => client.spin_lock(name).inspect().await,
            _ => client.lock(name).inspect().await,
        };
        holder.expect("an answer")
    }

    /// Ends a hold by force, on our side. Only for [`Kind::PLAIN`].
    pub(crate) async fn force(self, client: &Client, name: &str) -> Option<Holder> {
        let holder = match self {
            Self::Fenced => client.fenced_lock(name).force_release().await,
            Self::Spin => client.spin_lock(name).force_release().await,
            _ => client.lock(name).force_release().await,
        };
        holder.expect("an answer")
    }

    /// The channel on which a release is announced, of a name that is mapped already. Waiters of a fair lock have one each instead.
    pub(crate) fn channel(self, raw: &str) -> String {
        tagged(if matches!(self, Self::Write | Self::Read) { "redisson_rwlock" } else { "redisson_lock__channel" }, raw)
    }

    /// The queue of the waiters of a fair lock.
    pub(crate) fn queue(raw: &str) -> String {
        tagged("redisson_lock_queue", raw)
    }
}

/// Redisson's rule for names that are derived from another: braces around it, unless it has some.
pub(crate) fn tagged(prefix: &str, raw: &str) -> String {
    if raw.contains('{') { format!("{prefix}:{raw}") } else { format!("{prefix}:{{{raw}}}") }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The wishes of an acquire. Nothing said: renewed, and waiting for as long as it takes.
#[derive(Clone, Default)]
pub(crate) struct Wish {
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) owner: Option<Owner>,
}

/// A lock of ours, of any kind.
pub(crate) trait RustLock: Send + Sync {
    fn acquire(&self, wish: Wish) -> BoxFuture<'static, Result<Box<dyn Held>, Error>>;
    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn Held>>, Error>>;
}

/// A guard of ours, of any kind.
pub(crate) trait Held: Send + Sync {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
    fn is_held(&self) -> bool;
    fn lost(&self) -> BoxFuture<'_, LossReason>;
}

impl<K: Leased + Owned> RustLock for Lock<K> {
    fn acquire(&self, wish: Wish) -> BoxFuture<'static, Result<Box<dyn Held>, Error>> {
        let mut acquire = self.acquire();
        if let Some(wait) = wish.wait {
            acquire = acquire.wait(wait);
        }
        if let Some(lease) = wish.lease {
            acquire = acquire.lease(lease);
        }
        if let Some(owner) = &wish.owner {
            acquire = acquire.owner(owner);
        }
        Box::pin(async move { acquire.await.map(|guard| Box::new(guard) as Box<dyn Held>) })
    }

    fn try_acquire(&self) -> BoxFuture<'_, Result<Option<Box<dyn Held>>, Error>> {
        Box::pin(async { Ok(self.try_acquire().await?.map(|guard| Box::new(guard) as Box<dyn Held>)) })
    }
}

impl<K: Leased> Held for Guard<K> {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>> {
        Box::pin((*self).release())
    }

    fn is_held(&self) -> bool {
        self.is_held()
    }

    fn lost(&self) -> BoxFuture<'_, LossReason> {
        Box::pin(async { self.lost().await.reason() })
    }
}
