//! The one shape in which every library is measured.

use std::ops::Range;
use std::time::Duration;

/// A client of a library, or as much of it as the work needs.
pub(crate) trait Library: Clone + Send + Sync + 'static {
    /// A lock of one name, before it is acquired.
    type Lock: Clone + Send + Sync + 'static;
    /// A lock that is held.
    type Held: Send + 'static;

    /// Makes another client of the same server.
    fn another(&self) -> impl Future<Output = Self>;

    fn lock(&self, name: &str) -> Self::Lock;

    /// Waits for as long as others hold the lock.
    fn acquire(lock: &Self::Lock) -> impl Future<Output = Self::Held> + Send;

    fn release(held: Self::Held) -> impl Future<Output = ()> + Send;

    /// The times from a release in one client to the grant in another that waits. `None` is for a library that waits as all others do.
    fn wake_up(&self, _: &str, _: usize, _: Range<Duration>) -> impl Future<Output = Option<Vec<Duration>>> {
        async { None }
    }
}
