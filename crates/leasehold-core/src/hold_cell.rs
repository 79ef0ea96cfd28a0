//! The knowledge of guards about their hold that they have without a question to the session.

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

/// The part of a hold that its guards read: local deadline, hold count, and how it ended.
///
/// The session writes it; guards and their futures read it from any thread, without the session's lock, and leave nothing in it but that
/// they have seen the deadline pass.
#[derive(Debug)]
pub struct HoldCell {
    name: HoldName,
    permits: u32,
    acquired_at: Instant,
    /// In nanoseconds, with [`SEEN`] once a guard has seen it pass.
    deadline: AtomicU64,
    count: AtomicU32,
    end: OnceLock<HoldEnd>,
    /// There are none until the first one comes, because most holds have none.
    watches: Mutex<Option<Box<Slab<Waker>>>>,
    /// Whether the deadline is one that a renewal was to move.
    renewed: AtomicU32,
    max_hold_at: Instant,
    /// It was granted without the server, which does not have it.
    degraded: AtomicBool,
    /// The fencing token of the first grant; 0 where the kind has none.
    token: AtomicU64,
    /// One more than the replicas that acknowledged; 0 if none were asked.
    acknowledged: AtomicU32,
    /// Boxed, because most holds have none.
    attachment: OnceLock<Box<Attachment>>,
}

/// What the runtime keeps with a hold.
#[derive(Debug)]
struct Attachment(Box<dyn Any + Send + Sync>);

/// Of a deadline: a guard has been told that it has passed, so that it must not be moved any more.
const SEEN: u64 = 1 << 63;

/// The deadline of what lasts for ever; no other comes near to it in 292 years.
const NEVER: u64 = SEEN - 1;

impl HoldCell {
    pub(crate) fn new(name: HoldName, permits: u32, acquired_at: Instant, max_hold_at: Instant) -> Self {
        Self {
            name,
            permits,
            acquired_at,
            deadline: AtomicU64::new(0),
            count: AtomicU32::new(0),
            end: OnceLock::new(),
            watches: Mutex::new(None),
            renewed: AtomicU32::new(0),
            max_hold_at,
            degraded: AtomicBool::new(false),
            token: AtomicU64::new(0),
            acknowledged: AtomicU32::new(0),
            attachment: OnceLock::new(),
        }
    }

    /// The value that the runtime keeps with the hold, once, however many guards and tokens there are: `make` makes it for the first that
    /// asks. `None` where it keeps something of another type.
    pub fn attachment<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.attachment.get_or_init(|| Box::new(Attachment(Box::new(make())))).0.downcast_ref()
    }

    /// The name of the hold on the server, to be sent, and the number of its permits.
    pub fn key(&self) -> HoldKey {
        HoldKey::named(self.name.clone(), self.permits)
    }

    /// The name of the hold on the server.
    pub fn field(&self) -> Bytes {
        self.name.field()
    }

    /// How many permits it takes; 1 for locks.
    pub const fn permits(&self) -> u32 {
        self.permits
    }

    /// What names the hold on the server, for another cell of it.
    pub(crate) const fn name(&self) -> &HoldName {
        &self.name
    }

    /// When the first grant was received.
    pub const fn acquired_at(&self) -> Instant {
        self.acquired_at
    }

    /// The instant at which the hold counts as lost unless it is renewed before.
    pub fn deadline(&self) -> Instant {
        match self.deadline.load(Ordering::Acquire) & !SEEN {
            NEVER => Instant::FAR_FUTURE,
            nanos => Instant::from_nanos(nanos),
        }
    }

    /// The time to the local deadline; zero once the hold has ended, and from then on, as [`HoldCell::ended`] says.
    pub fn remaining(&self, now: Instant) -> Duration {
        if self.ended(now).is_some() { Duration::ZERO } else { self.deadline().since(now) }
    }

    /// Whether it was granted without the server, which does not have it.
    pub fn is_degraded(&self) -> bool {
        self.degraded.load(Ordering::Acquire)
    }

    /// How many are woken when it ends.
    pub fn watchers(&self) -> usize {
        self.watches().as_ref().map_or(0, |watches| watches.len())
    }

    pub(crate) fn set_degraded(&self, degraded: bool) {
        self.degraded.store(degraded, Ordering::Release);
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

    /// How the hold ended, or that its deadline has passed although the session has not said so yet. `None` while it is held.
    ///
    /// A guard that has been told once that its hold has ended is never told again that it is held, though perhaps another reason: a reply
    /// that is being read on another thread at that moment does not move a deadline that was seen to pass.
    pub fn ended(&self, now: Instant) -> Option<HoldEnd> {
        self.end.get().copied().or_else(|| self.has_passed(now).then(|| HoldEnd::Lost(self.reason_of_deadline())))
    }

    /// The answer that [`HoldCell::ended`] would give, for an onlooker that is no holder: the deadline can still be moved.
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

    /// Moves the deadline, unless a guard has seen it pass. Says whether none has.
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

    /// Ends the hold, once; the wakers are given to the caller, who wakes them outside the session's lock.
    pub(crate) fn end(&self, end: HoldEnd, woken: &mut Vec<Waker>) {
        if self.end.set(end).is_ok() {
            woken.extend(
                self.watches().take().into_iter().flat_map(|watches| watches.into_iter().map(|(_, waker)| waker)),
            );
        }
    }

    fn watches(&self) -> MutexGuard<'_, Option<Box<Slab<Waker>>>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A waker that is woken when a hold ends, for as long as this lives.
#[derive(Debug)]
pub struct EndWatch {
    cell: Arc<HoldCell>,
    place: Option<usize>,
}

impl EndWatch {
    /// It has no waker yet.
    pub const fn new(cell: Arc<HoldCell>) -> Self {
        Self { cell, place: None }
    }

    /// Has `waker` woken when the hold ends, instead of the one that was given before. Tells whether it has not ended yet: an end that is
    /// there already wakes no waker, or a task that goes on waiting for something else would be woken by every poll of its own.
    ///
    /// Look at [`HoldCell::ended`] *after* this, so that an end in between is not missed.
    pub fn wake_at_end(&mut self, waker: &Waker) -> bool {
        if self.is_known(waker) {
            return self.cell.end.get().is_none();
        }
        // Foreign code clones and drops a waker: neither is done under the lock, which the session takes too.
        let waker = waker.clone();
        let mut watches = self.cell.watches();
        // Looked at under the lock, under which the wakers are taken when it has ended: nothing is left behind with an ended hold.
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

    /// Leaves the waker with the hold until that ends.
    pub fn keep(mut self) {
        self.place = None;
    }
}

impl Drop for EndWatch {
    fn drop(&mut self) {
        // After the end the places are void, and a watch that has one by then sees the end by itself.
        let take = |place| self.cell.watches().as_mut().and_then(|watches| watches.try_remove(place));
        let waker = self.place.and_then(take);
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::{ClientId, HoldNumber};

    fn cell_until(max_hold_at: Instant) -> HoldCell {
        let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
        HoldCell::new(name, 1, Instant::from_nanos(0), max_hold_at)
    }

    fn cell() -> HoldCell {
        cell_until(Instant::FAR_FUTURE)
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
            let cell = cell_until(at);
            assert!(cell.set_deadline(Instant::from_nanos(5_000)));
            assert_eq!((cell.deadline(), cell.ended(at)), (at, Some(HoldEnd::Lost(LossReason::MaxHold))));
        }
    }
}
