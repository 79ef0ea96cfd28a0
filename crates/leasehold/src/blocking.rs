//! The same locks for threads without a runtime.
//!
//! Every type here stands for the asynchronous one of the same name, is made [`From`] it, and gives it back by `as_async`. A
//! setting of an asynchronous lock, such as a [class](crate::Lock::class), is described there:
//! `blocking::Lock::from(client.as_async().fair_lock("till").fenced())`.
//!
//! The client's own thread reads the replies. A thread that waits for a lock sleeps, and the release notice wakes it. A lost lock
//! cannot stop a thread: call [`Guard::is_held`] before critical steps.
//!
//! # Panics
//!
//! Waiting methods would block the executor in an async context, so they panic there with the location of the call.
//! tokio prints its own panic before that.
//!
//! # Examples
//!
//! ```
//! # use leasehold::blocking::Client;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::from(leasehold::Client::embedded());
//! let stock = client.lock("stock:1001");
//! let guard = stock.acquire()?;
//! assert!(stock.try_acquire()?.is_none());
//! guard.release()?;
//!
//! // An owner takes its locks again.
//! let owner = client.new_owner();
//! owner.scope_blocking(|| {
//!     let outer = stock.acquire()?;
//!     let inner = stock.acquire()?;
//!     assert_eq!(inner.hold_count(), 2);
//!     inner.release()?;
//!     outer.release()
//! })?;
//! # Ok(()) }
//! ```

mod client;
mod counted;
mod fenced;
mod group;
mod guard;
mod leader;
mod lock;
mod once;
mod search;

pub use client::Client;
pub use counted::{BareSemaphore, CountDownLatch, Semaphore};
pub use fenced::FencedValue;
pub use group::{GroupGuard, MultiGuard, MultiLock, QuorumGuard, QuorumLock};
pub use guard::Guard;
pub use leader::{Leader, LeaderHandle};
pub use lock::{AnyLock, Lock, ReadWriteLock};
pub use once::Once;
pub use search::{AnnouncedClients, Locks};

use crate::sync::{Thread, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// Makes a type of threads out of its asynchronous one, and the way back.
macro_rules! mirrors {
    ($($name:ident $(<$kind:ident: $bound:ident>)? = $path:ty),*) => {$(
        impl $(<$kind: crate::kind::$bound>)? From<$path> for $name $(<$kind>)? {
            fn from(inner: $path) -> Self {
                Self(inner)
            }
        }

        impl $(<$kind: crate::kind::$bound>)? $name $(<$kind>)? {
            /// The asynchronous one, for what it alone can do.
            pub const fn as_async(&self) -> &$path {
                &self.0
            }
        }
    )*};
}

use mirrors;

/// Polls a future on this thread, and parks it in between. The futures of this crate need no runtime: what they wait for is
/// woken by the background. No runtime of the application has part in it, so none needs to run.
#[track_caller]
pub(crate) fn park_on<T>(future: impl Future<Output = T>) -> T {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        // `block_on` panics in an async context, but not on a blocking thread of the runtime. tokio has no other check
        // for this.
        let may_block = catch_unwind(AssertUnwindSafe(|| runtime.block_on(std::future::ready(())))).is_ok();
        assert!(
            may_block,
            "a method of leasehold::blocking was called in an async context and would block its executor: await the method of the \
             asynchronous type, which `as_async` gives, or call this one in `tokio::task::spawn_blocking`"
        );
    }
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
