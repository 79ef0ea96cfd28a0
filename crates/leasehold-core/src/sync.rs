//! The synchronization types of the standard library, or those of loom for its tests.
//!
//! The loom tests are built with `--cfg leasehold_loom`, by `cargo xtask interleave`.

#[cfg(not(all(test, leasehold_loom)))]
pub(crate) use std::sync::{
    Mutex, MutexGuard, OnceLock,
    atomic::{AtomicBool, AtomicU32, AtomicU64},
};

#[cfg(all(test, leasehold_loom))]
pub(crate) use self::of_loom::*;

#[cfg(all(test, leasehold_loom))]
mod of_loom {
    use std::sync::OnceLock as Place;

    use loom::sync::atomic::Ordering;

    pub(crate) use loom::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, AtomicU64},
    };

    /// A value that is set once. loom lacks this type, so a loom flag models the order.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        value: Place<T>,
        is_set: AtomicBool,
        setting: Mutex<()>,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { value: Place::new(), is_set: AtomicBool::new(false), setting: Mutex::new(()) }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }

        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            let _setting = self.setting.lock().expect("no thread panics");
            let outcome = self.value.set(value);
            self.is_set.store(true, Ordering::Release);
            outcome
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let setting = self.setting.lock().expect("no thread panics");
            let value = self.value.get_or_init(make);
            self.is_set.store(true, Ordering::Release);
            drop(setting);
            value
        }
    }
}
