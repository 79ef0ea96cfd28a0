//! The settings of a client and their validation.

use crate::client::ids::HolderId;
use crate::error::InvalidInput;
use crate::telemetry::Spans;
use bytes::Bytes;
use leasehold_core::call::Replicas;
use leasehold_core::link::ServerInfo;
use leasehold_core::settings::HandOver;
use std::time::Duration;

/// The shortest lease. A shorter lease leaves no time for work beside the margin, the renewal and a round trip.
pub const MIN_LEASE: Duration = Duration::from_millis(50);

/// The longest lease: a year, far below the limit of `PEXPIRE`.
pub const MAX_LEASE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A suitable default for [`Lock::linger`](crate::Lock::linger): 50 ms. A JVM that waits for the lock hardly notices it.
pub const DEFAULT_LINGER: Duration = Duration::from_millis(50);

/// The lease of holds without a lease, such as the permits of a bare semaphore: ten years.
pub(crate) const NO_LEASE: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// The maximum number of replicas to wait for, which no primary has.
const MAX_REPLICAS: u32 = 1_000;

/// The settings of a client. [`ClientBuilder`](crate::ClientBuilder) documents each field.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) prefix: String,
    pub(crate) lease: Duration,
    pub(crate) default_wait: Option<Duration>,
    pub(crate) recheck: Duration,
    pub(crate) unreachable_after: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) connect_deadline: Duration,
    pub(crate) require_noeviction: bool,
    pub(crate) fsync: bool,
    pub(crate) not_after: bool,
    pub(crate) announce: Option<String>,
    pub(crate) within: Vec<HolderId>,
    /// The note of the record.
    pub(crate) note: String,
    pub(crate) fair: leasehold_core::settings::FairSettings,
    pub(crate) fallback: leasehold_core::session::Fallback,
    pub(crate) jvm_watchdog: Duration,
    /// `None`: only while no other client listens.
    pub(crate) hand_over: Option<bool>,
    pub(crate) spans: Spans,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            prefix: String::new(),
            lease: Duration::from_secs(30),
            default_wait: None,
            recheck: Duration::from_secs(30),
            unreachable_after: Duration::from_secs(10),
            command_timeout: Duration::from_secs(1),
            connect_deadline: Duration::from_secs(10),
            require_noeviction: false,
            fsync: false,
            not_after: false,
            announce: None,
            within: Vec::new(),
            note: String::new(),
            fair: leasehold_core::settings::FairSettings::default(),
            fallback: leasehold_core::session::Fallback::Fail,
            jvm_watchdog: Duration::from_secs(30),
            hand_over: None,
            spans: Spans::default(),
        }
    }
}

impl Settings {
    /// Validates the settings.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let day = Duration::from_secs(24 * 60 * 60);
        let short = Duration::from_millis(1);
        check_lease(self.lease)?;
        within("re-check interval", self.recheck, Duration::from_millis(10), day)?;
        within("time after which a server counts as unreachable", self.unreachable_after, short, day)?;
        within("command timeout", self.command_timeout, Duration::from_millis(10), Duration::from_secs(60))?;
        within("connect deadline", self.connect_deadline, Duration::from_millis(10), day)?;
        within("watchdog time of the JVMs", self.jvm_watchdog, Duration::from_millis(300), day)?;
        if let Some(wait) = self.default_wait {
            within("default wait", wait, short, Duration::MAX)?;
        }
        let (hour, fair) = (Duration::from_secs(60 * 60), &self.fair);
        within("liveness timeout of fair locks", fair.liveness_timeout, Duration::from_millis(200), hour)?;
        within(
            "heartbeat interval of fair locks",
            fair.heartbeat_interval,
            Duration::from_millis(10),
            fair.liveness_timeout / 4,
        )?;
        within("offer timeout of fair locks", fair.offer_timeout, Duration::from_millis(100), hour)?;
        within("longest wait of a JVM for a fair lock", fair.max_wait, Duration::from_secs(1), day)?;
        within("difference between the clocks of JVMs and the server", fair.clock_skew, Duration::ZERO, hour)?;
        if self.prefix.len() >= leasehold_core::name::MAX_NAME_BYTES {
            return Err(leasehold_core::name::NameError::TooLong { bytes: self.prefix.len() }.into());
        }
        leasehold_core::name::check_ends(&self.prefix)?;
        Ok(())
    }

    pub(crate) fn for_session(&self, server: &ServerInfo) -> leasehold_core::settings::Settings {
        leasehold_core::settings::Settings {
            lease: self.lease,
            recheck: self.recheck,
            turn: Duration::from_millis(50),
            command_timeout: self.command_timeout,
            unreachable_after: self.unreachable_after,
            not_after: self.not_after,
            renew_batch: 100,
            renewals_in_flight: if server.cluster { leasehold_core::settings::RENEWALS_BY_SLOT } else { 4 },
            cluster: server.cluster,
            fair: self.fair,
            jvm_watchdog: self.jvm_watchdog,
            hand_over: self
                .hand_over
                .map_or(Some(HandOver::WITHOUT_LISTENERS), |always| always.then(HandOver::default)),
            publish: publish(server),
        }
    }
}

/// Returns the command that announces releases on a server. `PUBLISH` is harmless until the server is known.
pub(crate) const fn publish(server: &ServerInfo) -> Bytes {
    Bytes::from_static(if server.sharded_notices { b"SPUBLISH" } else { b"PUBLISH" })
}

pub(crate) fn check_lease(lease: Duration) -> Result<(), InvalidInput> {
    within("lease", lease, MIN_LEASE, MAX_LEASE)
}

/// Validates a number of permits. A JVM counts permits in signed 32 bits.
pub(crate) fn check_permits(permits: u32) -> Result<(), InvalidInput> {
    if permits == 0 { Err(InvalidInput::NoPermits) } else { check_number("number of permits", permits, 1) }
}

/// Validates the value of a counter that a JVM may share.
pub(crate) fn check_number(what: &'static str, number: u32, least: u32) -> Result<(), InvalidInput> {
    let most = i32::MAX.unsigned_abs();
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(InvalidInput::Number { what, given: number.into(), least: least.into(), most: most.into() })
}

/// Validates replicas, and a time for them that leaves a renewal a second attempt. Returns the required acknowledgements:
/// with `fsync`, the primary acknowledges, too.
pub(crate) fn acknowledgements(replicas: Replicas, lease: Duration, fsync: bool) -> Result<Replicas, InvalidInput> {
    let Replicas { at_least, within: time } = replicas;
    let least = u32::from(!fsync);
    if !(least..=MAX_REPLICAS).contains(&at_least) {
        let (given, least, most) = (i64::from(at_least), i64::from(least), i64::from(MAX_REPLICAS));
        return Err(InvalidInput::Number { what: "number of replicas", given, least, most });
    }
    within("time for replicas", time, Duration::from_millis(1), lease / 4)?;
    Ok(Replicas { at_least: at_least + u32::from(fsync), within: time })
}

pub(crate) fn within(what: &'static str, given: Duration, least: Duration, most: Duration) -> Result<(), InvalidInput> {
    if (least..=most).contains(&given) { Ok(()) } else { Err(InvalidInput::Duration { what, given, least, most }) }
}

/// Truncates a time to milliseconds, the unit of leases on the server.
pub(crate) fn whole_millis(time: Duration) -> Duration {
    Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::settings::FairSettings;

    #[test]
    fn the_defaults_are_sound() {
        assert_eq!(Settings::default().check(), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused_by_name() {
        let refused = |settings: Settings| settings.check().expect_err("it must be refused").to_string();
        assert!(refused(Settings { lease: Duration::ZERO, ..Settings::default() }).contains("lease"));
        assert!(refused(Settings { lease: Duration::MAX, ..Settings::default() }).contains("lease"));
        assert!(refused(Settings { recheck: Duration::ZERO, ..Settings::default() }).contains("re-check"));
        assert!(refused(Settings { default_wait: Some(Duration::ZERO), ..Settings::default() }).contains("wait"));
        let fair = Settings::default().fair;
        let of_fair = |fair| refused(Settings { fair, ..Settings::default() });
        assert!(of_fair(FairSettings { liveness_timeout: Duration::ZERO, ..fair }).contains("liveness"));
        assert!(of_fair(FairSettings { heartbeat_interval: fair.liveness_timeout / 3, ..fair }).contains("heartbeat"));
        assert!(of_fair(FairSettings { heartbeat_interval: Duration::ZERO, ..fair }).contains("heartbeat"));
        assert!(of_fair(FairSettings { offer_timeout: Duration::MAX, ..fair }).contains("offer"));
        assert!(of_fair(FairSettings { max_wait: Duration::ZERO, ..fair }).contains("JVM"));
        assert!(of_fair(FairSettings { clock_skew: Duration::MAX, ..fair }).contains("clocks"));
        assert!(refused(Settings { command_timeout: Duration::ZERO, ..Settings::default() }).contains("command"));
    }
}
