//! A clock that tests advance.

use leasehold_core::time::Instant;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A clock that only a test advances. Clones share the clock. It starts at zero and never decreases.
#[derive(Clone, Default)]
pub struct ManualClock {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    now: Instant,
    next_number: u64,
    /// Ordered by instant, then by age.
    timers: BTreeMap<(Instant, u64), Waker>,
    on_step: Vec<Weak<dyn Fn() + Send + Sync>>,
}

impl Shared {
    /// Removes the timers that are due, and returns their wakers.
    fn take_due(&mut self) -> Vec<Waker> {
        let mut woken = Vec::new();
        while let Some(first) = self.timers.first_entry().filter(|first| first.key().0 <= self.now) {
            woken.push(first.remove());
        }
        woken
    }
}

impl ManualClock {
    /// Creates a clock at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.shared.lock().now
    }

    /// Returns the instant of the earliest timer.
    pub fn next_timer(&self) -> Option<Instant> {
        self.shared.lock().timers.first_key_value().map(|((instant, _), _)| *instant)
    }

    /// Completes once the clock reaches `instant`.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future removes the timer.
    pub fn sleep_until(&self, instant: Instant) -> Sleep {
        Sleep { clock: self.clone(), instant, number: None }
    }

    /// Wakes once the clock reaches `instant`, or at once after `instant`.
    pub(crate) fn wake_at(&self, instant: Instant, waker: Waker) {
        let mut shared = self.shared.lock();
        if shared.now < instant {
            shared.next_number += 1;
            let number = shared.next_number;
            shared.timers.insert((instant, number), waker);
            return;
        }
        drop(shared);
        waker.wake();
    }

    /// Registers a callback for each step of [`ManualClock::advance`], until its last strong reference is dropped. The
    /// clock calls it without a lock, so the callback may use the clock.
    pub fn on_step(&self, callback: Weak<dyn Fn() + Send + Sync>) {
        let mut shared = self.shared.lock();
        shared.on_step.retain(|callback| callback.strong_count() > 0);
        shared.on_step.push(callback);
    }

    /// Advances the clock by `duration`, from timer to timer. At each instant with timers, wakes these timers and runs
    /// the step callbacks. Finally moves to the target and runs the callbacks again.
    ///
    /// Woken tasks run after this method returns, or within the callbacks.
    pub fn advance(&self, duration: Duration) {
        let target = self.now() + duration;
        while let Some(woken) = self.step_to_timer(target) {
            woken.into_iter().for_each(Waker::wake);
            self.run_callbacks();
        }
        {
            let mut shared = self.shared.lock();
            shared.now = shared.now.max(target);
        }
        self.run_callbacks();
    }

    /// Advances the clock by `duration` at once, as after a suspension or a clock step. The clock reaches the target
    /// before any due timer wakes. The step callbacks run once.
    pub fn jump(&self, duration: Duration) {
        let woken = {
            let mut shared = self.shared.lock();
            shared.now = shared.now + duration;
            shared.take_due()
        };
        woken.into_iter().for_each(Waker::wake);
        self.run_callbacks();
    }

    /// Advances to the next instant with timers, at most to `target`, and removes these timers.
    fn step_to_timer(&self, target: Instant) -> Option<Vec<Waker>> {
        let mut shared = self.shared.lock();
        let (instant, _) = *shared.timers.first_key_value().filter(|((instant, _), _)| *instant <= target)?.0;
        shared.now = shared.now.max(instant);
        Some(shared.take_due())
    }

    fn run_callbacks(&self) {
        let callbacks = self.shared.lock().on_step.clone();
        for callback in callbacks.iter().filter_map(Weak::upgrade) {
            callback();
        }
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.shared.lock();
        f.debug_struct("ManualClock")
            .field("now", &shared.now)
            .field("timers", &shared.timers.len())
            .finish_non_exhaustive()
    }
}

/// A timer on a [`ManualClock`].
#[derive(Debug)]
#[must_use = "a timer does nothing unless it is awaited"]
pub struct Sleep {
    clock: ManualClock,
    instant: Instant,
    /// Set by the first pending poll.
    number: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut shared = clock.shared.lock();
        if shared.now >= self.instant {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            shared.next_number += 1;
            shared.next_number
        });
        // Drop the replaced waker without the lock, because its drop may run arbitrary code.
        let old = shared.timers.insert((self.instant, number), cx.waker().clone());
        drop(shared);
        drop(old);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        let waker = self.clock.shared.lock().timers.remove(&(self.instant, number));
        drop(waker);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    /// Records the time of its wake-up.
    struct Note {
        clock: ManualClock,
        woken: Mutex<Vec<u64>>,
    }

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            let now = self.clock.now().as_nanos();
            self.woken.lock().push(now);
        }
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn note(clock: &ManualClock) -> Arc<Note> {
        Arc::new(Note { clock: clock.clone(), woken: Mutex::default() })
    }

    #[test]
    fn timers_go_off_in_order_of_time_each_at_its_own_instant() {
        let clock = ManualClock::new();
        let note = note(&clock);
        let waker = Waker::from(note.clone());
        let mut cx = Context::from_waker(&waker);
        let mut sleeps: Vec<_> = [30, 10, 20, 10, 50].into_iter().map(|n| Box::pin(clock.sleep_until(at(n)))).collect();
        for sleep in &mut sleeps {
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(clock.next_timer(), Some(at(10)));
        clock.advance(Duration::from_nanos(30));
        assert_eq!(*note.woken.lock(), [10, 10, 20, 30]);
        assert_eq!(clock.now(), at(30));
        assert!(sleeps[0].as_mut().poll(&mut cx).is_ready());
        assert!(sleeps[4].as_mut().poll(&mut cx).is_pending());
        drop(sleeps);
        assert_eq!(clock.next_timer(), None);
    }

    #[test]
    fn a_jump_wakes_late_whoever_was_due_on_the_way() {
        let clock = ManualClock::new();
        let note = note(&clock);
        let waker = Waker::from(note.clone());
        let mut cx = Context::from_waker(&waker);
        let mut sleeps: Vec<_> = [10, 20, 50].into_iter().map(|n| Box::pin(clock.sleep_until(at(n)))).collect();
        for sleep in &mut sleeps {
            assert!(sleep.as_mut().poll(&mut cx).is_pending());
        }
        clock.jump(Duration::from_nanos(30));
        assert_eq!(*note.woken.lock(), [30, 30]);
        assert_eq!((clock.now(), clock.next_timer()), (at(30), Some(at(50))));
    }

    #[test]
    fn a_step_may_set_timers_that_the_same_advance_comes_to() {
        let clock = ManualClock::new();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let chain = Arc::new(Mutex::new(Box::pin(clock.sleep_until(at(10)))));
        let callback: Arc<dyn Fn() + Send + Sync> = {
            let (clock, seen) = (clock.clone(), seen.clone());
            Arc::new(move || {
                let now = clock.now();
                seen.lock().push(now.as_nanos());
                let mut cx = Context::from_waker(Waker::noop());
                let mut sleep = chain.lock();
                if sleep.as_mut().poll(&mut cx).is_ready() {
                    *sleep = Box::pin(clock.sleep_until(now + Duration::from_nanos(10)));
                    assert!(sleep.as_mut().poll(&mut cx).is_pending());
                }
            })
        };
        clock.on_step(Arc::downgrade(&callback));
        clock.advance(Duration::ZERO);
        clock.advance(Duration::from_nanos(35));
        assert_eq!(*seen.lock(), [0, 10, 20, 30, 35]);
        drop(callback);
        clock.advance(Duration::from_nanos(100));
        assert_eq!(seen.lock().len(), 5, "a callback ends with its owner");
    }
}
