//! A hold: what the server may have of it, what it should have, and the one change that is on the way.

use crate::call::Replicas;
use crate::error::LossReason;
use crate::hold_cell::HoldCell;
use crate::name::LockName;
use crate::owner::OwnerId;
use crate::session::hold::change::Change;
use crate::session::hold::clean_up::CleanUp;
use crate::session::hold::count::Count;
use crate::session::hold::deadline::{Deadline, Observed};
use crate::session::hold::state::HoldState;
use crate::session::ids::LockId;
use crate::session::{Event, FlightId, Ticket};
use crate::time::Instant;
use std::sync::Arc;
use std::time::Duration;

pub(super) mod change;
pub(super) mod clean_up;
pub(super) mod count;
pub(super) mod deadline;
pub(super) mod state;

#[derive(Debug)]
pub(super) struct Hold {
    pub(super) lock: LockId,
    pub(super) owner: Option<OwnerId>,
    pub(super) class: Arc<str>,
    pub(super) cell: Arc<HoldCell>,
    pub(super) count: Count,
    /// The request whose first acquire it was begun for.
    pub(super) begun_by: Ticket,
    /// The request that raises, or has raised, the count above what is wanted.
    pub(super) raising: Option<Ticket>,
    pub(super) change: Option<Change>,
    /// Requests that wait for the change to be over.
    pub(super) waiting: Vec<Ticket>,
    pub(super) lease: Duration,
    /// The replicas that must acknowledge its changes and its renewals.
    pub(super) replicas: Option<Replicas>,
    pub(super) deadline: Deadline,
    pub(super) state: HoldState,
    pub(super) renew_at: Option<Instant>,
    /// Something may have happened to the hold on the server: it is looked at, although its lease is not renewed.
    pub(super) look: bool,
    pub(super) clean_up: CleanUp,
    pub(super) timer: Option<Instant>,
}

impl Hold {
    /// Whether a reply to this call may still come.
    pub(super) fn is_flying(&self, flight: FlightId) -> bool {
        self.change.as_ref().is_some_and(|change| change.flight == flight && !change.settling)
    }

    /// Whether it can be entered again, renewed, and lost.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.state, HoldState::Held(_)) && self.count.has_guards()
    }

    /// The event of its loss. `name` is that of its lock.
    pub(super) fn lost(&self, now: Instant, name: LockName, reason: LossReason) -> Event {
        Event::Lost {
            name,
            class: self.class.clone(),
            reason,
            holder: self.cell.key().field.clone(),
            token: self.cell.token(),
            held: now.since(self.cell.acquired_at()),
        }
    }

    /// Whether the server may have a greater count than it should.
    pub(super) const fn is_high(&self) -> bool {
        self.count.is_high() && self.raising.is_none()
    }

    /// Whether no guard needs it any more, and no request either.
    pub(super) const fn is_abandoned(&self) -> bool {
        !self.count.has_guards() && self.raising.is_none()
    }

    /// Whether the lifeline is to lower the count. A lost hold is left to its guards until they are gone: their work may not have stopped
    /// yet, and no other client shall get the lock before its lease has ended.
    pub(super) const fn is_for_lifeline(&self) -> bool {
        self.is_high() && self.clean_up.by_lifeline && (self.state.end().is_none() || !self.count.has_guards())
    }

    /// Whether a renewal is to be sent, were it only to see whether the hold is still there.
    pub(super) fn wants_renewal(&self) -> bool {
        self.is_live() && !self.state.is_degraded() && (self.count.is_renewed() || self.look)
    }

    /// Takes a grant or a renewal that was sent at `sent_at` and left `left` of the lease. Says whether the hold is not yet known to be
    /// lost.
    pub(super) fn extend(&mut self, sent_at: Instant, left: Duration) -> bool {
        self.deadline.extend(&self.cell, sent_at, left)
    }

    /// Looks at the reply to a command that said how much of the lease is left. Says whether the deadline has not passed. A hold whose deadline
    /// was contradicted is renewed at once, unless a renewal is on its way.
    pub(super) fn observe_reply(&mut self, now: Instant, sent_at: Instant, left: Duration) -> bool {
        match self.deadline.observe_reply(&self.cell, now, sent_at, left) {
            Observed::Holds => true,
            Observed::Contradicted => {
                self.renew_at = self.renew_at.and(Some(now));
                true
            }
            Observed::Passed => false,
        }
    }
}
