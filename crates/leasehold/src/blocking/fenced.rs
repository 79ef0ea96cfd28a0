//! The guarded value, for threads.

use super::{Guard, park_on};
use crate::error::Error;
use crate::fence;
use crate::kind::Fencing;
use bytes::Bytes;

/// A [`FencedValue`](fence::FencedValue) for threads.
#[derive(Clone, Debug)]
pub struct FencedValue(fence::FencedValue);

impl From<fence::FencedValue> for FencedValue {
    fn from(inner: fence::FencedValue) -> Self {
        Self(inner)
    }
}

impl FencedValue {
    /// The key.
    pub fn key(&self) -> &str {
        self.0.key()
    }

    /// The asynchronous one.
    pub const fn as_async(&self) -> &fence::FencedValue {
        &self.0
    }

    /// Registers the guard's token, and reads the value.
    ///
    /// # Errors
    ///
    /// As [`FencedValue::read`](fence::FencedValue::read).
    #[track_caller]
    pub fn read<K: Fencing>(&self, guard: &Guard<K>) -> Result<Option<Bytes>, Error> {
        park_on(self.0.read(guard.as_async()))
    }

    /// Registers the guard's token, and writes the value.
    ///
    /// # Errors
    ///
    /// As [`FencedValue::write`](fence::FencedValue::write).
    #[track_caller]
    pub fn write<K: Fencing>(&self, guard: &Guard<K>, value: impl Into<Bytes>) -> Result<(), Error> {
        park_on(self.0.write(guard.as_async(), value))
    }

    /// Registers the guard's token.
    ///
    /// # Errors
    ///
    /// As [`FencedValue::check`](fence::FencedValue::check).
    #[track_caller]
    pub fn check<K: Fencing>(&self, guard: &Guard<K>) -> Result<(), Error> {
        park_on(self.0.check(guard.as_async()))
    }
}
