//! Leader election: of all processes that campaign for a name, one process leads and runs the leader's work.

mod handle;

pub use handle::{LeaderHandle, LeaderState};

use crate::client::Client;
use crate::error::{Error, WithError};
use crate::fence::FencingToken;
use crate::kind::Fenced;
use crate::kinds::FencedLock;
use crate::lock::acquire::Acquire;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::lock::loss::HoldToken;
use crate::lock::owner::Owner;
use futures_util::future::{Either, select};
use handle::{Campaign, Shared};
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// The default of [`Leader::grace`].
const GRACE: Duration = Duration::from_secs(5);

/// The longest pause after a failed campaign. It ensures a new leader within a second after the end of a dead leader's lease.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A candidate for the leadership of a name. [`Client::leader`] creates candidates.
///
/// **When to use it:** if one instance of many runs endless work, such as a scheduler or the consumer of a feed. Another instance takes over when the leader
/// dies. **When not:** for a job with a start time (use [`Client::once`]), or if each work item has its own lock.
///
/// The leader holds the [`FencedLock`] of the name. It leads until its lease ends by its local clock, which is before the server can grant the
/// lock to another candidate. Within the limits of [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md) at most
/// one candidate leads. A leader that was paused beyond its lease stops when it resumes. A store that checks [`Term::fencing_token`] refuses
/// its late writes. After the death of a leader the next candidate leads once the lease has ended; after a resignation, at once.
///
/// # Examples
///
/// ```
/// # use std::time::Duration;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let leader = client.leader("scheduler");
/// let handle = leader.handle(); // for a health check and for the shutdown
/// # let end = handle.clone();
///
/// let campaigning = leader.run(async |term| {
///     println!("leads with the token {}", term.fencing_token());
///     // The leader's work: dropped at the loss of the leadership, and restarted in the next term.
/// #   assert!(end.is_leader());
///     tokio::time::sleep(Duration::from_millis(1)).await;
///     "done"
/// });
/// assert_eq!(campaigning.await?, Some("done"));
/// assert!(!handle.is_leader());
/// # Ok::<(), leasehold::Error>(()) }).unwrap();
/// ```
///
/// In a spawned task, `work` must be an `async move` closure that owns its data. For a closure that borrows, the
/// compiler reports "implementation of `Send` is not general enough".
///
/// ```
/// # use std::sync::Arc;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let (leader, feed) = (client.leader("scheduler"), Arc::new("feed".to_owned()));
/// let campaign = tokio::spawn(async move {
///     leader
///         .run(async move |term| {
///             tokio::task::yield_now().await;
///             format!("{} {}", feed, term.is_leading())
///         })
///         .await
/// });
/// assert_eq!(campaign.await?, Ok(Some("feed true".to_owned())));
/// # Ok::<(), tokio::task::JoinError>(()) }).unwrap();
/// ```
#[must_use = "a candidate does nothing until `run` is awaited"]
pub struct Leader {
    lock: FencedLock,
    owner: Owner,
    lease: Option<Duration>,
    grace: Duration,
    shared: Arc<Shared>,
}

impl Client {
    /// Creates a candidate for the leadership of `name`. See [`Leader`].
    pub fn leader(&self, name: impl AsRef<str>) -> Leader {
        let shared = Arc::new(Shared::new(self.handle().clock.clone(), self.handle().background.closing()));
        // Every candidate is its own owner: two candidates of one owner would both lead.
        Leader { lock: self.fenced_lock(name), owner: self.new_owner(), lease: None, grace: GRACE, shared }
    }
}

impl Leader {
    /// Sets the lease, which the client renews while this candidate leads. After the death of a leader the next candidate leads once the lease has ended.
    /// Default: the client's [`lease`](crate::ClientBuilder::lease).
    pub const fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Sets how long the work may continue after [`LeaderHandle::resign`] or [`Client::shutdown`], while the lock is still held. Default:
    /// 5 s.
    pub const fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Returns a handle that reports whether this candidate leads, and can make it resign.
    pub fn handle(&self) -> LeaderHandle {
        LeaderHandle { shared: self.shared.clone(), lock: self.lock.clone() }
    }

    /// Campaigns until this candidate leads, and runs `work` while it leads. After a loss of the leadership, `work` is dropped at once, and
    /// the candidate campaigns again. If the server is unreachable or refuses the commands, the candidate keeps retrying
    /// ([`LeaderState::Failing`]), at most half a second after each failure.
    ///
    /// The end of `work` ends the leadership: the candidate releases the lock, and `run` returns the result of `work`. The result is `None` if the
    /// candidate resigned before it led, or if `work` outlived a resignation by the [`grace`](Leader::grace). A
    /// [shutdown](Client::shutdown) of the client counts as a resignation.
    ///
    /// # Errors
    ///
    /// [`WithError::NotAcquired`] if no later campaign can succeed: the name is in use by other data, the lease is invalid, or the client is
    /// shut down. [`WithError::Lost`] and [`WithError::NotReleased`] contain the result of finished work: the leadership was lost before its end, or
    /// may last for another lease.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops `work`, and the background releases the lock.
    pub async fn run<T>(self, mut work: impl AsyncFnMut(&Term) -> T) -> Result<Option<T>, WithError<T>> {
        let campaign = Campaign::new(&self.shared);
        loop {
            let Some(term) = self.campaign(&campaign).await.map_err(WithError::NotAcquired)? else { return Ok(None) };
            let end = {
                let work = pin!(term.guard.guarded(work(&term)));
                let end_of_grace = async {
                    self.shared.resign.cancelled().await;
                    attempt::pause(self.lock.spec().handle(), self.grace).await;
                };
                match select(work, pin!(end_of_grace)).await {
                    Either::Left((worked, _)) => Some(worked),
                    Either::Right(_) => None,
                }
            };
            match end {
                Some(Ok(value)) => return WithError::unless_released(value, term.guard.release().await).map(Some),
                // A resigned candidate does not campaign again.
                Some(Err(_)) if self.shared.resign.is_cancelled() => {}
                Some(Err(_)) => campaign.follow(),
                None => {
                    // The background retries a failed release, and a resignation needs no proof of exclusion.
                    drop(term.guard.release().await);
                    return Ok(None);
                }
            }
        }
    }

    /// Waits until this candidate leads. Returns `None` if it resigns first.
    async fn campaign(&self, campaign: &Campaign<'_>) -> Result<Option<Term>, Error> {
        let mut pause = LONGEST_PAUSE / 8;
        loop {
            let mut acquire = self.lock.acquire().wait(Duration::MAX).owner(&self.owner);
            (acquire.lease, acquire.renewed) = (self.lease, true);
            let won = match select(pin!(self.shared.resign.cancelled()), pin!(self.wait(acquire, campaign))).await {
                Either::Left(_) => return self.not_elected(),
                Either::Right((won, _)) => won,
            };
            match won {
                Ok(guard) => return Ok(Some(campaign.begin_term(guard))),
                // An operator may lift a refusal, so the candidate continues.
                Err(error) if error.is_retryable() || matches!(error, Error::Refused { .. }) => {
                    campaign.note_failure(&error, self.lock.name());
                }
                Err(error) => return Err(error),
            }
            let handle = self.lock.spec().handle();
            let random = handle.with(|session, _| session.random());
            let rest = pin!(attempt::pause(handle, pause.mul_f64(0.5 + random / 2.0)));
            if let Either::Left(_) = select(pin!(self.shared.resign.cancelled()), rest).await {
                return self.not_elected();
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Returns the result of a candidate that resigns before it leads. After a shutdown of the client, returns an error, to stop retries of the caller.
    fn not_elected(&self) -> Result<Option<Term>, Error> {
        if self.lock.spec().handle().background.is_closing() {
            return Err(Error::ShutDown { lock: self.lock.name().to_owned() });
        }
        Ok(None)
    }

    /// Waits for the lock. A wait without an error for `unreachable_after` means that another candidate leads.
    async fn wait(&self, acquire: Acquire<Fenced>, campaign: &Campaign<'_>) -> Result<Guard<Fenced>, Error> {
        let handle = self.lock.spec().handle();
        let settings = &handle.settings.session;
        let in_touch = pin!(attempt::pause(handle, settings.unreachable_after + settings.command_timeout * 2));
        match select(acquire.into_future(), in_touch).await {
            Either::Left((won, _)) => won,
            Either::Right(((), acquiring)) => {
                campaign.follow();
                acquiring.await
            }
        }
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader")
            .field("name", &self.lock.name())
            .field("state", &*self.shared.state.borrow())
            .field("lease", &self.lease)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}

/// The period in which a candidate leads, from the grant of the lock to its loss or release. [`Leader::run`](Leader::run) passes
/// it to the work.
#[derive(Debug)]
pub struct Term {
    guard: Guard<Fenced>,
    shared: Arc<Shared>,
}

impl Term {
    /// Returns the fencing token of the term, which is greater than the tokens of all earlier terms. A store that checks it refuses late writes of
    /// an earlier leader: see [`fence`](crate::fence).
    pub fn fencing_token(&self) -> FencingToken {
        self.guard.fencing_token()
    }

    /// Returns `true` if this candidate still leads, by its local clock. Check this before an action that cannot be undone.
    pub fn is_leading(&self) -> bool {
        self.guard.is_held()
    }

    /// Returns the time for which this candidate certainly leads without another renewal, or zero once the leadership is lost.
    pub fn remaining(&self) -> Duration {
        self.guard.remaining()
    }

    /// Returns `true` once a resignation was requested. From then on the work has its [`grace`](crate::leader::Leader::grace) to finish.
    pub fn is_resigned(&self) -> bool {
        self.shared.resign.is_cancelled()
    }

    /// Completes when [`LeaderHandle::resign`](crate::leader::LeaderHandle::resign) or [`Client::shutdown`](crate::Client::shutdown) requests
    /// a resignation. From then on the work has its [`grace`](crate::leader::Leader::grace) to finish.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn resigned(&self) {
        self.shared.resign.cancelled().await;
    }

    /// Returns a token for work that runs elsewhere, which is cancelled at the end of the term. See
    /// [`Guard::cancellation_token`](crate::Guard::cancellation_token).
    pub fn cancellation_token(&self) -> HoldToken {
        self.guard.cancellation_token()
    }

    /// Returns the guard of the leader's lock, for example for a [`FencedValue`](crate::fence::FencedValue).
    pub const fn guard(&self) -> &Guard<Fenced> {
        &self.guard
    }
}
