//! The clock of an embedded server.

mod machine_timer;
mod manual_clock;

pub use manual_clock::{ManualClock, Sleep};

use leasehold_core::time::Instant;
use machine_timer::MachineTimer;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The clock of an embedded server. The server's wall time is a fixed start plus this clock plus every
/// [`step_clock`](crate::EmbeddedServer::step_clock). Keys expire by the wall time, as on a real server.
#[derive(Clone)]
pub struct ServerClock {
    source: Source,
    /// Wall time at the clock's zero, in milliseconds since the epoch.
    base_millis: i64,
}

#[derive(Clone)]
enum Source {
    System(std::time::Instant, MachineTimer),
    Manual(ManualClock),
    /// tokio's clock since this instant, and the runtime that owns the timers.
    Tokio(tokio::time::Instant, Option<tokio::runtime::Handle>),
    Closure(Arc<dyn Fn() -> Instant + Send + Sync>, Option<Arc<Timer>>),
}

/// A kind of clock.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a client must know each")]
pub enum ClockSort {
    /// The machine's clock.
    System,
    /// A clock that tests advance.
    Manual(ManualClock),
    /// tokio's clock, starting at this instant.
    Tokio(tokio::time::Instant),
    /// A clock of [`ServerClock::from_fn`].
    Other,
}

/// A function that wakes a waker at an instant.
type Timer = dyn Fn(Instant, Waker) + Send + Sync;

/// The wall time at the zero of every clock except the machine's: a round number in January 2027.
const MADE_UP_BASE_MILLIS: i64 = 1_800_000_000_000;

impl ServerClock {
    /// The machine's monotonic clock. This function reads the wall time once, and ignores later corrections of the
    /// machine's clock.
    pub fn system() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            source: Source::System(std::time::Instant::now(), MachineTimer::default()),
            base_millis: i64::try_from(wall.as_millis()).unwrap_or(MADE_UP_BASE_MILLIS),
        }
    }

    /// A manual clock. Its zero is 1 800 000 000 000 ms of wall time.
    pub fn manual(clock: &ManualClock) -> Self {
        Self { source: Source::Manual(clock.clone()), base_millis: MADE_UP_BASE_MILLIS }
    }

    /// tokio's clock, which a test can pause, starting at `zero`. Uses the timers of the calling runtime. Without one,
    /// uses those of the runtime that uses the server.
    pub fn tokio(zero: tokio::time::Instant) -> Self {
        Self {
            source: Source::Tokio(zero, tokio::runtime::Handle::try_current().ok()),
            base_millis: MADE_UP_BASE_MILLIS,
        }
    }

    /// A custom clock, such as a simulation's. Its zero is 1 800 000 000 000 ms of wall time. `now` must not decrease,
    /// and must not call the server.
    pub fn from_fn(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self { source: Source::Closure(Arc::new(now), None), base_millis: MADE_UP_BASE_MILLIS }
    }

    /// Adds timers to a clock of [`ServerClock::from_fn`]. A server whose [replies take
    /// time](crate::EmbeddedServer::set_round_trip) needs them. `wake_at` wakes the waker once the clock reaches the
    /// instant. `wake_at` must not call the server, but the waker may. Other clocks keep their own timers.
    #[must_use]
    pub fn with_timer(mut self, wake_at: impl Fn(Instant, Waker) + Send + Sync + 'static) -> Self {
        if let Source::Closure(_, timer) = &mut self.source {
            *timer = Some(Arc::new(wake_at));
        }
        self
    }

    /// Returns the kind of clock, for a client that shares the clock.
    #[doc(hidden)]
    pub fn sort(&self) -> ClockSort {
        match &self.source {
            Source::System(..) => ClockSort::System,
            Source::Manual(clock) => ClockSort::Manual(clock.clone()),
            Source::Tokio(zero, _) => ClockSort::Tokio(*zero),
            Source::Closure(..) => ClockSort::Other,
        }
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> Instant {
        match &self.source {
            Source::System(start, _) => {
                Instant::from_nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX))
            }
            Source::Manual(clock) => clock.now(),
            Source::Tokio(zero, _) => Instant::from_nanos(u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            Source::Closure(now, _) => now(),
        }
    }

    /// Returns whether the clock has timers.
    pub(crate) fn has_timers(&self) -> bool {
        match &self.source {
            Source::System(_, timer) => timer.is_there(),
            Source::Manual(_) | Source::Tokio(..) => true,
            Source::Closure(_, timer) => timer.is_some(),
        }
    }

    /// Wakes once the clock reaches `instant`.
    pub(crate) fn wake_at(&self, instant: Instant, waker: Waker) {
        match &self.source {
            Source::System(start, timer) => timer.wake_at(*start + Duration::from_nanos(instant.as_nanos()), waker),
            Source::Manual(clock) => clock.wake_at(instant, waker),
            Source::Tokio(zero, runtime) => {
                // Without a runtime no task sleeps. The next use of the server delivers due events.
                let Some(runtime) = runtime.clone().or_else(|| tokio::runtime::Handle::try_current().ok()) else {
                    return;
                };
                let until = *zero + Duration::from_nanos(instant.as_nanos());
                drop(runtime.spawn(async move {
                    tokio::time::sleep_until(until).await;
                    waker.wake();
                }));
            }
            Source::Closure(_, Some(timer)) => timer(instant, waker),
            Source::Closure(_, None) => {}
        }
    }

    /// Returns the wall time in microseconds since the epoch.
    pub(crate) fn wall_micros(&self) -> i64 {
        self.base_millis * 1_000 + i64::try_from(self.now().as_nanos() / 1_000).unwrap_or_default()
    }
}

impl From<ManualClock> for ServerClock {
    fn from(clock: ManualClock) -> Self {
        Self::manual(&clock)
    }
}

impl fmt::Debug for ServerClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match &self.source {
            Source::System(..) => "system",
            Source::Manual(_) => "manual",
            Source::Tokio(..) => "tokio",
            Source::Closure(..) => "closure",
        };
        f.debug_struct("ServerClock").field("source", &source).finish_non_exhaustive()
    }
}
