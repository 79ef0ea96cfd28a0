//! The lock crates of others, with their defaults, and the mutex of one process.

use crate::library::Library;
use rlock::async_lock::{RLock, RLockGuard};
use rslock::LockManager;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::OwnedMutexGuard;

/// The lease of a library that has no default.
const LEASE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Rslock {
    manager: LockManager,
    url: String,
}

impl Rslock {
    pub(crate) fn connect(url: &str) -> Self {
        Self { manager: LockManager::new(vec![url]), url: url.to_owned() }
    }
}

impl Library for Rslock {
    type Lock = (LockManager, Arc<str>);
    type Held = rslock::Lock;

    async fn another(&self) -> Self {
        Self::connect(&self.url)
    }

    fn lock(&self, name: &str) -> Self::Lock {
        (self.manager.clone(), name.into())
    }

    async fn acquire((manager, name): &Self::Lock) -> rslock::Lock {
        manager.acquire_no_guard(name.as_bytes(), LEASE).await.expect("the lock")
    }

    async fn release(held: rslock::Lock) {
        held.release().await;
    }
}

#[derive(Clone)]
pub(crate) struct Rlock {
    manager: RLock,
    url: String,
}

impl Rlock {
    pub(crate) async fn connect(url: &str) -> Self {
        Self { manager: RLock::new(url).await.expect("a client"), url: url.to_owned() }
    }
}

impl Library for Rlock {
    type Lock = (RLock, Arc<str>);
    type Held = RLockGuard;

    async fn another(&self) -> Self {
        Self::connect(&self.url).await
    }

    fn lock(&self, name: &str) -> Self::Lock {
        (self.manager.clone(), name.into())
    }

    async fn acquire((manager, name): &Self::Lock) -> RLockGuard {
        manager.acquire_mutex(&**name).await.expect("the lock")
    }

    async fn release(mut held: RLockGuard) {
        held.release().await.expect("released");
    }
}

/// The mutex of tokio, which knows no other process: the floor of a hot name.
#[derive(Clone, Default)]
pub(crate) struct InProcess {
    locks: Arc<Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>>,
}

impl Library for InProcess {
    type Lock = Arc<tokio::sync::Mutex<()>>;
    type Held = OwnedMutexGuard<()>;

    async fn another(&self) -> Self {
        self.clone()
    }

    fn lock(&self, name: &str) -> Self::Lock {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).entry(name.to_owned()).or_default().clone()
    }

    async fn acquire(lock: &Self::Lock) -> OwnedMutexGuard<()> {
        lock.clone().lock_owned().await
    }

    async fn release(held: OwnedMutexGuard<()>) {
        drop(held);
    }
}
