//! What guards know of their hold without asking anybody.

use crate::command::HoldKey;
use crate::error::{HoldEnd, LossReason};
use crate::time::Instant;
use slab::Slab;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// The part of a hold that its guards read: local deadline, hold count, and how it ended.
///
/// The session writes it; guards and their futures read it from any thread, without the session's lock.
#[derive(Debug)]
pub struct HoldCell {
    key: HoldKey,
    acquired_at: Instant,
    deadline: AtomicU64,
    count: AtomicU32,
    end: OnceLock<HoldEnd>,
    watches: Mutex<Slab<Waker>>,
    /// Whether the deadline is one that a renewal was to move.
    renewed: AtomicU32,
    max_hold_at: Instant,
    /// The fencing token of the first grant; 0 where the kind has none.
    token: AtomicU64,
    /// One more than the replicas that acknowledged; 0 where nobody asked them.
    acknowledged: AtomicU32,
}

impl HoldCell {
    pub(crate) fn new(key: HoldKey, acquired_at: Instant, max_hold_at: Instant) -> Self {
        Self {
            key,
            acquired_at,
            deadline: AtomicU64::new(0),
            count: AtomicU32::new(0),
            end: OnceLock::new(),
            watches: Mutex::new(Slab::new()),
            renewed: AtomicU32::new(0),
            max_hold_at,
            token: AtomicU64::new(0),
            acknowledged: AtomicU32::new(0),
        }
    }

    /// What the hold is called on the server, and how many permits it takes.
    pub const fn key(&self) -> &HoldKey {
        &self.key
    }

    /// When the first grant was received.
    pub const fn acquired_at(&self) -> Instant {
        self.acquired_at
    }

    /// The instant at which the hold counts as lost unless it is renewed before.
    pub fn deadline(&self) -> Instant {
        Instant::from_nanos(self.deadline.load(Ordering::Acquire))
    }

    /// The time to the local deadline; zero once the hold has ended.
    pub fn remaining(&self, now: Instant) -> Duration {
        if self.end.get().is_some() { Duration::ZERO } else { self.deadline().since(now) }
    }

    /// The fencing token of the first grant, where the kind has one.
    pub fn token(&self) -> Option<u64> {
        Some(self.token.load(Ordering::Acquire)).filter(|token| *token > 0)
    }

    /// How many replicas acknowledged the last acquire or renewal that counted; `None` where none was asked.
    pub fn acknowledged(&self) -> Option<u32> {
        self.acknowledged.load(Ordering::Acquire).checked_sub(1)
    }

    /// The hold count that the server last confirmed.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// How the hold ended, or that its deadline has passed although nobody has said so yet. `None` while it is held.
    pub fn ended(&self, now: Instant) -> Option<HoldEnd> {
        self.end.get().copied().or_else(|| (now >= self.deadline()).then(|| HoldEnd::Lost(self.reason_of_deadline())))
    }

    /// Why a hold is lost whose deadline passes.
    pub(crate) fn reason_of_deadline(&self) -> LossReason {
        if self.deadline() >= self.max_hold_at {
            LossReason::MaxHold
        } else if self.renewed.load(Ordering::Acquire) > 0 {
            LossReason::NotRenewed
        } else {
            LossReason::LeaseExpired
        }
    }

    pub(crate) fn set_deadline(&self, deadline: Instant) {
        self.deadline.store(deadline.min(self.max_hold_at).as_nanos(), Ordering::Release);
    }

    pub(crate) fn set_token(&self, token: Option<u64>) {
        self.token.store(token.unwrap_or_default(), Ordering::Release);
    }

    pub(crate) fn set_acknowledged(&self, replicas: Option<u32>) {
        if let Some(replicas) = replicas {
            self.acknowledged.store(replicas.saturating_add(1), Ordering::Release);
        }
    }

    pub(crate) fn set_count(&self, count: u32) {
        self.count.store(count, Ordering::Release);
    }

    pub(crate) fn set_renewed(&self, guards: u32) {
        self.renewed.store(guards, Ordering::Release);
    }

    /// Ends the hold, once; the wakers are given to the caller, who wakes them outside the session's lock.
    pub(crate) fn end(&self, end: HoldEnd, woken: &mut Vec<Waker>) {
        if self.end.set(end).is_ok() {
            woken.extend(self.watches().drain());
        }
    }

    fn watches(&self) -> MutexGuard<'_, Slab<Waker>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who is woken when a hold ends, for as long as this lives.
#[derive(Debug)]
pub struct EndWatch {
    cell: Arc<HoldCell>,
    place: Option<usize>,
}

impl EndWatch {
    /// Nobody is woken yet.
    pub const fn new(cell: Arc<HoldCell>) -> Self {
        Self { cell, place: None }
    }

    /// Has `waker` woken when the hold ends, instead of the one that was given before.
    ///
    /// Look at [`HoldCell::ended`] *after* this, so that an end in between is not missed.
    pub fn wake_at_end(&mut self, waker: &Waker) {
        let mut watches = self.cell.watches();
        match self.place.and_then(|place| watches.get_mut(place)) {
            Some(known) => known.clone_from(waker),
            None => self.place = Some(watches.insert(waker.clone())),
        }
        drop(watches);
        if self.cell.end.get().is_some() {
            waker.wake_by_ref();
        }
    }

    /// Leaves the waker with the hold until that ends.
    pub fn keep(mut self) {
        self.place = None;
    }
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        // After the end the places are void, and whoever has one by then sees the end by itself.
        let waker = self.place.and_then(|place| self.cell.watches().try_remove(place));
        drop(waker);
    }
}
