//! A hold: what the server may have of it, what it should have, and the one change that is on the way.
//!
//! This file has the record and what it tells. Its folder has what changes it: [`guards`] the grant, the guards and the end, [`change`] the
//! change that is on its way, [`renewal`] the deadline and the renewals, [`clean_up`] what is still to be taken back, [`hand_over`] what
//! passes it on to another task, [`linger`] how long it is kept without a guard, and [`least_time`] for how long its lock stays busy after it.

use crate::call::Replicas;
use crate::command::HoldKey;
use crate::error::{HoldEnd, LossReason};
use crate::hold_cell::HoldCell;
use crate::name::LockName;
use crate::owner::{HoldName, HoldNumber, OwnerId};
use crate::session::hold::change::Change;
use crate::session::hold::clean_up::CleanUp;
use crate::session::hold::count::Count;
use crate::session::hold::deadline::Deadline;
use crate::session::hold::hand_over::Tenure;
use crate::session::hold::linger::Linger;
use crate::session::hold::state::HoldState;
use crate::session::ids::LockId;
use crate::session::{AcquireRequest, Event, Granted, Ticket};
use crate::time::Instant;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;

pub(super) mod change;
pub(super) mod clean_up;
mod count;
mod deadline;
mod guards;
mod hand_over;
pub(super) mod holds;
mod least_time;
pub(super) mod linger;
mod renewal;
mod state;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Hold {
    lock: LockId,
    owner: Option<OwnerId>,
    class: Arc<str>,
    cell: Arc<HoldCell>,
    count: Count,
    /// The request whose first acquire it was begun for.
    begun_by: Ticket,
    /// The request that raises, or has raised, the count above what is wanted.
    raising: Option<Ticket>,
    /// Boxed, because a hold mostly has none.
    change: Option<Box<Change>>,
    /// Requests that wait for the change to be over. Boxed, because a hold mostly has none.
    waiting: Option<Box<Waiting>>,
    lease: Duration,
    /// What its request asked for besides. Boxed, because it is rare.
    extras: Option<Box<Extras>>,
    deadline: Deadline,
    state: HoldState,
    renew_at: Option<Instant>,
    /// Something may have happened to the hold on the server: it is looked at, although its lease is not renewed.
    look: bool,
    /// Operators have been notified that the server refuses a command of this hold.
    refusal_told: bool,
    clean_up: CleanUp,
    tenure: Tenure,
    /// What there is of it where its name has the mark, which is rare.
    linger: Option<Box<Linger>>,
    timer: Option<Instant>,
}

/// What few requests ask for.
#[derive(Clone, Copy, Debug, Default)]
struct Extras {
    /// The replicas that must acknowledge the changes and the renewals of the hold.
    replicas: Option<Replicas>,
    /// Its lock stays busy until then.
    busy_until: Option<Instant>,
}

/// The requests that wait for a change of a hold to be over.
#[derive(Debug, Default)]
struct Waiting(Vec<Ticket>);

impl Hold {
    /// A hold that is asked for now, for the first acquire of a request.
    pub(super) fn new(now: Instant, lock: LockId, ticket: Ticket, name: HoldName, wish: &AcquireRequest) -> Self {
        let latest = wish.max_hold.map_or(Instant::FAR_FUTURE, |most| now + most);
        Self {
            lock,
            owner: wish.owner,
            class: wish.class.clone(),
            cell: Arc::new(HoldCell::new(name, wish.permits, now, latest)),
            count: Count::default(),
            begun_by: ticket,
            raising: Some(ticket),
            change: None,
            waiting: None,
            lease: wish.lease,
            extras: wish.replicas.map(|replicas| Box::new(Extras { replicas: Some(replicas), ..Extras::default() })),
            deadline: Deadline::until(latest),
            state: HoldState::default(),
            renew_at: None,
            look: false,
            refusal_told: false,
            clean_up: CleanUp::new(now),
            tenure: Tenure::default(),
            linger: None,
            timer: None,
        }
    }

    /// A hold that waited in a queue is held from its grant on, and not from when it came: it begins anew before it is asked for again.
    pub(super) fn begin_anew(&mut self, now: Instant, max_hold: Option<Duration>) {
        if self.state.is_queued() && self.change.is_none() {
            let latest = max_hold.map_or(Instant::FAR_FUTURE, |most| now + most);
            self.deadline = Deadline::until(latest);
            self.cell = Arc::new(HoldCell::new(self.cell.name().clone(), self.cell.permits(), now, latest));
        }
    }

    /// Records a refusal that an operator has to fix. Returns whether it is new.
    pub(super) const fn note_refusal(&mut self) -> bool {
        !std::mem::replace(&mut self.refusal_told, true)
    }

    /// The server has executed a command of this hold: the next refusal is new.
    pub(super) const fn forget_refusal(&mut self) {
        self.refusal_told = false;
    }

    /// The lock that it is of.
    pub(super) const fn lock(&self) -> LockId {
        self.lock
    }

    /// The owner that may re-enter it.
    pub(super) const fn owner(&self) -> Option<OwnerId> {
        self.owner
    }

    /// The cell that its guards read.
    pub(super) const fn cell(&self) -> &Arc<HoldCell> {
        &self.cell
    }

    /// Its name on the server, to be sent.
    pub(super) fn key(&self) -> HoldKey {
        self.cell.key()
    }

    /// The text of that.
    pub(super) fn field(&self) -> Bytes {
        self.cell.field()
    }

    /// The request whose first acquire it was begun for.
    pub(super) fn was_begun_by(&self, ticket: Ticket) -> bool {
        self.begun_by == ticket
    }

    /// The request that raises, or has raised, the count above what is wanted.
    pub(super) const fn raising(&self) -> Option<Ticket> {
        self.raising
    }

    /// The lease that is asked for.
    pub(super) const fn lease(&self) -> Duration {
        self.lease
    }

    /// The lease to which the hold is renewed; `None` if no guard requests renewals.
    pub(super) fn renewed_lease(&self) -> Option<Duration> {
        self.count.is_renewed().then_some(self.lease)
    }

    /// This lease, or what is left of the longest time for which the lock is to be held.
    pub(super) fn limit_lease(&self, now: Instant, lease: Duration) -> Duration {
        lease.min(self.deadline.latest().since(now)).max(Duration::from_millis(1))
    }

    /// The replicas that must acknowledge its changes and its renewals.
    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.extras.as_ref()?.replicas
    }

    fn set_replicas(&mut self, replicas: Option<Replicas>) {
        if replicas.is_some() || self.extras.is_some() {
            self.extras.get_or_insert_default().replicas = replicas;
        }
    }

    /// The count that the server should have.
    pub(super) const fn wanted(&self) -> u32 {
        self.count.wanted()
    }

    /// The most that the server may have.
    pub(super) const fn on_server(&self) -> u32 {
        self.count.on_server()
    }

    /// Whether a guard exists that was not detached.
    pub(super) const fn has_guards(&self) -> bool {
        self.count.has_guards()
    }

    /// Whether the server may have more than is wanted, be it for a request that is raising the count.
    pub(super) const fn exceeds_wanted(&self) -> bool {
        self.count.is_high()
    }

    /// Whether the server may have a greater count than it should.
    pub(super) const fn is_high(&self) -> bool {
        self.count.is_high() && self.raising.is_none()
    }

    /// Whether no guard needs it any more, and no request either.
    pub(super) const fn is_abandoned(&self) -> bool {
        !self.count.has_guards() && self.raising.is_none()
    }

    /// Whether it can be entered again, renewed, and lost.
    pub(super) const fn is_live(&self) -> bool {
        matches!(self.state, HoldState::Held(_)) && self.count.has_guards()
    }

    /// Whether it was ever granted.
    pub(super) const fn is_granted(&self) -> bool {
        self.state.is_granted()
    }

    /// Whether it has a place, or a mark, on the server, and was not granted.
    pub(super) fn is_queued(&self) -> bool {
        self.state.is_queued()
    }

    /// Whether it was granted without the server, which does not have it yet.
    pub(super) fn is_degraded(&self) -> bool {
        self.state.is_degraded()
    }

    /// Whether it was granted without the server, keeps out the other tasks of this client, and is still to be asked for.
    pub(super) fn is_restorable(&self) -> bool {
        self.state.is_restorable() && self.is_live()
    }

    /// Whether it was granted without the server, which does not count its guards since then.
    pub(super) fn is_counted_by_client(&self) -> bool {
        self.state.is_counted_by_client()
    }

    /// How it ended, if it has.
    pub(super) const fn end(&self) -> Option<HoldEnd> {
        self.state.end()
    }

    /// The permits that its guards have of the lock, while the hold counts among those that are held.
    pub(super) fn permits(&self) -> u64 {
        u64::from(self.cell.permits())
    }

    /// The grant that a caller is given of it.
    pub(super) fn granted(&self, number: HoldNumber, renewed: bool) -> Granted {
        let handed_on = self.was_handed_on() && self.count.wanted() == 1;
        Granted { hold: number, cell: self.cell.clone(), count: self.count.wanted(), renewed, handed_on }
    }

    /// The event of its loss. `name` is that of its lock.
    pub(super) fn lost(&self, now: Instant, name: LockName, reason: LossReason) -> Event {
        Event::Lost {
            name,
            class: self.class.clone(),
            reason,
            holder: self.cell.field(),
            token: self.cell.token(),
            // The end may be noticed late, for example after a pause of the process.
            held: now.min(self.cell.deadline()).since(self.cell.acquired_at()),
        }
    }

    /// A request waits for the change to be over.
    pub(super) fn wait(&mut self, ticket: Ticket) {
        self.waiting.get_or_insert_default().0.push(ticket);
    }

    /// The same, where the request may wait already.
    pub(super) fn wait_once(&mut self, ticket: Ticket) {
        if !self.waiting().any(|waiting| waiting == ticket) {
            self.wait(ticket);
        }
    }

    /// A request does not wait any more.
    pub(super) fn stop_waiting(&mut self, ticket: Ticket) {
        let waiting = self.waiting.as_mut().map(|waiting| &mut waiting.0);
        if waiting.is_some_and(|waiting| {
            waiting.retain(|waiting| *waiting != ticket);
            waiting.is_empty()
        }) {
            self.waiting = None;
        }
    }

    /// The requests that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.waiting.iter().flat_map(|waiting| &waiting.0).copied()
    }

    /// Takes out the requests that wait.
    pub(super) fn take_waiting(&mut self) -> Vec<Ticket> {
        self.waiting.take().map_or_else(Vec::new, |waiting| waiting.0)
    }

    /// The instant of its timer, as it is set.
    pub(super) const fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Where that is kept.
    pub(super) const fn timer_slot(&mut self) -> &mut Option<Instant> {
        &mut self.timer
    }

    /// When it wants to be looked after: at its deadline, for its renewal, for the lowering of its count, or at the end of its lingering.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let deadline = self.is_live().then(|| self.cell.deadline());
        [deadline, self.renew_at, self.lowering_at(), self.lingers_until()].into_iter().flatten().min()
    }

    /// What must hold of it by itself: its counts (invariant 2), that its deadline is watched (invariant 4), and that it lingers at rest
    /// (invariant 7).
    pub(super) fn check(&self) -> Result<(), String> {
        if !self.count.is_sound() {
            return Err(format!("its counts do not agree: {self:?}"));
        }
        if self.is_live() && !self.is_counted_by_client() && self.on_server() < self.wanted() {
            return Err(format!("it has {} guards, and the server at most {}", self.wanted(), self.on_server()));
        }
        if self.lingers() {
            let is_at_rest = !self.count.has_guards() && self.on_server() == 1 && self.change.is_none();
            let is_timed = self.timer.is_some() && self.timer <= self.lingers_until();
            if !is_at_rest || !is_timed || self.end() != Some(HoldEnd::Released) {
                return Err(format!("it lingers, and is not at rest or not watched: {self:?}"));
            }
        }
        let deadline = self.cell.deadline();
        let is_watched = self.timer.is_some_and(|at| at <= deadline) || deadline == Instant::FAR_FUTURE;
        if self.is_live() && !is_watched {
            return Err(format!("nothing watches its deadline: {self:?}"));
        }
        Ok(())
    }
}
