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
    pub(super) shared: Arc<Shared>,
    pub(super) lock: FencedLock,
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
        /// The fencing token of the term.
        token: FencingToken,
    },
    /// The candidate campaigns, but its last attempt failed, for example because the server is unreachable.
    Failing {
        /// The error message.
        error: Error,
    },
    /// The candidate resigned, its work finished, or the future of [`Leader::run`](crate::leader::Leader::run) was dropped.
    Ended,
}

impl LeaderHandle {
    /// Returns `true` if the candidate leads. This reads the clock: it returns `false` once the lease has ended, even before the candidate's future
    /// is polled.
    pub fn is_leader(&self) -> bool {
        self.shared.term.lock().as_ref().is_some_and(|cell| cell.ended(self.shared.clock.now()).is_none())
    }

    /// Returns the last state that the candidate's future has set.
    pub fn state(&self) -> LeaderState {
        self.shared.state.borrow().clone()
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
    /// leads. [`watch`](Self::watch) reports this candidate only, and sends no command.
    ///
    /// The stream polls the server at each interval (at least 10 ms), because a new leader publishes no message. It also polls when this
    /// candidate begins or ends a term. It may miss a term shorter than the interval. The stream polls only while it is polled, and
    /// ends with the [shutdown](crate::Client::shutdown) of the client.
    ///
    /// # Errors
    ///
    /// An item is an error of [`Lock::inspect`](crate::Lock::inspect) if the server does not reply. The stream continues after it, and does
    /// not repeat an equal error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future of `next` loses no change.
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
        let interval = interval.max(SHORTEST_INTERVAL);
        Box::pin(stream::unfold((self.clone(), self.watch(), None), move |(handle, mut own, last)| async move {
            let client = handle.lock.spec().handle();
            loop {
                if last.is_some() {
                    // The watch of this candidate cannot end before the handle.
                    select(pin!(own.changed()), pin!(attempt::pause(client, interval))).await;
                }
                if client.background.is_closing() {
                    return None;
                }
                let now = handle.leader().await.map(|holder| holder.map(|holder| holder.id));
                if last.as_ref() != Some(&now) {
                    return Some((now.clone(), (handle, own, Some(now))));
                }
            }
        }))
    }

    /// Makes the candidate resign, and completes when its campaign has ended. A follower stops campaigning. A leader's work may use the
    /// [`grace`](crate::leader::Leader::grace). Then the candidate releases the lock, and another candidate leads at once. A candidate that has
    /// not started ends as soon as it starts.
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

/// The state that a candidate shares with its handles.
#[derive(Debug)]
pub(super) struct Shared {
    clock: Clock,
    pub(super) state: watch::Sender<LeaderState>,
    /// The hold of the term, which compares its deadline with the clock.
    term: Mutex<Option<Arc<HoldCell>>>,
    /// Cancelled when the candidate must resign.
    pub(super) resign: CancellationToken,
}

impl Shared {
    pub(super) fn new(clock: Clock, resign: CancellationToken) -> Self {
        Self { clock, state: watch::Sender::new(LeaderState::Idle), term: Mutex::new(None), resign }
    }
}

/// A running campaign. Dropping it reports the end to the handles.
pub(super) struct Campaign<'a>(&'a Arc<Shared>);

impl<'a> Campaign<'a> {
    pub(super) fn new(shared: &'a Arc<Shared>) -> Self {
        let campaign = Self(shared);
        campaign.follow();
        campaign
    }

    pub(super) fn begin_term(&self, guard: Guard<Fenced>) -> Term {
        *self.0.term.lock() = Some(guard.cell().clone());
        let token = guard.fencing_token();
        event!(info, lock = guard.lock().name(), %token, "leads");
        self.0.state.send_replace(LeaderState::Leading { token });
        Term { guard, shared: self.0.clone() }
    }

    /// Clears a term or a failure.
    pub(super) fn follow(&self) {
        let follows = LeaderState::Following;
        self.0.state.send_if_modified(|state| std::mem::replace(state, follows) != LeaderState::Following);
    }

    pub(super) fn note_failure(&self, error: &Error, name: &str) {
        let was = self.0.state.send_replace(LeaderState::Failing { error: error.clone() });
        if !matches!(was, LeaderState::Failing { .. }) {
            event!(warn, lock = name, %error, "cannot campaign; retrying");
        }
    }
}

impl Drop for Campaign<'_> {
    fn drop(&mut self) {
        *self.0.term.lock() = None;
        self.0.state.send_replace(LeaderState::Ended);
    }
}
