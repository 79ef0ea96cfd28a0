//! The settings of a client and their validation.

use crate::client::ids::HolderId;
use crate::error::InvalidInput;
use crate::telemetry::SpanLevel;
use bytes::Bytes;
use leasehold_core::call::Replicas;
use leasehold_core::link::ServerInfo;
use leasehold_core::settings::{HandOver, RENEWALS_BY_SLOT};
use std::time::Duration;

/// The shortest lease. A shorter lease leaves no time for work after the margin, the renewal and a round trip.
pub const MIN_LEASE: Duration = Duration::from_millis(50);

/// The longest lease: a year, far below the limit of `PEXPIRE`.
pub const MAX_LEASE: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A suitable default for [`Lock::linger`](crate::Lock::linger): 50 ms. A waiting JVM hardly notices the delay.
pub const DEFAULT_LINGER: Duration = Duration::from_millis(50);

/// The lease of holds without a lease, such as the permits of a bare semaphore: ten years.
pub(crate) const NO_LEASE: Duration = Duration::from_secs(3_650 * 24 * 60 * 60);

/// The maximum number of replicas to wait for, more than any primary has.
const MAX_REPLICAS: u32 = 1_000;

/// The settings of a client. [`ClientBuilder`](crate::ClientBuilder) documents each field.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The settings of the session, before the server is known.
    pub(crate) session: leasehold_core::settings::Settings,
    pub(crate) prefix: String,
    pub(crate) default_wait: Option<Duration>,
    pub(crate) require_noeviction: bool,
    pub(crate) fsync: bool,
    pub(crate) announce: Option<String>,
    pub(crate) within: Vec<HolderId>,
    pub(crate) note: String,
    pub(crate) fallback: leasehold_core::session::Fallback,
    pub(crate) span_level: SpanLevel,
    pub(crate) span_lock_names: bool,
}

impl Default for Settings {
    fn default() -> Self {
        let hand_over = Some(HandOver::WITHOUT_LISTENERS);
        Self {
            session: leasehold_core::settings::Settings { hand_over, ..Default::default() },
            prefix: String::new(),
            default_wait: None,
            require_noeviction: false,
            fsync: false,
            announce: None,
            within: Vec::new(),
            note: String::new(),
            fallback: leasehold_core::session::Fallback::Fail,
            span_level: SpanLevel::Debug,
            span_lock_names: true,
        }
    }
}

impl Settings {
    /// Validates the settings.
    pub(crate) fn check(&self) -> Result<(), InvalidInput> {
        let [millisecond, shortest, second] = [1, 10, 1_000].map(Duration::from_millis);
        let (minute, hour, day) = (second * 60, second * 3_600, second * 86_400);
        let (session, fair) = (&self.session, &self.session.fair);
        check_lease(session.lease)?;
        within("re-check interval", session.recheck, shortest, day)?;
        within("time after which a server counts as unreachable", session.unreachable_after, millisecond, day)?;
        within("command timeout", session.command_timeout, shortest, minute)?;
        within("watchdog time of the JVMs", session.jvm_watchdog, Duration::from_millis(300), day)?;
        if let Some(wait) = self.default_wait {
            within("default wait", wait, millisecond, Duration::MAX)?;
        }
        within("liveness timeout of fair locks", fair.liveness_timeout, Duration::from_millis(200), hour)?;
        within("heartbeat interval of fair locks", fair.heartbeat_interval, shortest, fair.liveness_timeout / 4)?;
        within("offer timeout of fair locks", fair.offer_timeout, Duration::from_millis(100), hour)?;
        within("longest wait of a JVM for a fair lock", fair.max_wait, second, day)?;
        within("difference between the clocks of JVMs and the server", fair.clock_skew, Duration::ZERO, hour)?;
        if self.prefix.len() >= leasehold_core::name::MAX_NAME_BYTES {
            return Err(leasehold_core::name::NameError::TooLong { bytes: self.prefix.len() }.into());
        }
        leasehold_core::name::check_ends(&self.prefix)?;
        Ok(())
    }

    /// Returns the settings of a session with this server.
    pub(crate) fn for_session(&self, server: &ServerInfo) -> leasehold_core::settings::Settings {
        let mut settings = self.session.clone();
        settings.cluster = server.cluster;
        settings.publish = publish(server);
        if server.cluster {
            settings.renewals_in_flight = RENEWALS_BY_SLOT;
        }
        settings
    }
}

/// Returns the command that announces releases on a server. `PUBLISH` is harmless until the server is known.
pub(crate) const fn publish(server: &ServerInfo) -> Bytes {
    Bytes::from_static(if server.sharded_notices { b"SPUBLISH" } else { b"PUBLISH" })
}

pub(crate) fn check_lease(lease: Duration) -> Result<(), InvalidInput> {
    within("lease", lease, MIN_LEASE, MAX_LEASE)
}

pub(crate) fn check_permits(permits: u32) -> Result<(), InvalidInput> {
    if permits == 0 { Err(InvalidInput::NoPermits) } else { check_number("number of permits", permits, 1) }
}

/// Validates the value of a counter, which JVMs read as a signed 32-bit number.
pub(crate) fn check_number(what: &'static str, number: u32, least: u32) -> Result<(), InvalidInput> {
    let most = i32::MAX.unsigned_abs();
    if (least..=most).contains(&number) {
        return Ok(());
    }
    Err(InvalidInput::Number { what, given: number.into(), least: least.into(), most: most.into() })
}

/// Validates replicas and their timeout, which must leave time to retry a renewal. Returns the required acknowledgements:
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
        let refused = |change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().expect_err("it must be refused").to_string()
        };
        assert!(refused(&|settings| settings.session.lease = Duration::ZERO).contains("lease"));
        assert!(refused(&|settings| settings.session.lease = Duration::MAX).contains("lease"));
        assert!(refused(&|settings| settings.session.recheck = Duration::ZERO).contains("re-check"));
        assert!(refused(&|settings| settings.session.command_timeout = Duration::ZERO).contains("command"));
        assert!(refused(&|settings| settings.default_wait = Some(Duration::ZERO)).contains("wait"));
        let of_fair = |change: &dyn Fn(&mut FairSettings)| refused(&|settings| change(&mut settings.session.fair));
        assert!(of_fair(&|fair| fair.liveness_timeout = Duration::ZERO).contains("liveness"));
        assert!(of_fair(&|fair| fair.heartbeat_interval = fair.liveness_timeout / 3).contains("heartbeat"));
        assert!(of_fair(&|fair| fair.heartbeat_interval = Duration::ZERO).contains("heartbeat"));
        assert!(of_fair(&|fair| fair.offer_timeout = Duration::MAX).contains("offer"));
        assert!(of_fair(&|fair| fair.max_wait = Duration::ZERO).contains("JVM"));
        assert!(of_fair(&|fair| fair.clock_skew = Duration::MAX).contains("clocks"));
    }
}
