//! The clock of a history: the one by which guards reckon their deadlines, the same for all processes of a machine.

use std::sync::LazyLock;
use std::time::Instant;

/// Nanoseconds since the machine was started, suspension included.
pub(crate) fn now() -> u64 {
    let time = rustix::time::clock_gettime(CLOCK);
    u64::try_from(time.tv_sec).unwrap_or_default() * SECOND + u64::try_from(time.tv_nsec).unwrap_or_default()
}

#[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android", target_os = "fuchsia")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// The moment of an instant, to a few microseconds.
///
/// The two clocks are read next to each other once. Reading both for each instant would add whatever pause comes between the two readings,
/// and a process that is stopped there would date a request before the operation that made it.
pub(crate) fn of(instant: Instant) -> u64 {
    let (known, at) = *PAIR;
    let since = |earlier, later: Instant| u64::try_from(later.duration_since(earlier).as_nanos()).unwrap_or(u64::MAX);
    if instant >= known { at + since(known, instant) } else { at.saturating_sub(since(instant, known)) }
}

/// One point in time on both clocks, from the closest of several pairs of readings.
static PAIR: LazyLock<(Instant, u64)> = LazyLock::new(|| {
    let read = || {
        let (before, instant, after) = (now(), Instant::now(), now());
        (after - before, (instant, before))
    };
    let closest = (0..100).map(|_| read()).min_by_key(|(apart, _)| *apart);
    closest.map_or_else(|| (Instant::now(), now()), |(_, pair)| pair)
});

/// A second, in these units.
pub(crate) const SECOND: u64 = 1_000_000_000;

/// A millisecond, in these units.
pub(crate) const MILLISECOND: u64 = 1_000_000;

/// Watches whether this process runs: calls `stalled` with the two instants between which it did not, because it was stopped or the
/// machine had no processor for it. It never returns.
pub(crate) fn watch_for_stalls(stalled: impl Fn(u64, u64)) -> ! {
    let mut last = now();
    loop {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let here = now();
        if here - last > SECOND / 4 {
            stalled(last, here);
        }
        last = here;
    }
}
