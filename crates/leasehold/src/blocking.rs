//! The same locks for threads without a runtime.
//!
//! Everything goes by the lifeline's connections; a thread that waits for a lock sleeps, and is woken by the release notice.
//!
//! # Panics
//!
//! The methods that wait must not be called in an async context, where they would block the executor: they panic there.
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
//! # Ok(()) }
//! ```

use crate::error::{ConnectError, Error, WithError};
use crate::inspect::Holder;
use crate::loss::{HoldToken, Lost};
use crate::{ClientBuilder, LossReason, NotReleased};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

/// A [`Client`](crate::Client) for threads.
#[derive(Clone, Debug)]
pub struct Client(crate::Client);

impl Client {
    /// Connects to a server with the default settings.
    ///
    /// # Errors
    ///
    /// As [`Client::connect`](crate::Client::connect).
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::build(crate::Client::builder(), url)
    }

    /// Connects to a server with these settings.
    ///
    /// # Errors
    ///
    /// As [`ClientBuilder::connect`].
    pub fn build(builder: ClientBuilder, url: &str) -> Result<Self, ConnectError> {
        park_on(builder.connect(url)).map(Self)
    }

    /// The reentrant lock of that name.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock(self.0.lock(name))
    }

    /// Ends the client. See [`Client::shutdown`](crate::Client::shutdown).
    ///
    /// # Errors
    ///
    /// Names the locks that could not be released in time.
    pub fn shutdown(&self, within: Duration) -> Result<(), NotReleased> {
        park_on(self.0.shutdown(within))
    }
}

impl From<crate::Client> for Client {
    fn from(client: crate::Client) -> Self {
        Self(client)
    }
}

/// A [`Lock`](crate::Lock) for threads.
#[derive(Clone, Debug)]
pub struct Lock(crate::Lock);

impl Lock {
    /// The name.
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// Acquires the lock, waiting as long as the client's default wait says.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub fn acquire(&self) -> Result<Guard, Error> {
        self.acquire_with(|acquire| acquire)
    }

    /// Acquires the lock as described, such as `|acquire| acquire.wait(secs(5))`.
    ///
    /// # Errors
    ///
    /// As [`Lock::acquire`](crate::Lock::acquire).
    pub fn acquire_with(&self, describe: impl FnOnce(crate::Acquire) -> crate::Acquire) -> Result<Guard, Error> {
        park_on(describe(self.0.acquire()).into_future()).map(Guard)
    }

    /// Acquires the lock if it is free.
    ///
    /// # Errors
    ///
    /// As [`Lock::try_acquire`](crate::Lock::try_acquire).
    pub fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        Ok(park_on(self.0.try_acquire())?.map(Guard))
    }

    /// Acquires, runs `work`, and releases. A thread cannot be stopped: `work` asks [`Guard::is_held`] where it matters.
    ///
    /// # Errors
    ///
    /// As [`Lock::with`](crate::Lock::with).
    pub fn with<T>(&self, work: impl FnOnce(&Guard) -> T) -> Result<T, WithError<T>> {
        let guard = self.acquire().map_err(WithError::NotAcquired)?;
        let value = work(&guard);
        match guard.release() {
            Ok(()) => Ok(value),
            Err(Error::Lost { lock, reason }) => Err(WithError::Lost { lock, reason, value: Some(value) }),
            Err(error) => Err(WithError::NotReleased { error, value }),
        }
    }

    /// Who holds the lock.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    pub fn inspect(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.inspect())
    }

    /// Ends whatever hold there is. See [`Lock::force_release`](crate::Lock::force_release).
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    pub fn force_release(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.force_release())
    }
}

/// A [`Guard`](crate::Guard) for threads. Dropping it releases the lock in the background.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock at once"]
pub struct Guard(crate::Guard);

impl Guard {
    /// Whether the lock is certainly still held.
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// How long the lock is certainly held even if nothing renews it.
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// How often the lock is held by this guard's owner.
    pub fn hold_count(&self) -> u32 {
        self.0.hold_count()
    }

    /// Takes the lock once more, as the same owner.
    ///
    /// # Errors
    ///
    /// As [`Guard::reenter`](crate::Guard::reenter).
    pub fn reenter(&self) -> Result<Self, Error> {
        park_on(self.0.reenter()).map(Self)
    }

    /// Sleeps until the lock is lost, and says why.
    pub fn wait_until_lost(&self) -> LossReason {
        let lost: Lost = park_on(self.0.lost());
        lost.reason()
    }

    /// A token that is cancelled when the lock ends.
    pub fn cancellation_token(&self) -> HoldToken {
        self.0.cancellation_token()
    }

    /// Releases the lock, and says whether it was held up to that moment.
    ///
    /// # Errors
    ///
    /// As [`Guard::release`](crate::Guard::release).
    pub fn release(self) -> Result<(), Error> {
        park_on(self.0.release())
    }

    /// Gives the guard up without a release.
    pub fn detach(self) {
        self.0.detach();
    }
}

/// Polls a future on this thread, and parks it in between. The futures of this crate need no runtime: what they wait for is
/// woken by the lifeline.
fn park_on<T>(future: impl Future<Output = T>) -> T {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        // Panics in an async context, and not on a thread that the runtime keeps for blocking.
        return runtime.block_on(future);
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
