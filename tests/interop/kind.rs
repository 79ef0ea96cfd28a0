//! The kinds of locks that both sides have, in one form, so that a case is written once for all of them.

use futures_util::future::BoxFuture;
use leasehold::{Client, Error, Guard, Holder, Lock, LossReason, Owner};
use std::fmt;
use std::time::Duration;

/// A kind that excludes: one holder at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `Client::lock`, `RLock`.
    Lock,
}

impl Kind {
    pub(crate) const ALL: [Self; 1] = [Self::Lock];

    /// The kind by its word, which is also the agent's.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Lock => "lock",
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
        }
    }

    /// The channel on which a release is announced, of a name that is mapped already.
    pub(crate) fn channel(self, raw: &str) -> String {
        let prefix = match self {
            Self::Lock => "redisson_lock__channel",
        };
        if raw.contains('{') { format!("{prefix}:{raw}") } else { format!("{prefix}:{{{raw}}}") }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What is asked of an acquire. Nothing said: renewed, and waiting for as long as it takes.
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
    fn inspect(&self) -> BoxFuture<'_, Result<Option<Holder>, Error>>;
    fn force_release(&self) -> BoxFuture<'_, Result<Option<Holder>, Error>>;
}

/// A guard of ours, of any kind.
pub(crate) trait Held: Send + Sync {
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), Error>>;
    fn is_held(&self) -> bool;
    fn lost(&self) -> BoxFuture<'_, LossReason>;
}

/// A kind whose methods have the usual names.
macro_rules! usual {
    ($lock:ty, $guard:ty) => {
        impl RustLock for $lock {
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

            fn inspect(&self) -> BoxFuture<'_, Result<Option<Holder>, Error>> {
                Box::pin(self.inspect())
            }

            fn force_release(&self) -> BoxFuture<'_, Result<Option<Holder>, Error>> {
                Box::pin(self.force_release())
            }
        }

        impl Held for $guard {
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
    };
}

usual!(Lock, Guard);
