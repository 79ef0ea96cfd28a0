//! The handle of a candidate, which reports its state and makes it resign.

use super::Term;
use crate::client::ids::HolderId;
use crate::error::Error;
use crate::fence::FencingToken;
use crate::inspect::Holder;
use crate::kind::Fenced;
use crate::kinds::FencedLock;
use crate::lock::attempt;
use crate::lock::guard::Guard;
use crate::runtime::clock::Clock;
use crate::runtime::sync::Mutex;
use crate::telemetry::event;
use futures_util::future::select;
use futures_util::{Stream, stream};
use leasehold_core::hold_cell::HoldCell;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A handle of a candidate, which reports whether the candidate leads, and can make it resign. Clones refer to the same candidate.
///
/// # Examples
///
/// ```
/// # use leasehold::leader::LeaderState;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = leasehold::Client::embedded();
/// let leader = client.leader("scheduler");
/// let handle = leader.handle();
/// let campaigning = tokio::spawn(leader.run(async |term| term.resigned().await));
///
/// let mut state = handle.watch();
/// state.wait_for(|state| matches!(state, LeaderState::Leading { .. })).await?;
/// assert!(handle.is_leader());
/// handle.resign().await;
/// assert_eq!(campaigning.await??, Some(()));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct LeaderHandle {
    shared: Arc<Shared>,
    lock: FencedLock,
}

/// The state of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderState {
    /// The campaign has not started.
    Idle,
    /// The candidate campaigns. Another candidate leads, or no candidate leads yet.
    Following,
    /// The candidate leads. After a loss this state remains until the candidate's future is polled, and after a resignation until the lock is
    /// released. [`LeaderHandle::is_leader`] reads the clock instead.
    Leading {
        /// The fencing token of its term.
        token: FencingToken,
    },
    /// The candidate campaigns, but its last attempt failed, for example because the server is unreachable.
    Failing {
        /// The failure.
        error: Error,
    },
    /// The candidate resigned, its work finished, or the future of [`Leader::run`](crate::leader::Leader::run) was dropped.
    Ended,
}

impl LeaderHandle {
    pub(super) const fn new(shared: Arc<Shared>, lock: FencedLock) -> Self {
        Self { shared, lock }
    }

    /// Returns `true` if the candidate leads. This reads the clock: it returns `false` once the lease has ended, even before the candidate's future
    /// is polled.
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// Returns the last state that the candidate's future has set.
    pub fn state(&self) -> LeaderState {
        self.shared.state()
    }

    /// Returns a receiver of the candidate's state and its changes.
    pub fn watch(&self) -> watch::Receiver<LeaderState> {
        self.shared.state.subscribe()
    }

    /// Returns the current leader among all candidates from the server, or `None` if no candidate leads. [`Client::who_is`](crate::Client::who_is)
    /// may identify its process.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn leader(&self) -> Result<Option<Holder>, Error> {
        self.lock.inspect().await
    }

    /// Returns the holder's id of the current leader among all candidates: at once, and after each change. `None` means that no candidate
    /// leads. [`watch`](Self::watch) reports this candidate only, and sends nothing.
    ///
    /// The stream asks the server after each interval, of at least 10 ms, because a new leader publishes no message. It also asks when this
    /// candidate begins or ends a term. A term that is shorter than the interval may be missed. The stream asks only while it is polled, and
    /// ends with the [shutdown](crate::Client::shutdown) of the client.
    ///
    /// # Errors
    ///
    /// An item is an error of [`Lock::inspect`](crate::Lock::inspect) if the server does not reply. The stream continues after it, and does
    /// not repeat an equal error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of a `next` loses no change.
    ///
    /// # Examples
    ///
    /// ```
    /// use futures_util::StreamExt as _;
    /// use std::time::Duration;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// # let client = leasehold::Client::embedded();
    /// let leader = client.leader("scheduler");
    /// let handle = leader.handle();
    /// let mut leaders = handle.watch_leader(Duration::from_millis(50));
    /// assert_eq!(leaders.next().await, Some(Ok(None)));
    /// let campaign = tokio::spawn(leader.run(async |term| term.resigned().await));
    /// while let Some(now) = leaders.next().await {
    ///     if let Some(id) = now? {
    ///         println!("{id} leads");
    /// #       assert!(id.is_of(&client.id()));
    ///         break;
    ///     }
    /// }
    /// handle.resign().await;
    /// # campaign.await.unwrap().unwrap();
    /// # Ok::<(), leasehold::Error>(()) }).unwrap();
    /// ```
    pub fn watch_leader(
        &self,
        interval: Duration,
    ) -> impl Stream<Item = Result<Option<HolderId>, Error>> + Send + Unpin + 'static {
        let watching = Watching {
            own: self.watch(),
            closing: self.lock.spec().handle().background.closing(),
            handle: self.clone(),
            interval: interval.max(SHORTEST_INTERVAL),
            last: None,
        };
        Box::pin(stream::unfold(watching, async |mut watching| Some((watching.next().await?, watching))))
    }

    /// Makes the candidate resign, and completes when it has ended. A follower stops campaigning. A leader's work gets the
    /// [`grace`](crate::leader::Leader::grace), then the lock is released, and another candidate leads at once. A candidate that has not
    /// started ends as soon as it starts.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the candidate resigns even if the future is dropped.
    pub async fn resign(&self) {
        let mut state = self.watch();
        self.shared.resign.cancel();
        let has_ended = |state: &LeaderState| matches!(state, LeaderState::Idle | LeaderState::Ended);
        // The wait cannot fail, because this handle contains the sender.
        let _ = state.wait_for(has_ended).await;
    }
}

impl fmt::Debug for LeaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderHandle").field("name", &self.lock.name()).field("state", &self.state()).finish()
    }
}

/// The shortest interval of a watch.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

/// The state of a watch for the leader among all candidates.
struct Watching {
    handle: LeaderHandle,
    own: watch::Receiver<LeaderState>,
    closing: CancellationToken,
    interval: Duration,
    last: Option<Result<Option<HolderId>, Error>>,
}

impl Watching {
    /// Returns the next change, or `None` after a shutdown of the client.
    async fn next(&mut self) -> Option<Result<Option<HolderId>, Error>> {
        loop {
            if self.last.is_some() {
                let pause = attempt::pause(self.handle.lock.spec().handle(), self.interval);
                // The watch of this candidate cannot end before the handle.
                select(pin!(self.own.changed()), pin!(pause)).await;
            }
            if self.closing.is_cancelled() {
                return None;
            }
            let now = self.handle.leader().await.map(|holder| holder.map(|holder| holder.id));
            if self.last.as_ref() != Some(&now) {
                self.last = Some(now.clone());
                return Some(now);
            }
        }
    }
}

/// The state that a candidate shares with its handles.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    state: watch::Sender<LeaderState>,
    /// The hold of the term, which compares its deadline with the clock.
    term: Mutex<Option<Arc<HoldCell>>>,
    resign: CancellationToken,
}

impl Shared {
    /// Creates the shared state of a candidate that resigns when `resign` is cancelled.
    pub(super) fn new(clock: Clock, resign: CancellationToken) -> Self {
        let (state, _) = watch::channel(LeaderState::Idle);
        Self { clock, state, term: Mutex::new(None), resign }
    }

    pub(super) fn state(&self) -> LeaderState {
        self.state.borrow().clone()
    }

    pub(super) fn is_resigned(&self) -> bool {
        self.resign.is_cancelled()
    }

    pub(super) async fn resigned(&self) {
        self.resign.cancelled().await;
    }

    fn is_leader(&self) -> bool {
        self.term.lock().as_ref().is_some_and(|cell| cell.ended(self.clock.now()).is_none())
    }
}

/// A running campaign. Dropping it reports the end to the handles.
#[derive(Debug)]
pub(crate) struct Campaign<'a>(&'a Arc<Shared>);

impl<'a> Campaign<'a> {
    pub(crate) fn new(shared: &'a Arc<Shared>) -> Self {
        shared.state.send_replace(LeaderState::Following);
        Self(shared)
    }

    pub(super) fn begin_term(&self, guard: Guard<Fenced>) -> Term {
        *self.0.term.lock() = Some(guard.cell().clone());
        let token = guard.fencing_token();
        event!(info, lock = guard.lock().name(), %token, "leads");
        self.0.state.send_replace(LeaderState::Leading { token });
        Term::new(guard, self.0.clone())
    }

    /// Sets the state to following.
    pub(super) fn follow(&self) {
        self.0.state.send_replace(LeaderState::Following);
    }

    pub(super) fn note_failure(&self, error: &Error, name: &str) {
        let was = self.0.state.send_replace(LeaderState::Failing { error: error.clone() });
        if !matches!(was, LeaderState::Failing { .. }) {
            event!(warn, lock = name, %error, "cannot campaign; retrying");
        }
    }
}

impl Campaign<'_> {
    /// Clears a failure.
    pub(super) fn note_in_touch(&self) {
        self.0
            .state
            .send_if_modified(|state| std::mem::replace(state, LeaderState::Following) != LeaderState::Following);
    }
}

impl Drop for Campaign<'_> {
    fn drop(&mut self) {
        *self.0.term.lock() = None;
        self.0.state.send_replace(LeaderState::Ended);
    }
}
