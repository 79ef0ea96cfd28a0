//! Handing a hold on: another task of the client has it from then on, and the server is not told.
//!
//! The server goes on to have one hold, with one field and one count. The client has another one, with a number and a cell of its own: the old
//! number names nothing any more, so that nothing that knows it touches the new holder.

use crate::error::HoldEnd;
use crate::hold_cell::HoldCell;
use crate::session::hold::Hold;
use crate::session::hold::clean_up::CleanUp;
use crate::session::hold::count::Count;
use crate::session::hold::state::{CountedBy, HoldState};
use crate::session::{AcquireRequest, LingerTime, Ticket};
use crate::settings::HandOver;
use crate::time::Instant;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// For how long a client has had a hold from the server, and how often it has handed it on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tenure {
    /// When the server was asked.
    asked_at: Instant,
    /// When its grant was received.
    since: Instant,
    handed_on: u32,
}

/// The least head start: a client that listens needs about as long to be woken and to ask.
const LEAST_HEAD_START: Duration = Duration::from_millis(1);

/// The most: the waiters of this client do not pay for a server that took long.
pub(super) const MOST_HEAD_START: Duration = Duration::from_millis(20);

/// The pause where no other client listens. It is no head start: the notice of the release comes back before the next answer then. A notice that
/// comes later has the next waiter ask for a lock that is not free.
const PAUSE_ALONE: Duration = Duration::from_micros(300);

impl Hold {
    /// The server has granted it.
    pub(super) fn begin_tenure(&mut self, asked_at: Instant, now: Instant) {
        self.tenure = Tenure { asked_at, since: now, handed_on: 0 };
    }

    /// When the server's grant of it was received.
    pub(super) const fn tenure_began(&self) -> Instant {
        self.tenure.since
    }

    /// Whether another task of the client handed it on.
    pub(super) const fn was_handed_on(&self) -> bool {
        self.tenure.handed_on > 0
    }

    /// Whether its one guard is all that the server has of it, nothing of it is on the way or due, and more than a third of its lease is left.
    pub(crate) fn may_be_handed_on(&self, now: Instant) -> bool {
        let is_at_rest = self.change.is_none() && self.raising.is_none() && self.waiting.is_none();
        let is_planned = self.renew_at.is_some_and(|at| at > now);
        self.state == HoldState::Held(CountedBy::Server)
            && self.count.is_one_at_rest()
            && is_at_rest
            && is_planned
            && self.clean_up.is_at_rest()
            && self.replicas().is_none()
            && !self.keeps_busy(now)
            && self.cell.deadline().since(now) > self.lease / 3
    }

    /// Whether it is what a request wishes for. A longest time to be held that is shorter than the lease is not: the server has the hold for a
    /// lease, whatever becomes of its guard.
    pub(crate) fn is_what_is_wished(&self, wish: &AcquireRequest) -> bool {
        wish.renewed
            && wish.lease == self.lease
            && wish.replicas.is_none()
            && wish.field.is_none()
            && wish.permits == self.cell.permits()
            && wish.max_hold.is_none_or(|most| most >= self.lease)
    }

    /// Whether it may be handed on once more before other clients are let in.
    pub(crate) fn has_tenure_left(&self, now: Instant, limits: HandOver) -> bool {
        self.tenure.handed_on < limits.most && now.since(self.tenure.since) < limits.within
    }

    /// For how long this client does not ask again once it has released the hold to the server: twice the time in which the server granted
    /// it, if other clients may want it. `None` where its guard is not the last one, or it was never handed on.
    pub(crate) fn pause_behind(&self, others: bool) -> Option<Duration> {
        let head_start = self.two_round_trips(MOST_HEAD_START);
        let is_last = self.count.wanted() == 1 && self.is_live();
        (is_last && self.was_handed_on()).then_some(if others { head_start } else { PAUSE_ALONE })
    }

    /// Twice the round trip of its grant.
    pub(super) fn two_round_trips(&self, most: Duration) -> Duration {
        let round_trip = self.tenure.since.since(self.tenure.asked_at);
        (round_trip * 2).clamp(LEAST_HEAD_START, most)
    }

    /// Ends for its guard, and begins anew for the guard of a request. The server has it under the same name, and its lease goes on.
    pub(crate) fn hand_on(&mut self, now: Instant, ticket: Ticket, wish: &AcquireRequest, woken: &mut Vec<Waker>) {
        self.cell.end(HoldEnd::Released, woken);
        let latest = wish.max_hold.map_or(Instant::FAR_FUTURE, |most| now + most);
        let cell = HoldCell::new(self.cell.name().clone(), self.cell.permits(), now, latest);
        cell.set_deadline(self.cell.deadline());
        self.cell = Arc::new(cell);
        let on_server = self.count.on_server();
        self.count = Count::default();
        self.count.set_on_server(on_server);
        self.tenure.handed_on += 1;
        self.owner = wish.owner;
        self.class.clone_from(&wish.class);
        self.begun_by = ticket;
        self.deadline.pass_on(latest);
        self.state = HoldState::default();
        self.clean_up = CleanUp::after(now, &self.clean_up);
        if let Some(linger) = &mut self.linger {
            linger.pass_on(wish.linger.filter(|_| wish.max_hold.is_none()).map(LingerTime::get), self.lease);
        }
        self.extras = None;
        self.timer = None;
        self.grant(wish.renewed);
    }
}
