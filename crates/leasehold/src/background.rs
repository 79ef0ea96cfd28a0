//! The background: it renews, listens, watches deadlines and cleans up, independently of the callers' runtime.
//!
//! On a server, and on the embedded engine with the machine's clock, it is a thread with its own runtime. With a manual clock it runs
//! inline, in the thread that advances the clock or uses the client. With tokio's clock it is a task of the runtime that built the client.

mod driver;
#[cfg(feature = "embedded")]
pub(crate) mod inline;
#[cfg(all(test, leasehold_loom, feature = "embedded"))]
mod interleavings;

pub(crate) use driver::{is_at_rest, run};

use crate::client::inner::ClientInner;
use crate::runtime::sync::{Condvar, Mutex};
use leasehold_core::time::Instant;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

#[cfg(feature = "embedded")]
use leasehold_embedded::ManualClock;

/// How long a shutdown, and the drop of a client's last handle or of a thread's guard, wait for recent releases.
pub(crate) const FLUSH: Duration = Duration::from_millis(250);

/// The callers' handle of the background.
#[derive(Debug)]
pub(crate) struct Background {
    place: Place,
    wakeup: Notify,
    /// Cancelled when a shutdown begins.
    closing: CancellationToken,
    end: Mutex<End>,
    /// Wakes threads that wait for the end.
    changed: Condvar,
    /// Wakes futures that wait for the result of a shutdown.
    reported: Notify,
}

/// Where a background runs.
#[derive(Debug)]
pub(crate) enum Place {
    /// A separate thread.
    Thread,
    /// The thread that uses the client or advances the clock.
    #[cfg(feature = "embedded")]
    Inline(ManualClock),
    /// A task of the runtime that built the client.
    #[cfg(feature = "embedded")]
    Task,
}

#[derive(Debug, Default)]
struct End {
    stage: Stage,
    /// The time at which the remaining guards are lost.
    deadline: Option<Instant>,
    /// The result of a shutdown: the unreleased locks.
    unreleased: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Running,
    /// The last handle is gone, or a shutdown has begun: the background ends after all releases.
    Ending,
    Ended,
}

impl Background {
    pub(crate) fn new(place: Place) -> Self {
        Self {
            place,
            wakeup: Notify::new(),
            closing: CancellationToken::new(),
            end: Mutex::default(),
            changed: Condvar::default(),
            reported: Notify::new(),
        }
    }

    /// Wakes the background.
    pub(crate) fn wake(&self) {
        self.wakeup.notify_one();
        self.turn();
    }

    /// Runs all inline backgrounds on the same clock: a release of one client is a notice to another.
    pub(crate) fn turn(&self) {
        match &self.place {
            #[cfg(feature = "embedded")]
            Place::Inline(clock) => clock.advance(Duration::ZERO),
            _ => {}
        }
    }

    /// Returns whether the last handle is gone, or a shutdown has begun.
    pub(crate) fn is_ending(&self) -> bool {
        self.end.lock().stage != Stage::Running
    }

    /// Returns the deadline for the guards of a client in shutdown.
    fn deadline(&self) -> Option<Instant> {
        self.end.lock().deadline
    }

    /// Returns a token that is cancelled when a shutdown begins. Cancelling it does not affect other tokens.
    pub(crate) fn closing(&self) -> CancellationToken {
        self.closing.child_token()
    }

    /// Returns whether a shutdown has begun.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled()
    }

    /// Waits for the release of all locks. At `deadline` the remaining guards are lost. Returns the locks that are still unreleased
    /// shortly after.
    pub(crate) async fn shut_down(&self, deadline: Instant) -> Vec<String> {
        {
            let mut end = self.end.lock();
            end.stage = end.stage.max(Stage::Ending);
            end.deadline = Some(end.deadline.map_or(deadline, |earlier| earlier.min(deadline)));
        }
        self.closing.cancel();
        loop {
            let mut reported = std::pin::pin!(self.reported.notified());
            // Registered before the check, to catch every end.
            reported.as_mut().enable();
            self.wake();
            if let Some(unreleased) = &self.end.lock().unreleased {
                return unreleased.clone();
            }
            reported.await;
        }
    }

    /// Ends the background after all releases. If the client `owes` a release, or outside a runtime, waits briefly for that end, because
    /// the process may exit, too.
    pub(crate) fn end(&self, owes: bool) {
        let mut end = self.end.lock();
        end.stage = end.stage.max(Stage::Ending);
        drop(end);
        self.wake();
        let may_block = match owes {
            true => self.has_thread() && std::thread::current().name() != Some(NAME),
            false => self.may_block(),
        };
        if may_block {
            let until = std::time::Instant::now() + FLUSH;
            let mut end = self.end.lock();
            while end.stage != Stage::Ended && !self.changed.wait_until(&mut end, until).timed_out() {}
        }
    }

    /// Returns whether the background keeps running while the caller's thread sleeps, and no executor needs that thread.
    pub(crate) fn may_block(&self) -> bool {
        self.has_thread() && tokio::runtime::Handle::try_current().is_err()
    }

    const fn has_thread(&self) -> bool {
        matches!(self.place, Place::Thread)
    }

    /// Reports the unreleased locks at the end of a shutdown.
    fn report(&self, unreleased: Vec<String>) {
        self.end.lock().unreleased = Some(unreleased);
        self.reported.notify_waiters();
    }

    /// Records the end of the background, and the locks that it could not release.
    fn ended(&self, unreleased: Vec<String>) {
        self.end.lock().stage = Stage::Ended;
        self.changed.notify_all();
        self.report(unreleased);
    }
}

/// Thread name of every background.
const NAME: &str = "leasehold-background";

/// Starts a thread with its own runtime, and runs `prepare` in the context of that runtime. The thread waits for a client, and runs the client's
/// background. Without a client it ends.
pub(crate) fn start<T>(prepare: impl FnOnce() -> T) -> io::Result<(T, oneshot::Sender<Arc<ClientInner>>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let prepared = {
        let _context = runtime.enter();
        prepare()
    };
    let (hand_over, client) = oneshot::channel::<Arc<ClientInner>>();
    let thread = std::thread::Builder::new().name(NAME.to_owned());
    thread.spawn(move || {
        runtime.block_on(async {
            if let Ok(inner) = client.await {
                run(inner).await;
            }
        });
        // Connection tasks end with their connections. A stuck task must not keep the process alive.
        runtime.shutdown_background();
    })?;
    Ok((prepared, hand_over))
}

/// The instant until which the background sleeps.
///
/// Callers often set timers and cancel them before they are due. A cancelled timer therefore leaves its alarm set: the background
/// wakes up once in vain, instead of once for each timer.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Instant>);

impl Alarm {
    /// Adds a timer that is due at `due`. Returns whether to wake the background, because it would sleep longer. One wake-up suffices:
    /// the background checks all timers before it sleeps again.
    #[must_use]
    pub(crate) fn bring_forward(&mut self, due: Option<Instant>) -> bool {
        let is_earlier = due.is_some_and(|due| self.0.is_none_or(|at| due < at));
        if is_earlier {
            self.0 = due;
        }
        is_earlier
    }

    /// Sets the alarm for the next timer, which is due at `due`. Returns the instant until which the background sleeps, or `None` if it sleeps
    /// until the next wake-up.
    pub(crate) fn set(&mut self, now: Instant, due: Option<Instant>) -> Option<Instant> {
        let armed = self.0.filter(|at| *at > now);
        self.0 = [armed, due].into_iter().flatten().min();
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    #[test]
    fn timers_that_are_set_and_taken_back_wake_once() {
        let mut alarm = Alarm::default();
        assert!(alarm.bring_forward(Some(at(50))));
        let woken = (1..50).filter(|millis| {
            // The background runs too late to see the timer.
            assert_eq!(alarm.set(at(*millis), None), Some(at(50)));
            alarm.bring_forward(Some(at(millis + 50)))
        });
        assert_eq!(woken.count(), 0);
        assert_eq!(alarm.set(at(50), None), None, "it has come");
        assert!(alarm.bring_forward(Some(at(100))));
    }

    #[test]
    fn background_never_sleeps_past_a_timer() {
        let mut alarm = Alarm::default();
        assert_eq!(alarm.set(at(1), Some(at(50))), Some(at(50)));
        assert!(alarm.bring_forward(Some(at(20))), "it sleeps for longer");
        assert!(!alarm.bring_forward(Some(at(20))), "it is woken already");
        assert!(alarm.bring_forward(Some(at(10))));
        assert_eq!(alarm.set(at(2), Some(at(10))), Some(at(10)));
        assert_eq!(alarm.set(at(3), Some(at(5))), Some(at(5)));
        assert_eq!(alarm.set(at(5), Some(at(5))), Some(at(5)), "what is due now is not put off");
        assert!(!alarm.bring_forward(None));
    }
}
