//! What others see of a candidate, and how they have it resign.

use super::Term;
use crate::clock::Clock;
use crate::error::Error;
use crate::fence::FencingToken;
use crate::guard::Guard;
use crate::inspect::Holder;
use crate::kind::Fenced;
use crate::kinds::FencedLock;
use crate::sync::Mutex;
use crate::telemetry::event;
use leasehold_core::hold_cell::HoldCell;
use std::fmt;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A handle of a candidate: it reports whether the candidate leads, and can make it resign. Clones refer to one
/// candidate.
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

/// What a candidate does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaderState {
    /// It has not begun to campaign.
    Idle,
    /// It campaigns: another candidate leads, or nobody does yet.
    Following,
    /// The candidate leads. After a loss this state remains until the candidate's future is polled, and after a
    /// resignation until the lock is released. [`LeaderHandle::is_leader`] reads the clock instead.
    Leading {
        /// The number of its term.
        token: FencingToken,
    },
    /// It campaigns, and its last try failed for another reason than another leader, such as that the server cannot be reached.
    Failing {
        /// The reason.
        error: Error,
    },
    /// It campaigns no more: it has resigned, its work has ended, or the future of [`Leader::run`](crate::leader::Leader::run) was dropped.
    Ended,
}

impl LeaderHandle {
    pub(super) const fn new(shared: Arc<Shared>, lock: FencedLock) -> Self {
        Self { shared, lock }
    }

    /// Whether the candidate leads at this moment. This reads the clock: it is false once the lease is over, whatever the future of the
    /// candidate has seen of that.
    pub fn is_leader(&self) -> bool {
        self.shared.is_leader()
    }

    /// What the candidate does, as its future has seen it last.
    pub fn state(&self) -> LeaderState {
        self.shared.state()
    }

    /// The state of the candidate, and its changes.
    pub fn watch(&self) -> watch::Receiver<LeaderState> {
        self.shared.state.subscribe()
    }

    /// Who leads, of all candidates, as the server has it; `None` while nobody does. [`Client::who_is`](crate::Client::who_is) may tell which
    /// process that is.
    ///
    /// # Errors
    ///
    /// As [`Lock::inspect`](crate::Lock::inspect).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves nothing behind.
    pub async fn leader(&self) -> Result<Option<Holder>, Error> {
        self.lock.inspect().await
    }

    /// Has the candidate end: one that follows campaigns no more, and one that leads gets the [`grace`](crate::leader::Leader::grace) for its work
    /// and releases the lock, so that another candidate leads at once. Completes when it has ended. A candidate that has not begun ends
    /// when it does.
    ///
    /// # Cancel safety
    ///
    /// Once the future has been polled, the candidate resigns even if the future is dropped.
    pub async fn resign(&self) {
        let mut state = self.watch();
        self.shared.resign.cancel();
        let has_ended = |state: &LeaderState| matches!(state, LeaderState::Idle | LeaderState::Ended);
        // The sender is part of this handle, so that it cannot be gone.
        let _ = state.wait_for(has_ended).await;
    }
}

impl fmt::Debug for LeaderHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeaderHandle").field("name", &self.lock.name()).field("state", &self.state()).finish()
    }
}

/// What a candidate and its handles share.
#[derive(Debug)]
pub(crate) struct Shared {
    clock: Clock,
    state: watch::Sender<LeaderState>,
    /// The hold of the term, which knows by the clock whether it still lasts.
    term: Mutex<Option<Arc<HoldCell>>>,
    resign: CancellationToken,
}

impl Shared {
    /// A candidate that resigns when `resign` is cancelled.
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

/// A candidate that campaigns. Its end, by whatever way, is told to the handles.
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

    /// The candidate campaigns again.
    pub(super) fn follow(&self) {
        self.0.state.send_replace(LeaderState::Following);
    }

    pub(super) fn note_failure(&self, error: &Error, name: &str) {
        let was = self.0.state.send_replace(LeaderState::Failing { error: error.clone() });
        if !matches!(was, LeaderState::Failing { .. }) {
            event!(warn, lock = name, %error, "cannot campaign, and tries again");
        }
    }
}

impl Campaign<'_> {
    /// The campaign does not fail at present.
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
