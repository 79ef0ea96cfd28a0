//! Synchronization primitives of `parking_lot` and the standard library. Tests that explore thread orders use loom's primitives instead.
//!
//! Tests with loom are built with `--cfg leasehold_loom`, by `cargo xtask interleave`. They exclude the session, which has its own models in
//! leasehold-core.

#[cfg(not(all(test, leasehold_loom)))]
pub(crate) use {
    parking_lot::{Condvar, Mutex},
    std::thread::{self, Thread},
    std::thread_local,
};

#[cfg(all(feature = "embedded", not(all(test, leasehold_loom))))]
pub(crate) use std::sync::atomic::AtomicBool;

#[cfg(all(test, leasehold_loom))]
pub(crate) use self::of_loom::{Condvar, Mutex};

#[cfg(all(test, leasehold_loom))]
pub(crate) use loom::{
    sync::atomic::AtomicBool,
    thread::{self, Thread},
    thread_local,
};

#[cfg(all(test, leasehold_loom))]
mod of_loom {
    use std::{
        ops::{Deref, DerefMut},
        sync::PoisonError,
        time::Instant,
    };

    /// A mutex of loom with the interface of `parking_lot`.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    /// `None` only while its thread waits for a condition.
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|guard| MutexGuard(Some(guard)))
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("its thread does not wait")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("its thread does not wait")
        }
    }

    /// A condition variable of loom with the interface of `parking_lot`. Waits do not time out, which exposes a missing notification.
    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    pub(crate) struct Told;

    impl Told {
        pub(crate) const fn timed_out(&self) -> bool {
            false
        }
    }

    impl Condvar {
        pub(crate) fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, _until: Instant) -> Told {
            guard.0 = guard.0.take().map(|guard| self.0.wait(guard).unwrap_or_else(PoisonError::into_inner));
            Told
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
