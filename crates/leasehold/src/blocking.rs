//! Locks for threads without a runtime.
//!
//! [`wait`] waits on the calling thread for any future of this crate. It needs no runtime: the client's own thread reads the replies, and
//! wakes the waiting thread.
//!
//! - **Connecting:** `wait(Client::connect(url))`. This client does not use the application's runtime.
//! - **Work under a lock:** a lost lock cannot stop a thread. Call [`Guard::is_held`](crate::Guard::is_held) before critical steps. The
//!   work of [`Lock::with`](crate::Lock::with), [`Leader::run`](crate::leader::Leader::run) and [`Once::run`](crate::once::Once::run) is an
//!   async closure, which may block on this thread: `wait(lock.with(async |held| work(held)))`.
//! - **Dropping a guard** that a thread acquired through `wait` waits up to 250 ms for the release, because the process may end with the
//!   thread. In the context of a runtime, or during an outage, the background releases the lock and the drop does not wait.
//! - **Searches:** `while let Some(found) = wait(locks.next())`.
//!
//! # Examples
//!
//! ```
//! use leasehold::Client;
//! use leasehold::blocking::wait;
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let client = Client::embedded();
//! // With a server: let client = wait(Client::connect(url))?;
//! let stock = client.lock("stock:1001");
//! let guard = wait(stock.acquire().wait(Duration::from_secs(5)))?;
//! assert!(wait(stock.try_acquire())?.is_none());
//! wait(guard.release())?;
//!
//! let left = wait(stock.with(async |held| if held.is_held() { 99 } else { 100 }))?;
//! assert_eq!(left, 99);
//!
//! // An owner re-enters its locks.
//! let owner = client.new_owner();
//! owner.scope_blocking(|| {
//!     let outer = wait(stock.acquire())?;
//!     let inner = wait(stock.acquire())?;
//!     assert_eq!(inner.hold_count(), 2);
//!     wait(inner.release())?;
//!     wait(outer.release())
//! })?;
//!
//! wait(client.shutdown(Duration::from_secs(5)))?;
//! # Ok(()) }
//! ```

use crate::runtime::sync::{Thread, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

#[expect(clippy::missing_const_for_thread_local, reason = "loom's macro takes no const block")]
mod waits {
    use crate::runtime::sync::thread_local;
    use std::cell::Cell;

    thread_local! {
        /// The number of nested polls by `wait` on this thread.
        pub(super) static WAITS: Cell<u32> = Cell::new(0);
    }
}

/// Waits on this thread until a future of this crate is ready, and returns its output.
///
/// # Panics
///
/// Panics in an async context, with the location of the call, because the wait would block the executor. tokio prints its own panic message
/// first. Threads of `tokio::task::spawn_blocking` may call it.
#[track_caller]
pub fn wait<F: IntoFuture>(future: F) -> F::Output {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        // `block_on` panics in an async context, but not on a blocking thread of the runtime. tokio offers no other check.
        let may_block = catch_unwind(AssertUnwindSafe(|| runtime.block_on(std::future::ready(())))).is_ok();
        assert!(
            may_block,
            "leasehold::blocking::wait was called in an async context and would block its executor: await the future, or call wait in \
             `tokio::task::spawn_blocking`"
        );
    }
    let mut future = pin!(future.into_future());
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut cx = Context::from_waker(&waker);
    loop {
        let polls = Polls::begin();
        if let Poll::Ready(value) = future.as_mut().poll(&mut cx) {
            drop(polls);
            if is_waited_for() {
                // This wait may have consumed the wake-up of the wait around it, which polls once more.
                thread::current().unpark();
            }
            return value;
        }
        drop(polls);
        thread::park();
    }
}

/// Returns whether [`wait`] polls the caller, which then has its own thread.
pub(crate) fn is_waited_for() -> bool {
    waits::WAITS.with(|waits| waits.get() > 0)
}

/// A poll on this thread.
struct Polls;

impl Polls {
    fn begin() -> Self {
        waits::WAITS.with(|waits| waits.set(waits.get() + 1));
        Self
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        waits::WAITS.with(|waits| waits.set(waits.get() - 1));
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(all(test, not(leasehold_loom)))]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn wait_within_a_wait_misses_no_wakeup() {
        let (done, is_done) = mpsc::channel();
        thread::spawn(move || {
            let mut polls = 0;
            wait(poll_fn(|cx| {
                polls += 1;
                if polls == 2 {
                    return Poll::Ready(());
                }
                cx.waker().wake_by_ref();
                // The inner wait parks once, and consumes the wake-up of the outer wait.
                let mut is_parked = false;
                wait(poll_fn(
                    |_| if std::mem::replace(&mut is_parked, true) { Poll::Ready(()) } else { Poll::Pending },
                ));
                assert!(is_waited_for());
                Poll::Pending
            }));
            done.send(is_waited_for()).expect("the test waits");
        });
        assert_eq!(is_done.recv_timeout(Duration::from_secs(20)), Ok(false), "the outer wait polls again");
    }
}
