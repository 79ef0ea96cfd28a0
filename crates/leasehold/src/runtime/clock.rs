//! The clock of a client, which also counts suspensions of the machine.

use crate::runtime::process::Process;
use leasehold_core::time::Instant;
use std::time::Duration;

#[cfg(feature = "embedded")]
use leasehold_embedded::ManualClock;

/// The clock of a client and its background.
#[derive(Clone, Debug)]
pub(crate) enum Clock {
    /// The machine's time since boot, including suspension (`CLOCK_BOOTTIME`), for the process that built the client.
    /// In a forked child nothing renews a lock, so every deadline has passed there.
    Machine(Process),
    /// A manual clock of a test.
    #[cfg(feature = "embedded")]
    Manual(ManualClock),
    /// tokio's clock, which a test may pause, starting at this instant.
    #[cfg(feature = "embedded")]
    Tokio(tokio::time::Instant),
}

/// The maximum sleep while a timer is set. Timers of the operating system stand still during a suspension, and would fire late after it.
const LOOK: Duration = Duration::from_secs(1);

impl Clock {
    /// Returns the machine's clock for this process.
    pub(crate) fn of_machine() -> Self {
        Self::Machine(Process::current())
    }

    /// Returns the current time, or the end of time in a forked child.
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Machine(process) if !process.is_current() => Instant::FAR_FUTURE,
            _ => self.now_in_process(),
        }
    }

    /// Returns the current time, for a caller that has checked the process.
    pub(crate) fn now_in_process(&self) -> Instant {
        match self {
            Self::Machine(_) => boot_time(),
            #[cfg(feature = "embedded")]
            Self::Manual(clock) => clock.now(),
            #[cfg(feature = "embedded")]
            Self::Tokio(zero) => Instant::from_nanos(u64::try_from(zero.elapsed().as_nanos()).unwrap_or(u64::MAX)),
        }
    }

    /// Returns the only process that can use the client, if the background is a thread.
    pub(crate) const fn process(&self) -> Option<&Process> {
        match self {
            Self::Machine(process) => Some(process),
            #[cfg(feature = "embedded")]
            Self::Manual(_) | Self::Tokio(_) => None,
        }
    }

    /// Sleeps at most until `instant`. Without an instant, never completes.
    pub(crate) async fn sleep_until(&self, instant: Option<Instant>) {
        let Some(instant) = instant else { return std::future::pending().await };
        match self {
            // tokio rounds up to whole milliseconds: treat an instant within the rounding as due.
            Self::Machine(_) => tokio::time::sleep(instant.since(boot_time()).min(LOOK)).await,
            #[cfg(feature = "embedded")]
            Self::Manual(clock) => clock.sleep_until(instant).await,
            #[cfg(feature = "embedded")]
            Self::Tokio(zero) => tokio::time::sleep_until(*zero + Duration::from_nanos(instant.as_nanos())).await,
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
fn boot_time() -> Instant {
    since_zero(rustix::time::clock_gettime(rustix::time::ClockId::Boottime))
}

/// The monotonic clock is the best alternative. On macOS and the BSDs it counts all or most of a suspension.
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia")))]
fn boot_time() -> Instant {
    since_zero(rustix::time::clock_gettime(rustix::time::ClockId::Monotonic))
}

fn since_zero(time: rustix::time::Timespec) -> Instant {
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machines_clock_goes_forward() {
        let before = Clock::of_machine().now();
        let after = Clock::of_machine().now();
        assert!(before <= after && before > Instant::from_nanos(0));
    }

    #[tokio::test(start_paused = true)]
    async fn sleep_without_an_end_never_ends() {
        let slept = tokio::time::timeout(LOOK * 3_600, Clock::of_machine().sleep_until(None)).await;
        assert!(slept.is_err(), "an idle background wakes up");
    }
}
