//! A hold: the count that the server may have, the count that it should have, and the one change in flight.
//!
//! Three parts enforce the invariants of the [session](crate::session): [`Count`] number 2, [`Change`] number 3, [`Hold::observe_reply`]
//! number 4.

use crate::call::Replicas;
use crate::error::{AcquireError, HoldEnd, LossReason};
use crate::hold_cell::HoldCell;
use crate::name::LockName;
use crate::number_map::BoxMap;
use crate::owner::{HoldName, HoldNumber, OwnerId};
use crate::session::lock::LockId;
use crate::session::release::CleanUp;
use crate::session::transfer::{Linger, Tenure};
use crate::session::{AcquireRequest, Event, Granted, Session, Ticket};
use crate::settings::Settings;
use crate::time::Instant;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// See the [module](self). Boxed fields are rare; the boxes keep a hold small.
#[derive(Debug)]
pub(super) struct Hold {
    pub(super) lock: LockId,
    pub(super) owner: Option<OwnerId>,
    pub(super) class: Arc<str>,
    pub(super) cell: Arc<HoldCell>,
    pub(super) count: Count,
    /// The request whose first acquire created the hold.
    pub(super) begun_by: Ticket,
    /// The request that raises, or has raised, the count above what is wanted.
    pub(super) raising: Option<Ticket>,
    pub(super) change: Option<Box<Change>>,
    /// Requests that wait until the change ends.
    pub(super) waiting: Option<Box<Waiting>>,
    pub(super) lease: Duration,
    pub(super) extras: Option<Box<Extras>>,
    /// When the session read the last reply with the rest of the lease.
    pub(super) last_reply_at: Instant,
    /// When such a reply last contradicted the deadline.
    pub(super) contradicted_at: Instant,
    pub(super) state: HoldState,
    pub(super) renew_at: Option<Instant>,
    /// The server may have lost the hold: a renewal checks it, even if no guard wants the lease renewed.
    pub(super) verify: bool,
    /// An event has reported that the server refuses a command of this hold.
    pub(super) refusal_reported: bool,
    pub(super) clean_up: CleanUp,
    pub(super) tenure: Tenure,
    /// Present if the hold's name has the mark.
    pub(super) linger: Option<Box<Linger>>,
    pub(super) timer: Option<Instant>,
}

/// What few requests ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras {
    /// The replicas that must acknowledge changes and renewals of the hold.
    pub(super) replicas: Option<Replicas>,
    /// The server keeps the lock busy until this instant, even if all guards go before.
    pub(super) busy_until: Option<Instant>,
}

/// A newtype, because clippy forbids a boxed `Vec`.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Ticket>);

impl Hold {
    pub(super) fn new(now: Instant, lock: LockId, ticket: Ticket, name: HoldName, request: &AcquireRequest) -> Self {
        Self {
            lock,
            owner: request.owner,
            class: request.class.clone(),
            cell: Arc::new(HoldCell::new(name, request.permits, now, request.max_hold)),
            count: Count::default(),
            begun_by: ticket,
            raising: Some(ticket),
            change: None,
            waiting: None,
            lease: request.lease,
            extras: request.replicas.map(|replicas| Box::new(Extras { replicas: Some(replicas), ..Extras::default() })),
            last_reply_at: Instant::default(),
            contradicted_at: Instant::default(),
            state: HoldState::default(),
            renew_at: None,
            verify: false,
            refusal_reported: false,
            clean_up: CleanUp::new(now),
            tenure: Tenure::default(),
            linger: None,
            timer: None,
        }
    }

    /// Restarts `max_hold` of a hold that waited in a queue: it counts from the last acquire.
    pub(super) fn restart_max_hold(&mut self, now: Instant, max_hold: Option<Duration>) {
        if self.state.is_queued() && self.change.is_none() {
            self.cell = Arc::new(HoldCell::new(self.cell.name.clone(), self.cell.permits(), now, max_hold));
        }
    }

    pub(super) fn note_grant(&mut self, token: Option<u64>) {
        self.count.on_server = 1;
        self.state.leave_place();
        self.cell.set_token(token);
    }

    /// Enough replicas have the grant of a command that was sent at `sent_at`, and `left` of its lease remains.
    pub(super) fn confirm_grant(&mut self, now: Instant, sent_at: Instant, left: Duration, acknowledged: Option<u32>) {
        self.cell.set_acknowledged(acknowledged);
        self.extend_deadline(sent_at, left);
        self.last_reply_at = now;
        self.tenure = Tenure { asked_at: sent_at, since: now, handed_on: 0 };
    }

    pub(super) fn grant(&mut self, renewed: bool) {
        self.grant_as(HoldState::Held, renewed);
    }

    /// Grants the hold without the server. The session asks the server for it at `restore_at`, or never.
    pub(super) fn grant_locally(&mut self, now: Instant, renewed: bool, restore_at: Option<Instant>) {
        self.raising = None;
        self.grant_as(if restore_at.is_some() { HoldState::Degraded } else { HoldState::PassedThrough }, renewed);
        self.cell.set_degraded(true);
        self.reckon_locally(now);
        self.renew_at = restore_at;
    }

    fn grant_as(&mut self, state: HoldState, renewed: bool) {
        debug_assert!(!self.state.is_granted(), "a hold is granted once");
        self.state = state;
        self.add_to_count(renewed);
    }

    /// The owner has re-entered the hold, with this lease.
    pub(super) fn add_guard(&mut self, now: Instant, renewed: bool, lease: Duration) {
        self.raising = None;
        self.add_to_count(renewed);
        self.extend_lease(now, lease);
    }

    fn add_to_count(&mut self, renewed: bool) {
        self.count.add_guard(renewed);
        self.cell.set_count(self.count.wanted);
        self.cell.set_renewed(self.count.renewing);
    }

    /// Without the server, a hold lasts as long as a guard that wants it renewed, and one lease from now if there is none.
    pub(super) fn reckon_locally(&self, now: Instant) {
        if self.state.is_degraded() {
            self.cell.set_deadline(if self.count.is_renewed() { Instant::FAR_FUTURE } else { now + self.lease });
        }
    }

    /// Extends the lease, and with it the deadline of a hold that the server does not have.
    pub(super) fn extend_lease(&mut self, now: Instant, lease: Duration) {
        self.lease = self.lease.max(lease);
        self.extend_clean_up(now);
        self.reckon_locally(now);
    }

    pub(super) fn end(&self) -> Option<HoldEnd> {
        self.cell.known_end()
    }

    pub(super) fn granted(&self, number: HoldNumber, renewed: bool) -> Granted {
        let handed_on = self.tenure.handed_on > 0 && self.count.wanted == 1;
        Granted { hold: number, cell: self.cell.clone(), count: self.count.wanted, renewed, handed_on }
    }

    pub(super) fn lost(&self, now: Instant, name: LockName, reason: LossReason) -> Event {
        Event::Lost {
            name,
            class: self.class.clone(),
            reason,
            holder: self.cell.field(),
            token: self.cell.token(),
            // The session may notice the end late, for example after a pause of the process.
            held: now.min(self.cell.deadline()).since(self.cell.acquired_at()),
        }
    }

    /// Whether the background or a caller should lower the count.
    pub(super) const fn is_high(&self) -> bool {
        self.count.is_high() && self.raising.is_none()
    }

    /// Whether neither a guard nor a request needs the hold.
    pub(super) const fn is_abandoned(&self) -> bool {
        !self.count.has_guards() && self.raising.is_none()
    }

    /// Whether the hold can be re-entered, renewed and lost.
    pub(super) fn is_live(&self) -> bool {
        self.state.is_granted() && self.end().is_none() && self.count.has_guards()
    }

    /// Whether the session still asks the server for a hold that it granted alone.
    pub(super) fn is_restorable(&self) -> bool {
        self.state == HoldState::Degraded && self.is_live()
    }

    pub(super) fn permits(&self) -> u64 {
        u64::from(self.cell.permits())
    }

    /// The lease, capped by the rest of `max_hold`.
    pub(super) fn limit_lease(&self, now: Instant, lease: Duration) -> Duration {
        lease.min(self.cell.max_hold_at.since(now)).max(Duration::from_millis(1))
    }

    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.extras.as_ref()?.replicas
    }

    /// Whether a release now would leave the lock busy. No other task of the client gets such a hold.
    pub(super) fn keeps_busy(&self, now: Instant) -> bool {
        self.extras.as_ref().and_then(|extras| extras.busy_until).is_some_and(|until| until > now)
    }

    /// How long the server keeps the lock busy after the last guard. Zero for a lost hold: other clients may have the lock.
    pub(super) fn left_of_least_time(&self, now: Instant) -> Duration {
        let is_released = matches!(self.end(), Some(HoldEnd::Released | HoldEnd::Lost(LossReason::ShutDown)));
        let until = self.extras.as_ref().and_then(|extras| extras.busy_until);
        until.filter(|_| is_released && !self.count.has_guards()).map_or(Duration::ZERO, |until| until.since(now))
    }

    /// Records a refusal that an operator has to fix. Returns whether it is new.
    pub(super) const fn note_refusal(&mut self) -> bool {
        !std::mem::replace(&mut self.refusal_reported, true)
    }

    pub(super) fn wait(&mut self, ticket: Ticket) {
        let waiting = &mut self.waiting.get_or_insert_default().0;
        if !waiting.contains(&ticket) {
            waiting.push(ticket);
        }
    }

    pub(super) fn stop_waiting(&mut self, ticket: Ticket) {
        if let Some(waiting) = &mut self.waiting {
            waiting.0.retain(|waiting| *waiting != ticket);
        }
        self.waiting.take_if(|waiting| waiting.0.is_empty());
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.waiting.iter().flat_map(|waiting| &waiting.0).copied()
    }

    pub(super) fn take_waiting(&mut self) -> Vec<Ticket> {
        self.waiting.take().map_or_else(Vec::new, |waiting| waiting.0)
    }

    /// The next instant of the hold: its deadline, its renewal, the lowering of its count, or the end of its lingering.
    pub(super) fn timeout(&self) -> Option<Instant> {
        let deadline = self.is_live().then(|| self.cell.deadline());
        [deadline, self.renew_at, self.lowering_at(), self.lingers_until()].into_iter().flatten().min()
    }

    /// Checks invariants 2 (counts), 4 (watched deadline) and 7 (lingers at rest).
    pub(super) fn check(&self, number: HoldNumber) {
        let count = &self.count;
        assert!(count.detached + count.renewing <= count.wanted, "{number:?}: its counts do not agree: {self:?}");
        let is_counted = !self.is_live() || self.state.is_counted_by_client() || count.on_server >= count.wanted;
        assert!(is_counted, "{number:?}: the server has less than its guards: {self:?}");
        if self.lingers() {
            let is_at_rest = !count.has_guards() && count.on_server == 1 && self.change.is_none();
            let is_timed = self.timer.is_some() && self.timer <= self.lingers_until();
            let is_released = self.end() == Some(HoldEnd::Released);
            assert!(
                is_at_rest && is_timed && is_released,
                "{number:?} lingers, and is not at rest or not watched: {self:?}"
            );
        }
        let deadline = self.cell.deadline();
        let is_watched = self.timer.is_some_and(|at| at <= deadline) || deadline == Instant::FAR_FUTURE;
        assert!(!self.is_live() || is_watched, "{number:?}: nothing watches its deadline: {self:?}");
    }

    pub(super) fn begin_change(&mut self, mut change: Box<Change>) {
        change.before = self.count.begin_change(change.aim.target());
        change.lease = change.lease.min(self.cell.max_hold_at.since(change.sent_at));
        self.change = Some(change);
    }

    /// Marks a re-entry as the request that raises the count. Returns the count to request.
    pub(super) fn begin_entry(&mut self, ticket: Ticket) -> u32 {
        self.stop_waiting(ticket);
        self.raising = Some(ticket);
        self.count.wanted + 1
    }

    /// Whether a reply to a call of this request may still come.
    pub(super) fn is_flying_by(&self, ticket: Ticket) -> bool {
        self.change.as_ref().is_some_and(|change| change.by == Some(ticket) && !change.is_settling)
    }

    /// Restores the count after a re-entry that the server did not apply.
    pub(super) fn undo_entry(&mut self, change: &Change) {
        if let CountChange::RaiseTo(target) = change.aim {
            self.count.on_server = target - 1;
            self.raising = None;
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HoldState {
    /// A first acquire of the hold may be on the server.
    #[default]
    Asking,
    /// The server has a place in a queue, or a mark, for the hold.
    Queued,
    Held,
    /// The client granted the hold, until the server grants it. A degraded hold excludes other tasks of this client only.
    Degraded,
    /// The client granted the hold and counts its guards, and the server has the hold since.
    Restored,
    /// The client granted the hold, and the server never gets it. Such a degraded hold excludes nobody.
    PassedThrough,
}

impl HoldState {
    pub(super) const fn is_granted(self) -> bool {
        !matches!(self, Self::Asking | Self::Queued)
    }

    pub(super) const fn is_queued(self) -> bool {
        matches!(self, Self::Queued)
    }

    /// Whether the client granted the hold, and the server does not have it.
    pub(super) const fn is_degraded(self) -> bool {
        matches!(self, Self::Degraded | Self::PassedThrough)
    }

    /// Whether the client granted the hold, even if the server has it since.
    pub(super) const fn is_counted_by_client(self) -> bool {
        matches!(self, Self::Degraded | Self::Restored | Self::PassedThrough)
    }

    /// Returns whether the hold had no place before.
    pub(super) fn take_place(&mut self) -> bool {
        debug_assert!(!self.is_granted(), "a granted hold takes no place");
        std::mem::replace(self, Self::Queued) != Self::Queued
    }

    /// Returns whether the hold had a place.
    pub(super) const fn leave_place(&mut self) -> bool {
        let was_queued = self.is_queued();
        if was_queued {
            *self = Self::Asking;
        }
        was_queued
    }
}

/// How much of a hold the server may have, and how much it should have. The session takes back the difference.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// The most that the server may have.
    pub(super) on_server: u32,
    pub(super) wanted: u32,
    detached: u32,
    /// The guards that want the lease renewed.
    pub(super) renewing: u32,
    /// Number of renewals in flight. Their replies may come in any order.
    renewals: u32,
    /// The lowest and highest count that a renewal in flight can find.
    range: (u32, u32),
}

impl Count {
    /// Whether a guard exists that was not detached.
    pub(super) const fn has_guards(&self) -> bool {
        self.wanted > self.detached
    }

    pub(super) const fn is_renewed(&self) -> bool {
        self.renewing > 0
    }

    /// Whether the server may have more than the guards want.
    pub(super) const fn is_high(&self) -> bool {
        self.on_server > self.wanted
    }

    pub(super) const fn is_being_renewed(&self) -> bool {
        self.renewals > 0
    }

    /// Whether the server counts a single guard, which wants renewals, and no renewal is in flight.
    pub(super) const fn is_one_at_rest(&self) -> bool {
        self.on_server == 1 && self.wanted == 1 && self.renewing == 1 && self.detached == 0 && self.renewals == 0
    }

    /// Records a call that changes the server's count to `target`. Returns the most that the server may have had before.
    fn begin_change(&mut self, target: u32) -> u32 {
        let before = self.on_server;
        self.on_server = before.max(target);
        self.widen(target);
        before
    }

    fn add_guard(&mut self, renews: bool) {
        self.wanted += 1;
        self.renewing += u32::from(renews);
    }

    /// The count of a detached guard stays until the lease ends.
    pub(super) fn end_guard(&mut self, renews: bool, detaches: bool) {
        self.renewing -= u32::from(renews);
        if detaches {
            self.detached += 1;
        } else {
            self.wanted -= 1;
            self.widen(self.wanted);
        }
    }

    pub(super) fn begin_renewal(&mut self) {
        if self.renewals == 0 {
            self.range = (self.on_server, self.on_server);
        }
        self.renewals += 1;
        self.widen(self.on_server);
        self.widen(self.wanted);
    }

    /// Ends a renewal, answered or not. Returns the counts that its reply may have.
    pub(super) fn end_renewal(&mut self) -> RangeInclusive<u32> {
        let (low, high) = self.range;
        self.renewals -= 1;
        if self.renewals == 0 {
            self.range = (0, 0);
        }
        low..=high
    }

    fn widen(&mut self, count: u32) {
        let (low, high) = self.range;
        if self.renewals > 0 {
            self.range = (low.min(count), high.max(count));
        }
    }
}

/// The deadline of a hold whose command was sent at `sent_at` and left `left` of the lease.
pub(super) fn deadline_of(sent_at: Instant, left: Duration) -> Instant {
    sent_at + left - Settings::margin(left)
}

/// The deadline: which replies move it, later or earlier.
///
/// The [`HoldCell`] has the instant itself, where guards read it. A hold that the client grants alone has its own rules:
/// [`Hold::grant_locally`], and `handle_restored`.
impl Hold {
    /// Applies the rest of the lease in a reply to the deadline, which moves later only if it `extends`. Returns false if the deadline has
    /// passed.
    ///
    /// A command sent after the last reply, with less left than the deadline promises, proves that a clock was stepped or that a failover
    /// lost a renewal. The deadline moves earlier, older commands no longer count, and the next renewal is due at once. Commands in flight
    /// together may run in any order, so they contradict nothing. A slow reply alone does not move the deadline.
    pub(super) fn observe_reply(&mut self, now: Instant, sent_at: Instant, left: Duration, extends: bool) -> bool {
        if sent_at >= self.last_reply_at && self.cell.deadline() > now + left {
            self.contradicted_at = now;
            self.cell.set_deadline(deadline_of(sent_at, left));
            // Without an instant, the renewal is queued or in flight.
            self.renew_at = self.renew_at.and(Some(now));
        }
        self.last_reply_at = now;
        !self.has_passed(now) && (!extends || self.extend_deadline(sent_at, left))
    }

    /// Moves the deadline later after a grant or a renewal. Returns false if a guard has seen the deadline pass.
    fn extend_deadline(&self, sent_at: Instant, left: Duration) -> bool {
        let known = self.cell.deadline();
        let is_old = sent_at < self.contradicted_at;
        self.cell.set_deadline(if is_old { known } else { known.max(deadline_of(sent_at, left)) })
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    /// The request that sent it; `None` for the background.
    pub(super) by: Option<Ticket>,
    pub(super) aim: CountChange,
    /// The most that the server may have had before.
    pub(super) before: u32,
    /// Number of resets before the send.
    pub(super) resets: u64,
    /// Start of the lease for the deadline.
    pub(super) sent_at: Instant,
    /// The requested lease; zero for a lowering.
    pub(super) lease: Duration,
    /// No reply will come: the link makes sure that the server applies no copy.
    pub(super) is_settling: bool,
    /// The replicas that must acknowledge it.
    pub(super) replicas: Option<Replicas>,
    /// The replicas that did, once the reply has come.
    pub(super) acknowledged: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountChange {
    RaiseTo(u32),
    LowerTo(u32),
    /// It offers the hold to another process, and leaves the count of 1.
    Offer,
    /// It creates the hold in place of an offered hold.
    Adopt,
}

impl CountChange {
    pub(super) const fn target(self) -> u32 {
        match self {
            Self::RaiseTo(count) | Self::LowerTo(count) => count,
            Self::Offer | Self::Adopt => 1,
        }
    }
}

impl Change {
    pub(super) fn shortfall(&self) -> Option<AcquireError> {
        shortfall(self.replicas, self.acknowledged)
    }
}

/// The error of a call that too few replicas acknowledged.
pub(super) fn shortfall(replicas: Option<Replicas>, acknowledged: Option<u32>) -> Option<AcquireError> {
    let wanted = replicas?.at_least;
    let acknowledged = acknowledged.unwrap_or_default();
    (acknowledged < wanted).then_some(AcquireError::NotReplicated { acknowledged, wanted })
}

pub(super) type Holds = BoxMap<HoldNumber, Hold>;

impl Session {
    /// The holds that match, in the order of their numbers.
    pub(super) fn holds_where(&self, is_it: impl Fn(&Hold) -> bool) -> Vec<HoldNumber> {
        let matching = self.holds.iter().filter(|(_, hold)| is_it(hold));
        let mut numbers: Vec<HoldNumber> = matching.map(|(number, _)| number).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests;
