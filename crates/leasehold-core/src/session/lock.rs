//! The state that a client keeps about a lock: its waiters, its turn, and what the client holds of it.

use crate::command::{Keys, Kind, KindProtocol, WaitPolicy};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::failures::Failures;
use crate::session::ids::LockId;
use crate::session::lock::heartbeat::Heartbeat;
use crate::session::lock::invitations::Invitations;
use crate::session::lock::line::{Line, Phase};
use crate::session::lock::rivals::Rivals;
use crate::session::lock::told::Told;
use crate::time::Instant;
use bytes::Bytes;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

pub(super) mod heartbeat;
pub(super) mod invitations;
pub(super) mod line;
pub(super) mod locks;
pub(super) mod rivals;
mod told;
pub(super) mod wait_queue;

/// The state that the client keeps about a lock while it holds it, waits for it, or listens for it.
#[derive(Debug)]
pub(super) struct Lock {
    name: LockName,
    kind: Kind,
    /// `None` for a kind whose calls need no more than the name.
    keys: Option<Box<Keys>>,
    /// How many holds and requests refer to this.
    refs: u32,
    /// How many holds of this client are held.
    held: u32,
    /// How many permits these have together: one each, where it is no semaphore.
    permits: u64,
    /// The requests that wait, and what concerns them alone. A lock that is held, and for which none waits, has no room for them: a client may
    /// hold a hundred thousand.
    waiters: Room,
    /// Every request takes the lock within this client first.
    is_local: bool,
    /// Another lock with the same name: the other half of a read-write lock, or a lock of another kind.
    sibling: Option<LockId>,
    /// It is the first of its name.
    is_first: bool,
    /// The hold of this client that was granted last. It may have ended.
    last_granted: Option<HoldNumber>,
    rivals: Rivals,
    own_wait_told: Told,
    timer: Option<Instant>,
}

/// The requests that wait for a lock, and what concerns them alone.
#[derive(Debug)]
struct Waiters {
    line: Line,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    invitations: Invitations,
    failures: Failures,
    heartbeat: Heartbeat,
    /// Holds that were given up before they were granted, and that the server may still have.
    given_up: BTreeSet<HoldNumber>,
    /// When it was last said that a task of this client may wait for itself.
    alarmed_at: Option<Instant>,
    /// The reason that a waiter was told why it waits in vain.
    anomaly: Option<Anomaly>,
}

/// The room that a lock has for waiters, once there was one.
struct Room(Option<Box<Waiters>>);

/// Whether there is room makes no difference to what a lock does.
impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_deref().unwrap_or(&NO_WAITERS).fmt(f)
    }
}

/// What a lock has for which no request waits.
static NO_WAITERS: Waiters = Waiters::none();

/// The keys of a kind whose calls need no more than the name.
static NO_KEYS: LazyLock<Keys> = LazyLock::new(|| Keys { keys: Box::default(), channel: None });

impl Waiters {
    /// No request waits, and none has left a trace.
    const fn none() -> Self {
        Self {
            line: Line::new(),
            invitations: Invitations::new(),
            failures: Failures::new(),
            heartbeat: Heartbeat::new(),
            given_up: BTreeSet::new(),
            alarmed_at: None,
            anomaly: None,
        }
    }

    /// Whether there is nothing to be kept.
    fn is_none(&self) -> bool {
        self.line.is_empty()
            && self.line.phase() == Phase::Idle
            && self.invitations.is_new()
            && !self.failures.has_any()
            && !self.heartbeat.goes_on()
            && self.given_up.is_empty()
            && self.alarmed_at.is_none()
            && self.anomaly.is_none()
    }
}

/// A state that no lease and no release of a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// The server has the lock without a time to live.
    Endless,
    /// There is no such semaphore.
    Unset,
}

/// What it is.
impl Lock {
    pub(super) fn new(name: LockName, kind: Kind, client: &ClientId) -> Self {
        let protocol = kind.protocol();
        Self {
            keys: protocol.has_keys().then(|| Box::new(protocol.keys(&name, client))),
            kind,
            name,
            refs: 0,
            held: 0,
            permits: 0,
            waiters: Room(None),
            is_local: false,
            sibling: None,
            is_first: true,
            last_granted: None,
            rivals: Rivals::Possible,
            own_wait_told: Told::default(),
            timer: None,
        }
    }

    /// Its name.
    pub(super) const fn name(&self) -> &LockName {
        &self.name
    }

    /// Its kind.
    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The protocol of its kind.
    pub(super) fn protocol(&self) -> &'static dyn KindProtocol {
        self.kind.protocol()
    }

    /// How its waiters stand to each other.
    pub(super) fn wait_policy(&self) -> WaitPolicy {
        self.protocol().wait_policy()
    }

    /// Its keys, where calls of its kind need more than the name.
    pub(super) fn keys(&self) -> &Keys {
        self.keys.as_deref().unwrap_or(&NO_KEYS)
    }

    /// Its channel; `None` if waiting is by polling.
    pub(super) fn channel(&self) -> Option<Bytes> {
        self.keys.as_ref().map_or_else(|| Some(self.name.channel()), |keys| keys.channel.clone())
    }

    /// Whether this is its channel, without making its name.
    pub(super) fn is_channel(&self, channel: &Bytes) -> bool {
        let is_named = || self.name.is_channel(channel);
        self.keys.as_ref().map_or_else(is_named, |keys| keys.channel.as_ref() == Some(channel))
    }

    /// Whether waiting is by polling: no notice tells of a release.
    pub(super) fn is_polled(&self) -> bool {
        self.keys.as_ref().is_some_and(|keys| keys.channel.is_none())
    }

    /// The requests that wait.
    pub(super) fn line(&self) -> &Line {
        &self.waiters().line
    }

    /// The same, to be changed.
    pub(super) fn line_mut(&mut self) -> &mut Line {
        &mut self.waiters_mut().line
    }

    /// The waiters that may ask beside the contender.
    pub(super) fn invitations(&self) -> &Invitations {
        &self.waiters().invitations
    }

    /// The same, to be changed.
    pub(super) fn invitations_mut(&mut self) -> &mut Invitations {
        &mut self.waiters_mut().invitations
    }

    /// The heartbeat of its waiters.
    pub(super) fn heartbeat(&self) -> &Heartbeat {
        &self.waiters().heartbeat
    }

    /// The same, to be changed.
    pub(super) fn heartbeat_mut(&mut self) -> &mut Heartbeat {
        &mut self.waiters_mut().heartbeat
    }

    /// Takes the plan of a heartbeat that is due now. Says whether there was one.
    pub(super) fn take_due_heartbeat(&mut self, now: Instant) -> bool {
        let was_due = self.waiters.0.as_mut().is_some_and(|waiters| waiters.heartbeat.take_due(now));
        self.drop_waiters();
        was_due
    }

    /// A heartbeat is answered, perhaps after the last waiter has gone. Says whether another is wanted at once.
    pub(super) fn note_heartbeat_answered(&mut self) -> bool {
        let again = self.waiters.0.as_mut().is_some_and(|waiters| waiters.heartbeat.answered());
        self.drop_waiters();
        again
    }

    /// The failures that its line has met.
    pub(super) fn failures(&self) -> &Failures {
        &self.waiters().failures
    }

    /// The same, to be changed.
    pub(super) fn failures_mut(&mut self) -> &mut Failures {
        &mut self.waiters_mut().failures
    }

    /// The server does its part.
    pub(super) fn forget_failures(&mut self) {
        if let Some(waiters) = &mut self.waiters.0 {
            waiters.failures = Failures::default();
        }
    }

    /// Notices may have been missed: the contender, if there is one, asks at `at` or before.
    pub(super) fn note_missed_notices(&mut self, at: Instant) {
        if let Some(waiters) = &mut self.waiters.0 {
            waiters.line.note_missed_notices(at);
        }
    }

    /// The server has confirmed the subscription. Returns whether it is the contender's turn now.
    #[must_use]
    pub(super) fn note_confirmed(&mut self) -> bool {
        self.waiters.0.as_mut().is_some_and(|waiters| waiters.line.note_confirmed())
    }

    /// No request waits any more.
    pub(super) fn end_line(&mut self) {
        let Some(waiters) = &mut self.waiters.0 else { return };
        waiters.line.end();
        waiters.failures = Failures::default();
        waiters.heartbeat.end();
        self.drop_waiters();
    }

    fn waiters(&self) -> &Waiters {
        self.waiters.0.as_deref().unwrap_or(&NO_WAITERS)
    }

    fn waiters_mut(&mut self) -> &mut Waiters {
        self.waiters.0.get_or_insert_with(|| Box::new(Waiters::none()))
    }

    /// Gives the room for waiters back, unless something is left of them.
    fn drop_waiters(&mut self) {
        self.waiters.0.take_if(|waiters| waiters.is_none());
    }
}

/// What refers to it, and what the client holds of it.
impl Lock {
    /// One reference more.
    pub(super) const fn add_ref(&mut self) {
        self.refs += 1;
    }

    /// How many holds, requests and heartbeats refer to it.
    pub(super) const fn refs(&self) -> usize {
        self.refs as usize
    }

    /// One hold more is held, with these permits.
    pub(super) const fn add_held(&mut self, permits: u64) {
        self.held += 1;
        self.permits += permits;
    }

    /// One hold less is held.
    pub(super) const fn remove_held(&mut self, permits: u64) {
        self.held -= 1;
        self.permits -= permits;
    }

    /// How many holds of this client are held.
    pub(super) const fn held(&self) -> usize {
        self.held as usize
    }

    /// Whether this client holds it.
    pub(super) const fn is_held(&self) -> bool {
        self.held > 0
    }

    /// How many permits its holds have together.
    pub(super) const fn permits(&self) -> u64 {
        self.permits
    }

    /// A hold of this client is granted.
    pub(super) const fn note_granted(&mut self, number: HoldNumber) {
        self.last_granted = Some(number);
    }

    /// The hold of this client that was granted last. It may have ended.
    pub(super) const fn last_granted(&self) -> Option<HoldNumber> {
        self.last_granted
    }

    /// From here on every request takes it within this client first.
    pub(super) const fn make_local(&mut self) {
        self.is_local = true;
    }

    /// Whether every request takes it within this client first.
    pub(super) const fn is_local(&self) -> bool {
        self.is_local
    }

    /// The holds that were given up before they were granted, and that the server may still have.
    pub(super) fn given_up(&self) -> impl Iterator<Item = HoldNumber> {
        self.waiters().given_up.iter().copied()
    }

    /// Whether there is such a hold.
    pub(super) fn has_given_up(&self) -> bool {
        !self.waiters().given_up.is_empty()
    }

    /// Notes whether a hold is one of these.
    pub(super) fn note_given_up(&mut self, number: HoldNumber, is_given_up: bool) {
        if is_given_up {
            self.waiters_mut().given_up.insert(number);
        } else if self.has_given_up() {
            self.waiters_mut().given_up.remove(&number);
            self.drop_waiters();
        }
    }

    /// A request waits for its own client. Says whether that is to be told.
    pub(super) fn note_own_wait(&mut self, now: Instant) -> bool {
        self.own_wait_told.note(now)
    }

    /// Whether it may be said again that a task of this client may wait for itself.
    pub(super) fn may_alarm(&self, now: Instant, pause: Duration) -> bool {
        self.waiters().alarmed_at.is_none_or(|last| now.since(last) >= pause)
    }

    /// It is said now.
    pub(super) fn note_alarm(&mut self, now: Instant) {
        self.waiters_mut().alarmed_at = Some(now);
    }

    /// Notes what an attempt found. Gives the anomaly that the waiter is to be told. A try waits for nothing, so that a waiter that finds the
    /// same is still to be told.
    pub(super) fn note_anomaly(&mut self, found: Option<Anomaly>, waits: bool) -> Option<Anomaly> {
        let known = self.waiters().anomaly;
        let next = if waits { found } else { found.filter(|_| known == found) };
        if known != next {
            self.waiters_mut().anomaly = next;
            self.drop_waiters();
        }
        found.filter(|_| known != found && waits)
    }

    /// The instant of its timer, as it is set.
    pub(super) const fn timer(&self) -> Option<Instant> {
        self.timer
    }

    /// Where that is kept.
    pub(super) const fn timer_slot(&mut self) -> &mut Option<Instant> {
        &mut self.timer
    }
}
