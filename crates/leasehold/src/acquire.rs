//! Acquiring: the builder that a caller sees.

use crate::attempt;
use crate::error::{Error, InvalidInput};
use crate::guard::Guard;
use crate::lock::Lock;
use crate::owner::Owner;
use crate::settings;
use crate::telemetry;
use leasehold_core::command::Kind;
use leasehold_core::owner::HoldNumber;
use leasehold_core::session::{AcquireRequest, Patience};
use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tracing::Instrument as _;

/// An acquire that is being described. Awaiting it acquires.
///
/// # Cancel safety
///
/// Dropping the future at any point leaves nothing behind: a place in the line is given up, a command that is under way is
/// settled, and a lock that it took is released by the lifeline, as soon as the server can be reached. A future that is
/// neither polled again nor dropped keeps its place and a subscription, and holds nobody up for more than a moment.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let stock = client.lock("stock:1001");
/// let guard = stock.acquire().wait(Duration::from_secs(5)).max_hold(Duration::from_secs(120)).await?;
/// guard.release().await?;
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is acquired until this is awaited"]
pub struct Acquire {
    lock: Lock,
    wait: Option<Duration>,
    lease: Option<Duration>,
    max_hold: Option<Duration>,
    owner: Option<Owner>,
    reenter: Option<HoldNumber>,
}

impl Acquire {
    pub(crate) const fn new(lock: Lock) -> Self {
        Self { lock, wait: None, lease: None, max_hold: None, owner: None, reenter: None }
    }

    /// Waits for at most this long while others hold the lock; then one last attempt is made, and
    /// [`Error::WaitElapsed`] is the answer. `Duration::MAX` waits as long as it takes.
    ///
    /// Default: the client's [`default_wait`](crate::ClientBuilder::default_wait), or as long as it takes.
    pub const fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// Takes the lock for a fixed lease, which is not renewed: it is lost when the lease has run out. Whole milliseconds count.
    ///
    /// A re-entry never shortens the lease that the lock has. Default: the client's lease, renewed until the guard's end.
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Loses the lock, with the reason `MaxHold`, when it has been held for this long: nothing renews it beyond that, so its lease
    /// ends then, even if the guard was forgotten. It counts from the first grant; on a re-entry it has no effect.
    pub const fn max_hold(mut self, most: Duration) -> Self {
        self.max_hold = Some(most);
        self
    }

    /// Acquires as `owner`, which re-enters a lock that it holds. Default: the owner in whose scope the future is first polled, or
    /// an owner of its own.
    pub fn owner(mut self, owner: &Owner) -> Self {
        self.owner = Some(owner.clone());
        self
    }

    /// Re-enters this very hold.
    pub(crate) const fn entering(mut self, hold: HoldNumber) -> Self {
        self.reenter = Some(hold);
        self
    }

    /// Acquires, or says that the lock is busy.
    pub(crate) async fn run(&self, patience: Option<Patience>) -> Result<Option<Guard>, Error> {
        let class = self.lock.metrics().clone();
        let span = tracing::debug_span!(telemetry::SPAN_ACQUIRE, class = class.name);
        async move {
            let begun = self.lock.handle().clock.now();
            let wish = self.wish(patience)?;
            class.waiting.increment(1.0);
            let mut watch = Watch { class: &class, outcome: &class.cancelled };
            let result = attempt::acquire(self.lock.handle(), wish).await;
            let waited = self.lock.handle().clock.now().since(begun);
            watch.outcome = match &result {
                Ok(Some(_)) => &class.acquired,
                Ok(None) => &class.busy,
                Err(leasehold_core::error::AcquireError::WaitElapsed) => &class.wait_elapsed,
                Err(_) => &class.failed,
            };
            drop(watch);
            match result {
                Ok(Some(granted)) => {
                    class.acquire_seconds.record(waited.as_secs_f64());
                    class.held.increment(1.0);
                    Ok(Some(Guard::new(self.lock.clone(), granted)))
                }
                Ok(None) => Ok(None),
                Err(error) => Err(Error::from_acquire(self.lock.name(), waited, error)),
            }
        }
        .instrument(span)
        .await
    }

    /// Checks what was asked for, before anything is sent.
    fn wish(&self, patience: Option<Patience>) -> Result<AcquireRequest, Error> {
        let handle = self.lock.handle();
        if let Some(lease) = self.lease {
            settings::check_lease(lease)?;
        }
        if let Some(most) = self.max_hold {
            settings::check_max_hold(most)?;
        }
        let owner = match &self.owner {
            Some(owner) => Some(owner.id_for(handle).ok_or(InvalidInput::ForeignOwner)?),
            None => Owner::current(handle),
        };
        let patience = patience.unwrap_or_else(|| match self.wait.or(handle.settings.default_wait) {
            Some(wait) if wait < Duration::MAX => Patience::Until(handle.clock.now() + wait),
            _ => Patience::Forever,
        });
        let lease = self.lease.unwrap_or(handle.settings.lease);
        Ok(AcquireRequest {
            name: self.lock.checked_name()?.clone(),
            kind: Kind::Lock,
            permits: 1,
            class: self.lock.metrics().name,
            owner,
            reenter: self.reenter,
            lease: Duration::from_millis(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX)),
            renewed: self.lease.is_none(),
            max_hold: self.max_hold,
            patience,
        })
    }
}

impl IntoFuture for Acquire {
    type Output = Result<Guard, Error>;
    type IntoFuture = Acquiring;

    fn into_future(self) -> Acquiring {
        Acquiring(Box::pin(async move {
            let waited = self.wait.unwrap_or_default();
            // Only a try is told that the lock is busy, and this is none.
            self.run(None).await?.ok_or_else(|| Error::WaitElapsed { lock: self.lock.name().to_owned(), waited })
        }))
    }
}

/// The future of an [`Acquire`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Acquiring(Pin<Box<dyn Future<Output = Result<Guard, Error>> + Send>>);

impl Future for Acquiring {
    type Output = Result<Guard, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Acquiring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Acquiring").finish_non_exhaustive()
    }
}

/// Counts an acquire when it ends, or is dropped.
struct Watch<'a> {
    class: &'a telemetry::Class,
    outcome: &'a metrics::Counter,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.class.waiting.decrement(1.0);
        self.outcome.increment(1);
    }
}
