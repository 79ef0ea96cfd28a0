//! The state of a hold that its guards read without the session's lock.

#[cfg(all(test, leasehold_loom))]
mod interleavings;

use crate::command::HoldKey;
use crate::error::{HoldEnd, LossReason};
use crate::owner::HoldName;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, MutexGuard, OnceLock};
use crate::time::Instant;
use bytes::Bytes;
use slab::Slab;
use std::any::Any;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::Waker;
use std::time::Duration;

/// The part of a hold that its guards read: local deadline, hold count and end.
///
/// The session writes it. Guards and their futures read it from any thread, without the session's lock. Guards write
/// only the mark of a deadline that they have seen pass.
#[derive(Debug)]
pub struct HoldCell {
    pub(crate) name: HoldName,
    permits: u32,
    acquired_at: Instant,
    /// In nanoseconds; [`SEEN`] is set once a guard has seen the deadline pass.
    deadline: AtomicU64,
    count: AtomicU32,
    end: OnceLock<HoldEnd>,
    /// Allocated by the first watch, because most holds have no watch.
    watches: Mutex<Option<Box<Slab<Waker>>>>,
    /// Number of guards that expect renewals.
    renewed: AtomicU32,
    /// The end of `max_hold`, which caps the deadline.
    pub(crate) max_hold_at: Instant,
    /// The hold was granted locally and is not on the server.
    degraded: AtomicBool,
    /// The fencing token of the first grant; 0 if the kind has no tokens.
    token: AtomicU64,
    /// The number of acknowledging replicas plus one; 0 if the hold required no acknowledgement.
    acknowledged: AtomicU32,
    /// The runtime's attachment.
    attachment: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// The bit of a deadline that a guard has seen pass, which freezes the deadline.
const SEEN: u64 = 1 << 63;

/// The deadline of a hold without end. A real deadline is 292 years away from it.
const NEVER: u64 = SEEN - 1;

impl HoldCell {
    pub(crate) fn new(name: HoldName, permits: u32, acquired_at: Instant, max_hold: Option<Duration>) -> Self {
        Self {
            name,
            permits,
            acquired_at,
            deadline: AtomicU64::new(0),
            count: AtomicU32::new(0),
            end: OnceLock::new(),
            watches: Mutex::new(None),
            renewed: AtomicU32::new(0),
            max_hold_at: max_hold.map_or(Instant::FAR_FUTURE, |most| acquired_at + most),
            degraded: AtomicBool::new(false),
            token: AtomicU64::new(0),
            acknowledged: AtomicU32::new(0),
            attachment: OnceLock::new(),
        }
    }

    /// The runtime's attachment of the hold, shared by all guards and tokens. The first call creates it by `make`.
    /// `None` if the attachment has another type.
    pub fn attachment<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.attachment.get_or_init(|| Box::new(make())).downcast_ref()
    }

    /// The name of the hold on the server, and its number of permits.
    pub fn key(&self) -> HoldKey {
        HoldKey::named(self.name.clone(), self.permits)
    }

    /// The name of the hold on the server.
    pub fn field(&self) -> Bytes {
        self.name.field()
    }

    /// Number of permits; 1 for locks.
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// The time of the first grant's arrival.
    pub const fn acquired_at(&self) -> Instant {
        self.acquired_at
    }

    /// The local deadline: the client loses the hold at this instant unless it renews the hold before.
    pub fn deadline(&self) -> Instant {
        match self.deadline.load(Ordering::Acquire) & !SEEN {
            NEVER => Instant::FAR_FUTURE,
            nanos => Instant::from_nanos(nanos),
        }
    }

    /// The time until the local deadline; zero once the hold has ended, as by [`HoldCell::ended`].
    pub fn remaining(&self, now: Instant) -> Duration {
        if self.ended(now).is_some() { Duration::ZERO } else { self.deadline().since(now) }
    }

    /// Returns whether the hold was granted locally and is not on the server.
    pub fn is_degraded(&self) -> bool {
        self.degraded.load(Ordering::Acquire)
    }

    /// Number of wakers that wait for the end.
    pub fn watchers(&self) -> usize {
        self.watches().as_ref().map_or(0, |watches| watches.len())
    }

    pub(crate) fn set_degraded(&self, degraded: bool) {
        self.degraded.store(degraded, Ordering::Release);
    }

    /// The fencing token of the first grant, if the kind has tokens.
    pub fn token(&self) -> Option<u64> {
        Some(self.token.load(Ordering::Acquire)).filter(|token| *token > 0)
    }

    /// Number of replicas that acknowledged the last valid acquire or renewal; `None` if the hold required no acknowledgement.
    pub fn acknowledged(&self) -> Option<u32> {
        self.acknowledged.load(Ordering::Acquire).checked_sub(1)
    }

    /// The hold count that the server last confirmed.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Acquire)
    }

    /// The end of the hold, or an expired deadline that the session has not processed yet. `None` while the hold lasts.
    ///
    /// After an end, the method never returns `None` again, but the reason may change. A reply that another thread
    /// reads at that moment cannot move a deadline that was seen to pass.
    pub fn ended(&self, now: Instant) -> Option<HoldEnd> {
        self.end.get().copied().or_else(|| self.has_passed(now).then(|| HoldEnd::Lost(self.reason_of_deadline())))
    }

    /// Like [`HoldCell::ended`], but never freezes the deadline, so a renewal can still move it.
    pub fn would_end(&self, now: Instant) -> Option<HoldEnd> {
        let was_seen = self.deadline.load(Ordering::Acquire) & SEEN == SEEN;
        let passed = was_seen || now >= self.deadline();
        self.end.get().copied().or_else(|| passed.then(|| HoldEnd::Lost(self.reason_of_deadline())))
    }

    fn has_passed(&self, now: Instant) -> bool {
        let mut deadline = self.deadline.load(Ordering::Acquire);
        while deadline & SEEN == 0 {
            if deadline == NEVER || now.as_nanos() < deadline {
                return false;
            }
            let seen = self.deadline.compare_exchange(deadline, deadline | SEEN, Ordering::AcqRel, Ordering::Acquire);
            deadline = seen.map_or_else(|moved| moved, |deadline| deadline | SEEN);
        }
        true
    }

    /// The reason of a loss by deadline.
    pub(crate) fn reason_of_deadline(&self) -> LossReason {
        if self.deadline() >= self.max_hold_at {
            LossReason::MaxHold
        } else if self.renewed.load(Ordering::Acquire) > 0 {
            LossReason::NotRenewed
        } else {
            LossReason::LeaseExpired
        }
    }

    /// Moves the deadline unless a guard has seen it pass. Returns whether it moved.
    pub(crate) fn set_deadline(&self, deadline: Instant) -> bool {
        let deadline = deadline.min(self.max_hold_at).as_nanos().min(NEVER);
        let unless_seen = |known: u64| (known & SEEN == 0).then_some(deadline);
        self.deadline.fetch_update(Ordering::AcqRel, Ordering::Acquire, unless_seen).is_ok()
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

    /// The end that the session knows.
    pub(crate) fn known_end(&self) -> Option<HoldEnd> {
        self.end.get().copied()
    }

    /// Ends the hold once, and moves its wakers to `woken`. The caller wakes them outside the session's lock. Returns whether this is the
    /// first end.
    pub(crate) fn end(&self, end: HoldEnd, woken: &mut Vec<Waker>) -> bool {
        let is_first = self.end.set(end).is_ok();
        if is_first {
            woken.extend(
                self.watches().take().into_iter().flat_map(|watches| watches.into_iter().map(|(_, waker)| waker)),
            );
        }
        is_first
    }

    fn watches(&self) -> MutexGuard<'_, Option<Box<Slab<Waker>>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waker that is woken when a hold ends, while this value exists.
#[derive(Debug)]
pub struct EndWatch {
    cell: Arc<HoldCell>,
    place: Option<usize>,
}

impl EndWatch {
    /// A watch without a waker.
    pub const fn new(cell: Arc<HoldCell>) -> Self {
        Self { cell, place: None }
    }

    /// Registers `waker` for the end of the hold, replacing the previous waker. Returns `false`, without a wake-up, if
    /// the hold has already ended. A wake-up here would make a task that waits for another event wake itself at each
    /// poll.
    ///
    /// Read [`HoldCell::ended`] *after* this, so no end is missed.
    pub fn wake_at_end(&mut self, waker: &Waker) -> bool {
        if self.is_known(waker) {
            return self.cell.end.get().is_none();
        }
        // Cloning and dropping a waker runs foreign code, so neither happens under this lock, which the session also
        // takes.
        let waker = waker.clone();
        let mut watches = self.cell.watches();
        // The end drains the wakers under this lock, so no waker stays with an ended hold.
        let ended = self.cell.end.get().is_some();
        let known = watches.as_mut().zip(self.place).and_then(|(watches, place)| watches.get_mut(place));
        let unused = match known {
            _ if ended => Some(waker),
            Some(known) => Some(std::mem::replace(known, waker)),
            None => {
                self.place = Some(watches.get_or_insert_default().insert(waker));
                None
            }
        };
        drop(watches);
        drop(unused);
        !ended
    }

    fn is_known(&self, waker: &Waker) -> bool {
        let watches = self.cell.watches();
        let known = watches.as_ref().zip(self.place).and_then(|(watches, place)| watches.get(place));
        known.is_some_and(|known| known.will_wake(waker))
    }

    /// Keeps the waker registered until the hold ends.
    pub fn keep(mut self) {
        self.place = None;
    }
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        // After the end the slab is empty, and a late watch reads the end from the cell.
        let take = |place| self.cell.watches().as_mut().and_then(|watches| watches.try_remove(place));
        let waker = self.place.and_then(take);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::{ClientId, HoldNumber};

    fn cell_until(max_hold: Option<Duration>) -> HoldCell {
        let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
        HoldCell::new(name, 1, Instant::from_nanos(0), max_hold)
    }

    fn cell() -> HoldCell {
        cell_until(None)
    }

    #[test]
    fn a_deadline_that_was_seen_to_pass_is_not_moved() {
        let (cell, at) = (cell(), Instant::from_nanos);
        assert!(cell.set_deadline(at(1_000)));
        assert_eq!(cell.ended(at(999)), None);
        assert_eq!(cell.would_end(at(1_000)), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
        assert!(cell.set_deadline(at(2_000)), "nobody has seen it pass");
        assert_eq!(cell.ended(at(2_000)), Some(HoldEnd::Lost(LossReason::LeaseExpired)));
        assert!(!cell.set_deadline(at(3_000)));
        assert_eq!(cell.deadline(), at(2_000));
        assert_eq!(cell.ended(at(1_500)), Some(HoldEnd::Lost(LossReason::LeaseExpired)), "it does not come back");
        assert_eq!(cell.remaining(at(1_500)), Duration::ZERO);
    }

    #[test]
    fn a_guard_that_had_no_time_left_has_none_later() {
        let (cell, at) = (cell(), Instant::from_nanos);
        assert!(cell.set_deadline(at(1_000)));
        assert_eq!(cell.remaining(at(400)), Duration::from_nanos(600));
        assert_eq!(cell.remaining(at(1_000)), Duration::ZERO);
        assert!(!cell.set_deadline(at(3_000)));
    }

    #[test]
    fn a_hold_without_a_deadline_has_none_that_passes() {
        let cell = cell();
        assert!(cell.set_deadline(Instant::FAR_FUTURE));
        assert_eq!(cell.ended(Instant::from_nanos(NEVER)), None);
        assert_eq!(cell.deadline(), Instant::FAR_FUTURE, "nobody waits for it");
    }

    #[test]
    fn the_longest_hold_ends_at_the_very_nanosecond() {
        for nanos in [1_000, 1_001] {
            let at = Instant::from_nanos(nanos);
            let cell = cell_until(Some(Duration::from_nanos(nanos)));
            assert!(cell.set_deadline(Instant::from_nanos(5_000)));
            assert_eq!((cell.deadline(), cell.ended(at)), (at, Some(HoldEnd::Lost(LossReason::MaxHold))));
        }
    }
}
