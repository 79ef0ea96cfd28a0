//! The timeouts of the queues of fair locks.

use leasehold_core::settings::FairSettings as Wire;
use std::time::Duration;

/// The timeouts of the queues of fair locks, for [`ClientBuilder::fair`](crate::ClientBuilder::fair).
///
/// **All clients that share a fair lock need the same values.** A client with different values declares waiters dead too early or too late. The
/// builder validates the values; their order does not matter.
///
/// # Examples
///
/// ```
/// use leasehold::{Client, FairSettings};
/// use std::time::Duration;
///
/// let fair = FairSettings::new()
///     .liveness_timeout(Duration::from_secs(4))
///     .redisson(Duration::from_secs(60), Duration::from_millis(500));
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let client = Client::builder().fair(fair).embedded(&leasehold::embedded::EmbeddedServer::new())?;
/// # drop(client); Ok::<(), leasehold::ConnectError>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are passed to a builder"]
pub struct FairSettings {
    /// All values except the heartbeat.
    times: Wire,
    heartbeat_interval: Option<Duration>,
}

impl FairSettings {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long a process may be silent before its waiters lose their queue positions. From 200 ms to an hour. Default: 2 s.
    pub const fn liveness_timeout(mut self, timeout: Duration) -> Self {
        self.times.liveness_timeout = timeout;
        self
    }

    /// Sets the interval of the heartbeat that a waiting process sends for each lock. At least 10 ms, at most a quarter of the
    /// [liveness timeout](Self::liveness_timeout). Default: a quarter of it.
    pub const fn heartbeat_interval(mut self, interval: Duration) -> Self {
        self.heartbeat_interval = Some(interval);
        self
    }

    /// Sets how long the server offers a free lock to the next waiter, if its process is alive but does not acquire it. From 100 ms to an hour.
    /// Default: 2 s.
    pub const fn offer_timeout(mut self, timeout: Duration) -> Self {
        self.times.offer_timeout = timeout;
        self
    }

    /// Sets the longest wait of the JVMs in the same queues (`fairLockWaitTimeout` or the longest `tryLock`), and the largest difference of
    /// their clocks from the server's. A JVM that waits longer is dropped from the queue. Default: 300 s and 1 s.
    pub const fn redisson(mut self, max_wait: Duration, clock_skew: Duration) -> Self {
        self.times.max_wait = max_wait;
        self.times.clock_skew = clock_skew;
        self
    }

    /// Converts the values into arguments of the scripts.
    pub(crate) fn to_wire(self) -> Wire {
        Wire { heartbeat_interval: self.heartbeat_interval.unwrap_or(self.times.liveness_timeout / 4), ..self.times }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_core() {
        assert_eq!(FairSettings::default().to_wire(), Wire::default());
    }

    #[test]
    fn the_order_of_settings_does_not_matter() {
        let [timeout, interval] = [4_000, 300].map(Duration::from_millis);
        let one = FairSettings::new().liveness_timeout(timeout).heartbeat_interval(interval);
        assert_eq!(one, FairSettings::new().heartbeat_interval(interval).liveness_timeout(timeout));
        assert_eq!((one.to_wire().liveness_timeout, one.to_wire().heartbeat_interval), (timeout, interval));
    }
}
