//! Leader election, for threads.

use super::{mirrors, park_on};
use crate::error::{Error, WithError};
use crate::inspect::Holder;
use crate::leader::{LeaderState, Term};
use std::time::Duration;

/// A [`Leader`](crate::leader::Leader) for threads.
///
/// # Examples
///
/// ```
/// # use leasehold::blocking::Client;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = Client::from(leasehold::Client::embedded());
/// let leader = client.leader("scheduler");
/// let pages = leader.run(|term| {
///     let mut pages = 0;
///     while term.is_leading() && !term.is_resigned() && pages < 3 {
///         pages += 1; // a step of the leader's work
///     }
///     pages
/// })?;
/// assert_eq!(pages, Some(3));
/// # Ok(()) }
/// ```
#[derive(Debug)]
#[must_use = "nobody campaigns before `run` is called"]
pub struct Leader(crate::leader::Leader);

/// A [`LeaderHandle`](crate::leader::LeaderHandle) for threads.
#[derive(Clone, Debug)]
pub struct LeaderHandle(crate::leader::LeaderHandle);

mirrors!(Leader = crate::leader::Leader, LeaderHandle = crate::leader::LeaderHandle);

impl Leader {
    /// Sets the lease. See [`Leader::lease`](crate::leader::Leader::lease).
    pub fn lease(self, lease: Duration) -> Self {
        Self(self.0.lease(lease))
    }

    /// A handle that tells whether this candidate leads, and resigns for it.
    pub fn handle(&self) -> LeaderHandle {
        LeaderHandle(self.0.handle())
    }

    /// Campaigns until this candidate leads, and runs `work`. A thread cannot be stopped: `work` asks [`Term::is_leading`] and
    /// [`Term::is_resigned`] before each step, and returns when it is to end. The answer is what it returned, and `None` after a resignation
    /// that came before it began.
    ///
    /// # Errors
    ///
    /// As [`Leader::run`](crate::leader::Leader::run). [`WithError::Lost`] has the result of a work that returned after the leadership was lost; another
    /// candidate can campaign then.
    #[track_caller]
    pub fn run<T>(self, work: impl FnOnce(&Term) -> T) -> Result<Option<T>, WithError<T>> {
        let campaign = self.0.begin();
        let Some(term) = park_on(self.0.campaign(&campaign)).map_err(WithError::NotAcquired)? else { return Ok(None) };
        let value = work(&term);
        WithError::unless_released(value, park_on(term.release())).map(Some)
    }
}

impl LeaderHandle {
    /// Whether the candidate leads at this moment. See [`LeaderHandle::is_leader`](crate::leader::LeaderHandle::is_leader).
    pub fn is_leader(&self) -> bool {
        self.0.is_leader()
    }

    /// What the candidate does.
    pub fn state(&self) -> LeaderState {
        self.0.state()
    }

    /// Who leads, of all candidates.
    ///
    /// # Errors
    ///
    /// As [`LeaderHandle::leader`](crate::leader::LeaderHandle::leader).
    #[track_caller]
    pub fn leader(&self) -> Result<Option<Holder>, Error> {
        park_on(self.0.leader())
    }

    /// Has the candidate end, and sleeps until it has. See [`LeaderHandle::resign`](crate::leader::LeaderHandle::resign).
    #[track_caller]
    pub fn resign(&self) {
        park_on(self.0.resign());
    }
}
