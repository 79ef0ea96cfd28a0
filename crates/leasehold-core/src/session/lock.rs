//! The state that a client keeps about a lock: its waiters, its turn, and what the client holds of it.

use crate::command::{Keys, Kind, KindProtocol, WaitPolicy};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::failures::Failures;
use crate::session::ids::LockId;
use crate::session::lock::heartbeat::Heartbeat;
use crate::session::lock::invitations::Invitations;
use crate::session::lock::line::Line;
use crate::time::Instant;
use std::collections::BTreeSet;
use std::time::Duration;

pub(super) mod heartbeat;
pub(super) mod invitations;
pub(super) mod line;
pub(super) mod locks;
pub(super) mod wait_queue;

/// The state that the client keeps about a lock while it holds it, waits for it, or listens for it.
#[derive(Debug)]
pub(super) struct Lock {
    name: LockName,
    kind: Kind,
    keys: Keys,
    /// How many holds and requests refer to this.
    refs: usize,
    /// How many holds of this client are held.
    held: usize,
    /// How many permits these have together: one each, where it is no semaphore.
    permits: u64,
    /// The requests that wait.
    line: Line,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    invitations: Invitations,
    failures: Failures,
    heartbeat: Heartbeat,
    /// Every request takes the lock within this client first.
    is_local: bool,
    /// Another lock with the same name: the other half of a read-write lock, or a lock of another kind.
    sibling: Option<LockId>,
    /// Holds that were given up before they were granted, and that the server may still have.
    given_up: BTreeSet<HoldNumber>,
    /// The hold of this client that was granted last. It may have ended.
    last_granted: Option<HoldNumber>,
    /// When it was last said that a task of this client may wait for itself.
    alarmed_at: Option<Instant>,
    /// The reason that a waiter was told why it waits in vain.
    anomaly: Option<Anomaly>,
    timer: Option<Instant>,
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
        Self {
            keys: kind.protocol().keys(&name, client),
            kind,
            name,
            refs: 0,
            held: 0,
            permits: 0,
            line: Line::default(),
            invitations: Invitations::new(),
            failures: Failures::default(),
            heartbeat: Heartbeat::default(),
            is_local: false,
            sibling: None,
            given_up: BTreeSet::new(),
            last_granted: None,
            alarmed_at: None,
            anomaly: None,
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

    /// Its keys and its channel.
    pub(super) const fn keys(&self) -> &Keys {
        &self.keys
    }

    /// Whether waiting is by polling: no notice tells of a release.
    pub(super) const fn is_polled(&self) -> bool {
        self.keys.channel.is_none()
    }

    /// The requests that wait.
    pub(super) const fn line(&self) -> &Line {
        &self.line
    }

    /// The same, to be changed.
    pub(super) const fn line_mut(&mut self) -> &mut Line {
        &mut self.line
    }

    /// The waiters that may ask beside the contender.
    pub(super) const fn invitations(&self) -> &Invitations {
        &self.invitations
    }

    /// The same, to be changed.
    pub(super) const fn invitations_mut(&mut self) -> &mut Invitations {
        &mut self.invitations
    }

    /// The heartbeat of its waiters.
    pub(super) const fn heartbeat(&self) -> &Heartbeat {
        &self.heartbeat
    }

    /// The same, to be changed.
    pub(super) const fn heartbeat_mut(&mut self) -> &mut Heartbeat {
        &mut self.heartbeat
    }

    /// The failures that its line has met.
    pub(super) const fn failures(&self) -> &Failures {
        &self.failures
    }

    /// The same, to be changed.
    pub(super) const fn failures_mut(&mut self) -> &mut Failures {
        &mut self.failures
    }

    /// The server does its part.
    pub(super) fn forget_failures(&mut self) {
        self.failures = Failures::default();
    }

    /// No request waits any more.
    pub(super) fn end_line(&mut self) {
        self.line.end();
        self.forget_failures();
        self.heartbeat.end();
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
        self.refs
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
        self.held
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
        self.given_up.iter().copied()
    }

    /// Whether there is such a hold.
    pub(super) fn has_given_up(&self) -> bool {
        !self.given_up.is_empty()
    }

    /// Notes whether a hold is one of these.
    pub(super) fn note_given_up(&mut self, number: HoldNumber, is_given_up: bool) {
        if is_given_up {
            self.given_up.insert(number);
        } else if !self.given_up.is_empty() {
            self.given_up.remove(&number);
        }
    }

    /// Whether it may be said again that a task of this client may wait for itself.
    pub(super) fn may_alarm(&self, now: Instant, pause: Duration) -> bool {
        self.alarmed_at.is_none_or(|last| now.since(last) >= pause)
    }

    /// It is said now.
    pub(super) const fn note_alarm(&mut self, now: Instant) {
        self.alarmed_at = Some(now);
    }

    /// Notes what an attempt found. Gives the anomaly that the waiter is to be told. A try waits for nothing, so that a waiter that finds the
    /// same is still to be told.
    pub(super) fn note_anomaly(&mut self, found: Option<Anomaly>, waits: bool) -> Option<Anomaly> {
        let is_known = self.anomaly == found;
        if !is_known && !waits {
            self.anomaly = None;
            return None;
        }
        self.anomaly = found;
        found.filter(|_| !is_known)
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
