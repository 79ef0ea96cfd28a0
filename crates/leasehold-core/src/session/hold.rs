//! A hold: what the server may have of it, what it should have, and the one change that is on the way.

use super::clean_up::CleanUp;
use super::count::Count;
use super::deadline::{Deadline, Observed};
use super::ids::LockId;
use super::request::Ticket;
use super::timers::Timer;
use super::{Event, FlightId, Session};
use crate::call::Replicas;
use crate::command::HoldKey;
use crate::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use crate::hold_cell::HoldCell;
use crate::link::{Epoch, Plane};
use crate::name::LockName;
use crate::owner::{HoldNumber, OwnerId};
use crate::time::Instant;
use std::sync::Arc;
use std::time::Duration;

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
    pub(super) granted: bool,
    /// It was granted without the server, which does not have it yet.
    pub(super) degraded: bool,
    /// It was granted without the server, which does not count its guards since then.
    pub(super) by_itself: bool,
    /// It has a place, or a mark, on the server, and has not been granted.
    pub(super) placed: bool,
    pub(super) end: Option<HoldEnd>,
    pub(super) renew_at: Option<Instant>,
    /// Something may have happened to the hold on the server: it is looked at, although its lease is not renewed.
    pub(super) look: bool,
    pub(super) clean_up: CleanUp,
    pub(super) timer: Option<Instant>,
}

/// A change of a hold's count that has been sent, and whose outcome is not known.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) flight: FlightId,
    /// The caller whose future sent it; `None` for the lifeline.
    pub(super) by: Option<Ticket>,
    pub(super) aim: Aim,
    /// The most that the server may have had before.
    pub(super) before: u32,
    pub(super) plane: Plane,
    pub(super) epoch: Epoch,
    /// When it was sent first: a deadline is reckoned from here.
    pub(super) sent_at: Instant,
    /// When it was sent last: a server may say that it did not apply a call, which is then sent once more.
    pub(super) last_sent: Instant,
    /// The lease that it asks for, if it asks for one.
    pub(super) lease: Duration,
    /// No reply will come: it is being made sure that no copy can be applied any more.
    pub(super) settling: bool,
    /// The replicas that must acknowledge it.
    pub(super) replicas: Option<Replicas>,
    /// How many did, once it is answered.
    pub(super) acknowledged: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    Raise(u32),
    Lower(u32),
}

impl Hold {
    /// Whether it can be entered again, renewed, and lost.
    pub(super) const fn is_live(&self) -> bool {
        self.granted && self.end.is_none() && self.count.has_guards()
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
        self.is_high() && self.clean_up.by_lifeline && (self.end.is_none() || !self.count.has_guards())
    }

    /// Whether a renewal is to be sent, were it only to see whether the hold is still there.
    pub(super) const fn wants_renewal(&self) -> bool {
        self.is_live() && !self.degraded && (self.count.is_renewed() || self.look)
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

impl Session {
    /// Begins a hold of `lock` that is not granted yet.
    pub(super) fn begin_hold(&mut self, now: Instant, ticket: Ticket) -> Option<HoldNumber> {
        let wish = &self.acquire_of(ticket)?.wish;
        let max_hold_at = wish.max_hold.map_or(Instant::FAR_FUTURE, |most| now + most);
        let key = HoldKey {
            field: wish.field.clone().unwrap_or_else(|| self.client.field(self.last_hold.next())),
            permits: wish.permits,
        };
        let hold = Hold {
            lock: self.acquire_of(ticket)?.lock,
            owner: wish.owner,
            class: wish.class.clone(),
            cell: Arc::new(HoldCell::new(key, now, max_hold_at)),
            count: Count::default(),
            begun_by: ticket,
            raising: Some(ticket),
            change: None,
            waiting: Vec::new(),
            lease: wish.lease,
            replicas: wish.replicas,
            deadline: Deadline::until(max_hold_at),
            granted: false,
            degraded: false,
            by_itself: false,
            placed: false,
            end: None,
            renew_at: None,
            look: false,
            clean_up: CleanUp::new(now),
            timer: None,
        };
        self.last_hold = self.last_hold.next();
        self.locks[hold.lock].refs += 1;
        self.holds.insert(self.last_hold, hold);
        self.acquire_of_mut(ticket)?.hold = Some(self.last_hold);
        Some(self.last_hold)
    }

    /// The timer of a hold: its deadline, its renewal, or the lowering of its count.
    pub(super) fn hold_is_due(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        hold.timer = None;
        self.lose_if_passed(now, number);
        let restores = self.holds.get(&number).is_some_and(|hold| hold.degraded && hold.is_live());
        if !restores {
            self.queue_renewal(now, number);
        } else if self.holds.get(&number).and_then(|hold| hold.renew_at).is_some_and(|at| at <= now) {
            self.restore(now, number);
        }
        self.attend(now, number);
    }

    /// Loses a hold whose deadline has passed, although the session has not said so yet.
    pub(super) fn lose_if_passed(&mut self, now: Instant, number: HoldNumber) {
        if self.holds.get(&number).is_some_and(|hold| hold.is_live() && now >= hold.cell.deadline()) {
            self.lose_by_deadline(now, number);
        }
    }

    /// Loses a hold because of its deadline, which a guard may have seen pass already.
    pub(super) fn lose_by_deadline(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(&number) else { return };
        let reason = hold.cell.reason_of_deadline();
        self.lose(now, number, reason);
    }

    /// Loses a hold: its guards are told, and nothing renews it any more.
    pub(super) fn lose(&mut self, now: Instant, number: HoldNumber, reason: LossReason) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        if hold.end.is_some() {
            return;
        }
        hold.end = Some(HoldEnd::Lost(reason));
        hold.renew_at = None;
        hold.cell.end(HoldEnd::Lost(reason), self.out.woken());
        if reason == LossReason::Removed {
            hold.count.set_on_server(0);
        }
        let waiting = std::mem::take(&mut hold.waiting);
        self.out.tell(hold.lost(now, self.locks[hold.lock].name.clone(), reason));
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Lost(reason));
            self.finish_release(ticket, Err(ReleaseError::Lost(reason)));
        }
    }

    /// Looks after a hold whose state has changed: lowers its count, lets requests go on, or forgets it.
    pub(super) fn attend(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get(&number) else { return };
        if hold.is_abandoned() && now >= hold.clean_up.until && self.is_kept_by_reader(number) {
            self.touch(now, number);
        }
        self.note_given_up(number);
        let Some(hold) = self.holds.get_mut(&number) else { return };
        if hold.change.is_none() {
            let repeats = hold.owes_last_repeat(now);
            if hold.is_abandoned() && (!hold.count.is_high() || now >= hold.clean_up.until) && !repeats {
                self.forget(now, number);
                return;
            }
            let is_time = repeats || now >= hold.clean_up.not_before;
            if !hold.is_high() {
                self.go_on(now, number);
            } else if hold.is_for_lifeline() && !hold.clean_up.queued && is_time {
                self.lower_by_lifeline(now, number);
            }
        }
        self.set_hold_timer(number);
    }

    /// Nothing stands in the way of those who wait for the hold's count any more: entries are sent, releases are done.
    fn go_on(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        for ticket in std::mem::take(&mut hold.waiting) {
            self.finish_release(ticket, Ok(()));
            self.undone(now, ticket, number);
            self.wake(ticket);
        }
    }

    /// Forgets a hold of which the server has nothing, or nothing that will not go by itself.
    fn forget(&mut self, now: Instant, number: HoldNumber) {
        let Some(mut hold) = self.holds.remove(&number) else { return };
        self.timers.set(Timer::Hold(number), &mut hold.timer, None);
        let gone = !hold.count.is_high();
        if hold.end.is_none() {
            hold.cell.end(HoldEnd::Released, self.out.woken());
        }
        for ticket in hold.waiting {
            let unknown = || ReleaseError::OutcomeUnknown("no reply came while the lease lasted".to_owned());
            self.finish_release(ticket, if gone { Ok(()) } else { Err(unknown()) });
            self.undone(now, ticket, number);
            self.wake(ticket);
        }
        self.locks[hold.lock].given_up.remove(&number);
        self.disown(hold.lock, hold.owner, number);
        self.unref(hold.lock);
    }

    pub(super) fn set_hold_timer(&mut self, number: HoldNumber) {
        let Some(hold) = self.holds.get_mut(&number) else { return };
        let deadline = hold.is_live().then(|| hold.cell.deadline());
        let idle = hold.change.is_none() && !hold.clean_up.queued;
        let lowering = (idle && hold.is_for_lifeline()).then(|| {
            let forgotten = if hold.is_abandoned() { hold.clean_up.until } else { Instant::FAR_FUTURE };
            hold.clean_up.not_before.min(forgotten)
        });
        let next = [deadline, hold.renew_at, lowering].into_iter().flatten().min();
        self.timers.set(Timer::Hold(number), &mut hold.timer, next);
    }
}
