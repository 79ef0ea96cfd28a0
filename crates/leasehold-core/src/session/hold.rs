//! A hold: what the server may have of it, what it should have, and the one change in flight.

use crate::call::Replicas;
use crate::command::HoldKey;
use crate::error::{AcquireError, HoldEnd, LossReason};
use crate::hold_cell::HoldCell;
use crate::name::LockName;
use crate::number_map::BoxMap;
use crate::owner::{HoldName, HoldNumber, OwnerId};
use crate::session::lock::LockId;
use crate::session::release::CleanUp;
use crate::session::transfer::{Linger, Tenure};
use crate::session::{AcquireRequest, CallId, Event, Granted, Missing, Ticket};
use crate::settings::Settings;
use crate::time::Instant;
use bytes::Bytes;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// See the [module](self).
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
    /// Boxed, because a hold mostly has none.
    pub(super) change: Option<Box<Change>>,
    /// Requests that wait for the change to be over. Boxed, because a hold mostly has none.
    pub(super) waiting: Option<Box<Waiting>>,
    pub(super) lease: Duration,
    /// What its request asked for besides. Boxed, because it is rare.
    pub(super) extras: Option<Box<Extras>>,
    pub(super) deadline: Deadline,
    pub(super) state: HoldState,
    pub(super) renew_at: Option<Instant>,
    /// Something may have happened to the hold on the server: it is looked at, although its lease is not renewed.
    pub(super) look: bool,
    /// Operators have been notified that the server refuses a command of this hold.
    pub(super) refusal_told: bool,
    pub(super) clean_up: CleanUp,
    pub(super) tenure: Tenure,
    /// What there is of it where its name has the mark, which is rare.
    pub(super) linger: Option<Box<Linger>>,
    pub(super) timer: Option<Instant>,
}

/// What few requests ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extras {
    /// The replicas that must acknowledge the changes and the renewals of the hold.
    replicas: Option<Replicas>,
    /// Its lock stays busy until then.
    busy_until: Option<Instant>,
}

/// The requests that wait for a change of a hold to be over.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Ticket>);

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

    /// The lease to which the hold is renewed; `None` if no guard requests renewals.
    pub(super) fn renewed_lease(&self) -> Option<Duration> {
        self.count.is_renewed().then_some(self.lease)
    }

    /// This lease, or what is left of the longest time for which the lock is to be held.
    pub(super) fn limit_lease(&self, now: Instant, lease: Duration) -> Duration {
        lease.min(self.deadline.latest.since(now)).max(Duration::from_millis(1))
    }

    /// The replicas that must acknowledge its changes and its renewals.
    pub(super) fn replicas(&self) -> Option<Replicas> {
        self.extras.as_ref()?.replicas
    }

    pub(super) fn set_replicas(&mut self, replicas: Option<Replicas>) {
        if replicas.is_some() || self.extras.is_some() {
            self.extras.get_or_insert_default().replicas = replicas;
        }
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
        let handed_on = self.tenure.handed_on > 0 && self.count.wanted == 1;
        Granted { hold: number, cell: self.cell.clone(), count: self.count.wanted, renewed, handed_on }
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
        if self.is_live() && !self.is_counted_by_client() && self.count.on_server < self.count.wanted {
            return Err(format!(
                "it has {} guards, and the server at most {}",
                self.count.wanted, self.count.on_server
            ));
        }
        if self.lingers() {
            let is_at_rest = !self.count.has_guards() && self.count.on_server == 1 && self.change.is_none();
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

// ===== The table of holds =====
//
// The holds of a client, by their numbers.

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Holds {
    table: BoxMap<HoldNumber, Hold>,
    pub(super) missing: Missing,
}

impl Holds {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Whether there is a hold with this number.
    pub(super) fn contains(&self, number: HoldNumber) -> bool {
        self.table.contains(number)
    }

    /// Adds a hold.
    pub(super) fn insert(&mut self, number: HoldNumber, hold: Hold) {
        self.table.insert(number, hold);
    }

    /// Gives a hold another number. The old one names nothing any more.
    pub(super) fn renumber(&mut self, number: HoldNumber, next: HoldNumber) -> Option<&mut Hold> {
        self.table.rename(number, next)
    }

    /// Takes a hold out.
    pub(super) fn remove(&mut self, number: HoldNumber) -> Option<Hold> {
        self.table.remove(number)
    }

    /// A hold that may be gone.
    pub(super) fn get(&self, number: HoldNumber) -> Option<&Hold> {
        self.table.get(number)
    }

    /// A hold that may be gone, to be changed.
    pub(super) fn get_mut(&mut self, number: HoldNumber) -> Option<&mut Hold> {
        self.table.get_mut(number)
    }

    /// A hold that must be there. It is a bug of the session where it is not.
    #[track_caller]
    pub(super) fn known(&self, number: HoldNumber) -> Option<&Hold> {
        let hold = self.get(number);
        if hold.is_none() {
            self.missing.note();
        }
        hold
    }

    /// A hold that must be there, to be changed. It is a bug of the session where it is not.
    #[track_caller]
    pub(super) fn known_mut(&mut self, number: HoldNumber) -> Option<&mut Hold> {
        let hold = self.table.get_mut(number);
        if hold.is_none() {
            self.missing.note();
        }
        hold
    }

    /// All holds, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (HoldNumber, &Hold)> {
        self.table.iter()
    }

    /// All holds, to be changed, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Hold> {
        self.table.values_mut()
    }
}

// ===== The state of a hold =====
//
// What a hold is: asked for, queued, held, or ended.

/// The state of a hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum HoldState {
    /// A first acquire of it may be on the server.
    #[default]
    Asking,
    /// It has a place in a queue, or a mark, on the server.
    Queued,
    /// It was granted.
    Held(CountedBy),
    /// It was granted, and its guards were told that it has ended.
    Ended(CountedBy, HoldEnd),
}

/// Who counts the guards of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountedBy {
    /// The server.
    Server,
    /// The client, because it was granted without the server, which has it since.
    ClientSince,
    /// The client, and the server does not have it yet: the hold is degraded, and keeps out the other tasks of this client alone.
    ClientAlone,
    /// The client, and the server is never to have it: the hold is degraded, and keeps out no other.
    PassedThrough,
}

impl HoldState {
    /// Whether it was ever granted.
    pub(super) const fn is_granted(self) -> bool {
        self.counted_by().is_some()
    }

    /// Whether it has a place, or a mark, on the server, and was not granted.
    pub(super) fn is_queued(self) -> bool {
        self == Self::Queued
    }

    /// Whether it was granted without the server, which does not have it yet.
    pub(super) fn is_degraded(self) -> bool {
        matches!(self.counted_by(), Some(CountedBy::ClientAlone | CountedBy::PassedThrough))
    }

    /// Whether the server is asked for it again and again, because it was granted without it.
    pub(super) fn is_restorable(self) -> bool {
        self == Self::Held(CountedBy::ClientAlone)
    }

    /// Whether it was granted without the server, which does not count its guards since then.
    pub(super) fn is_counted_by_client(self) -> bool {
        self.counted_by().is_some_and(|by| by != CountedBy::Server)
    }

    /// How it ended, if it has.
    pub(super) const fn end(self) -> Option<HoldEnd> {
        match self {
            Self::Ended(_, end) => Some(end),
            Self::Asking | Self::Queued | Self::Held(_) => None,
        }
    }

    /// The server has given it a place. Says whether it had none before.
    pub(super) fn take_place(&mut self) -> bool {
        debug_assert!(!self.is_granted(), "a granted hold takes no place");
        std::mem::replace(self, Self::Queued) != Self::Queued
    }

    /// Its place is gone, or the server has given that up for a grant. Says whether it had one.
    pub(super) fn leave_place(&mut self) -> bool {
        let was_queued = self.is_queued();
        if was_queued {
            *self = Self::Asking;
        }
        was_queued
    }

    /// It is granted.
    pub(super) fn grant(&mut self, by: CountedBy) {
        debug_assert!(!self.is_granted(), "a hold is granted once");
        *self = Self::Held(by);
    }

    /// What was granted is nothing that can be held.
    pub(super) const fn forget_grant(&mut self) {
        *self = Self::Asking;
    }

    /// The server has what was granted without it.
    pub(super) fn restore(&mut self) {
        debug_assert!(self.is_restorable(), "only a hold that the server is asked for is restored");
        *self = Self::Held(CountedBy::ClientSince);
    }

    /// It ends. The first end is the one that counts: says whether this is it.
    pub(super) fn finish(&mut self, end: HoldEnd) -> bool {
        if self.end().is_some() {
            return false;
        }
        let by = self.counted_by();
        debug_assert!(by.is_some(), "a hold that was not granted has no end that a guard could be told");
        *self = Self::Ended(by.unwrap_or(CountedBy::Server), end);
        true
    }

    const fn counted_by(self) -> Option<CountedBy> {
        match self {
            Self::Held(by) | Self::Ended(by, _) => Some(by),
            Self::Asking | Self::Queued => None,
        }
    }
}

// ===== The count of a hold =====
//
// The hold count of a hold: how much of it the server may have, and how much is wanted.
//
// It is the heart of invariant 2. Every guard and every detached guard wants one. Where the server may have more, the rest is taken back.

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Count {
    /// The most that the server may have.
    pub(super) on_server: u32,
    /// The guards that exist, and those that were detached.
    pub(super) wanted: u32,
    /// Those of the wanted that were detached.
    detached: u32,
    /// Those of the wanted that want the lease renewed.
    pub(super) renewing: u32,
    range: Option<Range>,
}

/// The lowest and highest count that the server can have had while renewals of a hold are under way. They may be answered in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    low: u32,
    high: u32,
    renewals: NonZeroU32,
}

impl Range {
    /// Whether the server can have had this count.
    pub(super) const fn has(self, count: u32) -> bool {
        self.low <= count && count <= self.high
    }

    fn widen(&mut self, count: u32) {
        self.low = self.low.min(count);
        self.high = self.high.max(count);
    }
}

impl Count {
    /// Whether a guard exists that was not detached.
    pub(super) const fn has_guards(&self) -> bool {
        self.wanted > self.detached
    }

    /// Whether any guard wants the lease renewed.
    pub(super) const fn is_renewed(&self) -> bool {
        self.renewing > 0
    }

    /// Whether there is one guard, which the server counts, and which wants the lease renewed; and no renewal is under way.
    pub(super) const fn is_one_at_rest(&self) -> bool {
        self.on_server == 1 && self.wanted == 1 && self.renewing == 1 && self.detached == 0 && self.range.is_none()
    }

    /// Whether the server may have more than is wanted.
    pub(super) const fn is_high(&self) -> bool {
        self.on_server > self.wanted
    }

    /// A call is sent that changes the server's count to `target`. Gives the most that the server may have had before.
    pub(super) fn begin_change(&mut self, target: u32) -> u32 {
        let before = self.on_server;
        self.on_server = before.max(target);
        self.widen(target);
        before
    }

    /// There is one guard more.
    pub(super) fn add_guard(&mut self, renews: bool) {
        self.wanted += 1;
        self.renewing += u32::from(renews);
    }

    /// There is one guard less.
    pub(super) fn remove_guard(&mut self, renews: bool) {
        self.wanted -= 1;
        self.renewing -= u32::from(renews);
        self.widen(self.wanted);
    }

    /// A guard was detached: its count stays until the lease ends, and it wants no renewal.
    pub(super) fn detach_guard(&mut self, renews: bool) {
        self.detached += 1;
        self.renewing -= u32::from(renews);
    }

    /// The kind of the lock has no holders: the grant counts for nothing.
    pub(super) fn clear(&mut self) {
        (self.on_server, self.wanted, self.renewing) = (0, 0, 0);
    }

    /// A renewal is sent.
    pub(super) fn begin_renewal(&mut self) {
        let renewals = self.range.map_or(NonZeroU32::MIN, |range| range.renewals.saturating_add(1));
        let fresh = Range { low: self.on_server, high: self.on_server, renewals };
        let range = self.range.get_or_insert(fresh);
        range.renewals = renewals;
        range.widen(self.on_server);
        range.widen(self.wanted);
    }

    /// A renewal is answered, or never will be. Gives the counts of which its reply may tell.
    pub(super) fn end_renewal(&mut self) -> Option<Range> {
        let range = self.range.take()?;
        self.range = NonZeroU32::new(range.renewals.get() - 1).map(|renewals| Range { renewals, ..range });
        Some(range)
    }

    /// Whether a renewal is in flight.
    pub(super) const fn is_being_renewed(&self) -> bool {
        self.range.is_some()
    }

    /// What must hold of every count.
    pub(super) const fn is_sound(&self) -> bool {
        self.detached + self.renewing <= self.wanted
    }

    /// The server may get, or have got, this count while renewals are under way.
    fn widen(&mut self, count: u32) {
        if let Some(range) = &mut self.range {
            range.widen(count);
        }
    }
}

// ===== The deadline of a hold =====
//
// The deadline of a hold: until when this client may believe in it.
//
// The instant itself stands in the [`HoldCell`], where guards read it, and which caps it by the longest time for which the lock is to be
// held. This is what decides about it: which replies make it later, and which make it earlier. It is the heart of invariant 4. A hold that is
// granted without the server has another one (`Hold::grant_locally`, `Hold::restore`). The margin is [`Settings::margin`].

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Deadline {
    /// The end of the longest time for which the lock is to be held.
    pub(super) latest: Instant,
    /// When the last reply was read that said how much of the lease is left.
    pub(super) told_at: Instant,
    /// When such a reply has last contradicted the deadline.
    contradicted_at: Instant,
}

/// What a reply means for a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Observed {
    /// The deadline stands.
    Holds,
    /// The deadline was too late. It is earlier now, and has not passed.
    Contradicted,
    /// The deadline has passed: the hold is lost.
    Passed,
}

impl Deadline {
    /// The deadline of a hold that is begun now, and held until `latest` at most.
    pub(super) const fn until(latest: Instant) -> Self {
        Self { latest, told_at: Instant::from_nanos(0), contradicted_at: Instant::from_nanos(0) }
    }

    /// Until when a client may believe in the rest of a lease that a server named when it executed a command.
    pub(super) fn from_reply(sent_at: Instant, left: Duration) -> Instant {
        sent_at + left - Settings::margin(left)
    }

    /// Whether a command that was sent at `sent_at` was sent after the last reply had been read, and so is newer than all that is known.
    pub(super) fn is_older_than(&self, sent_at: Instant) -> bool {
        self.told_at < sent_at
    }

    /// Looks whether a reply contradicts the deadline, without taking anything from it that would make it later.
    ///
    /// A deadline stands while the replies that come after allow for it, so that a slow one takes nothing away. The reply to a command that
    /// was sent after the last reply was read tells of less than the deadline promises: however long it was under way, a clock has been
    /// stepped, or a failover has lost a renewal. Then nothing counts that was sent before this was known. Two commands that are on their way
    /// at the same time may be executed in any order, and contradict nothing of each other.
    pub(super) fn observe_reply(
        &mut self,
        cell: &HoldCell,
        now: Instant,
        sent_at: Instant,
        left: Duration,
    ) -> Observed {
        let contradicted = sent_at >= self.told_at && cell.deadline() > now + left;
        self.told_at = now;
        if contradicted {
            self.contradicted_at = now;
            cell.set_deadline(Self::from_reply(sent_at, left));
        }
        match now < cell.deadline() {
            false => Observed::Passed,
            true if contradicted => Observed::Contradicted,
            true => Observed::Holds,
        }
    }

    /// Makes the deadline later by the reply to a grant or a renewal. Says whether the hold is not yet known to be lost.
    pub(super) fn extend(&self, cell: &HoldCell, sent_at: Instant, left: Duration) -> bool {
        let known = cell.deadline();
        let later = if sent_at < self.contradicted_at { known } else { known.max(Self::from_reply(sent_at, left)) };
        cell.set_deadline(later)
    }
}

// ===== The change in flight =====
//
// A change of a hold's count in flight.

/// A change of a hold's count that awaits its outcome.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    id: CallId,
    /// The request that sent it; `None` for the background.
    pub(super) by: Option<Ticket>,
    pub(super) aim: CountChange,
    /// The most that the server may have had before.
    before: u32,
    /// Resets before it was sent.
    pub(super) resets: u64,
    /// Start of the lease for the deadline.
    pub(super) sent_at: Instant,
    /// The lease that it asks for, if it asks for one.
    pub(super) lease: Duration,
    /// No reply will come: it is being made sure that no copy can be applied any more.
    is_settling: bool,
    /// The replicas that must acknowledge it.
    pub(super) replicas: Option<Replicas>,
    /// How many did, once it is answered.
    pub(super) acknowledged: Option<u32>,
}

/// What a change is to do with the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountChange {
    RaiseTo(u32),
    LowerTo(u32),
}

impl CountChange {
    /// The count that the server has afterwards.
    const fn target(self) -> u32 {
        match self {
            Self::RaiseTo(count) | Self::LowerTo(count) => count,
        }
    }
}

impl Change {
    /// Creates a change sent at `now`. `by` is the request; `None` for the background.
    pub(super) const fn new(now: Instant, id: CallId, by: Option<Ticket>, aim: CountChange, resets: u64) -> Self {
        Self {
            id,
            by,
            aim,
            before: 0,
            resets,
            sent_at: now,
            lease: Duration::ZERO,
            is_settling: false,
            replicas: None,
            acknowledged: None,
        }
    }

    /// It asks for this lease.
    pub(super) const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// These replicas must acknowledge it.
    pub(super) const fn with_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = replicas;
        self
    }

    /// The error that an acquire ends with which too few replicas acknowledged.
    pub(super) fn shortfall(&self) -> Option<AcquireError> {
        let wanted = self.replicas?.at_least;
        let acknowledged = self.acknowledged.unwrap_or_default();
        (acknowledged < wanted).then_some(AcquireError::NotReplicated { acknowledged, wanted })
    }
}

impl Hold {
    /// Notes a change that is sent now.
    pub(super) fn begin_change(&mut self, change: impl Into<Box<Change>>) {
        let mut change = change.into();
        let before = self.count.begin_change(change.aim.target());
        let lease = change.lease.min(self.deadline.latest.since(change.sent_at));
        *change = Change { before, lease, ..*change };
        self.change = Some(change);
    }

    /// The change that is on its way.
    pub(super) fn change(&self) -> Option<&Change> {
        self.change.as_deref()
    }

    /// Whether a change is on its way, or being settled.
    pub(super) const fn has_change(&self) -> bool {
        self.change.is_some()
    }

    /// Whether a reply to this call may still come.
    pub(super) fn is_flying(&self, id: CallId) -> bool {
        self.change.as_ref().is_some_and(|change| change.id == id && !change.is_settling)
    }

    /// Whether a reply to a call of this request may still come.
    pub(super) fn is_flying_by(&self, ticket: Ticket) -> bool {
        self.change.as_ref().is_some_and(|change| change.by == Some(ticket) && !change.is_settling)
    }

    /// Whether something is on its way that raises the count.
    pub(super) fn is_being_raised(&self) -> bool {
        self.change.as_ref().is_some_and(|change| matches!(change.aim, CountChange::RaiseTo(_)))
    }

    /// The replicas that have what the change brought about.
    pub(super) fn note_replicas(&mut self, acknowledged: u32) {
        if let Some(change) = &mut self.change {
            change.acknowledged = Some(acknowledged);
        }
    }

    /// Marks the change as settling, unless it already is. Returns whether its call waits for replicas.
    pub(super) fn begin_settling(&mut self) -> Option<bool> {
        let change = self.change.as_mut().filter(|change| !change.is_settling)?;
        change.is_settling = true;
        let durable = change.replicas.is_some();
        self.doubt_lowering();
        Some(durable)
    }

    /// Removes and returns the change.
    pub(super) fn end_change(&mut self) -> Option<Box<Change>> {
        self.change.take()
    }

    /// Restores the count after a re-entry that the server did not apply.
    pub(super) fn undo_entry(&mut self, change: &Change) {
        if let CountChange::RaiseTo(target) = change.aim {
            self.count.on_server = target - 1;
            self.raising = None;
        }
    }

    /// Restores the count after a change that the server did not apply.
    pub(super) const fn undo_change(&mut self, change: &Change) {
        self.count.on_server = change.before;
    }

    /// The request that re-enters raises the count by one. Gives the count that it asks for.
    pub(super) fn begin_entry(&mut self, ticket: Ticket) -> u32 {
        self.stop_waiting(ticket);
        self.raising = Some(ticket);
        self.count.wanted + 1
    }

    /// Whether a request that re-enters has to wait: another change is on its way, or is to be sent first.
    pub(super) fn is_in_the_way_of(&self, ticket: Ticket) -> bool {
        self.change.is_some() || (self.count.is_high() && self.raising != Some(ticket))
    }
}

// ===== Grant, guards and end =====
//
// The grant of a hold, its guards, and its end.

impl Hold {
    /// The server has given it a place, or a mark. Says whether it had none before.
    pub(super) fn take_place(&mut self) -> bool {
        self.count.on_server = 1;
        self.state.take_place()
    }

    /// Its place is gone from the server's queue.
    pub(super) fn lose_place(&mut self) {
        self.state.leave_place();
    }

    /// The server says that it has granted the hold, with this fencing token.
    pub(super) fn note_grant(&mut self, token: Option<u64>) {
        self.count.on_server = 1;
        self.state.leave_place();
        self.cell.set_token(token);
    }

    /// The grant counts: the replicas have it, and this is left of its lease.
    pub(super) fn confirm_grant(&mut self, now: Instant, change: &Change, left: Duration) {
        self.cell.set_acknowledged(change.acknowledged);
        self.extend(change.sent_at, left);
        self.deadline.told_at = now;
        self.tenure = Tenure { asked_at: change.sent_at, since: now, handed_on: 0 };
    }

    /// It has its first guard, whom the server counts.
    pub(super) fn grant(&mut self, renewed: bool) {
        self.add_first_guard(CountedBy::Server, renewed);
    }

    /// The same without the server. Nothing renews it, and nothing needs to: it lasts as long as its guard, unless a fixed time was asked for.
    ///
    /// The server is asked for it at `restore_at`; without an instant it is never asked.
    pub(super) fn grant_locally(&mut self, now: Instant, renewed: bool, restore_at: Option<Instant>) {
        self.raising = None;
        let by = if restore_at.is_some() { CountedBy::ClientAlone } else { CountedBy::PassedThrough };
        self.add_first_guard(by, renewed);
        self.cell.set_degraded(true);
        self.reckon_locally(now);
        self.renew_at = restore_at;
    }

    /// Without the server a hold lasts for as long as a renewing guard of it does, and for one lease from now where there is none.
    fn reckon_locally(&self, now: Instant) {
        if self.state.is_degraded() {
            self.cell.set_deadline(if self.count.is_renewed() { Instant::FAR_FUTURE } else { now + self.lease });
        }
    }

    fn add_first_guard(&mut self, by: CountedBy, renewed: bool) {
        self.state.grant(by);
        self.count.add_guard(renewed);
        self.cell.set_count(1);
        self.cell.set_renewed(self.count.renewing);
    }

    /// Its owner has re-entered it, and asks for this lease.
    pub(super) fn add_guard(&mut self, now: Instant, renewed: bool, lease: Duration) {
        self.raising = None;
        self.count.add_guard(renewed);
        self.lease = self.lease.max(lease);
        self.extend_clean_up(now);
        self.reckon_locally(now);
        self.cell.set_count(self.count.wanted);
        self.cell.set_renewed(self.count.renewing);
    }

    /// Removes a guard. Returns whether it existed.
    pub(super) fn remove_guard(&mut self, renewed: bool) -> bool {
        let has_guards = self.count.has_guards();
        if has_guards {
            self.count.remove_guard(renewed);
        }
        has_guards
    }

    /// A guard is given up without a release. Says whether it was one.
    pub(super) fn detach_guard(&mut self, renewed: bool) -> bool {
        let has_guards = self.count.has_guards();
        if has_guards {
            self.count.detach_guard(renewed);
        }
        has_guards
    }

    /// A guard does not want it to be renewed any more. The last one ends it, if nothing else has: says whether this was the last.
    pub(super) fn end_guard(&mut self, now: Instant, renewed: bool, end: HoldEnd, woken: &mut Vec<Waker>) -> bool {
        self.cell.set_renewed(self.count.renewing);
        if !self.count.is_renewed() {
            if renewed {
                self.reckon_locally(now);
            }
            if !self.is_restorable() {
                self.renew_at = None;
            }
        }
        let is_last = !self.count.has_guards();
        if is_last && self.state.finish(end) {
            self.cell.end(end, woken);
        }
        is_last
    }

    /// Its guards are told that it is lost. Says whether it was not yet.
    pub(super) fn lose(&mut self, reason: LossReason, woken: &mut Vec<Waker>) -> bool {
        if !self.state.finish(HoldEnd::Lost(reason)) {
            return false;
        }
        self.renew_at = None;
        self.cell.end(HoldEnd::Lost(reason), woken);
        if reason == LossReason::Removed {
            self.count.on_server = 0;
        }
        true
    }

    /// It is forgotten: what still listens to its end is told.
    pub(super) fn forget(&mut self, woken: &mut Vec<Waker>) {
        if self.state.end().is_none() {
            self.cell.end(HoldEnd::Released, woken);
        }
    }

    /// The kind of the lock has no holders: the grant counts for nothing.
    pub(super) fn forget_grant(&mut self) {
        self.state.forget_grant();
        self.count.clear();
    }

    /// The request that was raising its count does not want that any more. Says whether this one was.
    pub(super) fn stop_raising(&mut self, ticket: Ticket) -> bool {
        self.raising.take_if(|raising| *raising == ticket).is_some()
    }
}

// ===== A least time of holding =====
//
// The least time for which a hold keeps its lock busy: its guards may go before, and then the server keeps the lock until the time is over.

impl Hold {
    /// The lock stays busy until then, if it is released and not lost. An earlier instant than one that was set before changes nothing.
    pub(super) fn keep_busy(&mut self, until: Instant) {
        let busy_until = &mut self.extras.get_or_insert_default().busy_until;
        *busy_until = (*busy_until).max(Some(until));
    }

    /// Whether a release at this instant would leave the lock busy. Such a hold goes to no other task of the client.
    pub(super) fn keeps_busy(&self, now: Instant) -> bool {
        self.busy_until().is_some_and(|until| until > now)
    }

    fn busy_until(&self) -> Option<Instant> {
        self.extras.as_ref()?.busy_until
    }

    /// For how long the lock is to stay busy once its last guard has gone; zero where it is to be free. Others may have a lock that was lost.
    pub(super) fn left_of_least_time(&self, now: Instant) -> Duration {
        let is_released = matches!(self.end(), Some(HoldEnd::Released | HoldEnd::Lost(LossReason::ShutDown)));
        self.busy_until().filter(|_| is_released && !self.has_guards()).map_or(Duration::ZERO, |until| until.since(now))
    }
}

#[cfg(test)]
mod tests;
