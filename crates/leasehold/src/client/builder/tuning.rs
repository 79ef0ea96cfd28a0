//! The rarely changed settings of a client.

use super::{ClientBuilder, PublishCommand};
use crate::link::LinkSettings;
use std::time::Duration;

/// Rarely changed settings of a client, for [`ClientBuilder::tuning`]. Unset values keep the client's setting.
///
/// # Examples
///
/// ```no_run
/// # use leasehold::{Client, Tuning};
/// # use std::time::Duration;
/// # async fn build() -> Result<(), leasehold::ConnectError> {
/// let tuning = Tuning::new().recheck(Duration::from_secs(5)).batch_calls(false);
/// let client = Client::builder().tuning(tuning).connect("redis://127.0.0.1:6379").await?;
/// # drop(client); Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "settings do nothing until they are passed to a builder"]
pub struct Tuning {
    recheck: Option<Duration>,
    batch_calls: Option<bool>,
    publish: Option<PublishCommand>,
    jvm_watchdog: Option<Duration>,
    server_side_expiry: Option<bool>,
}

impl Tuning {
    /// Creates a tuning without changes.
    pub const fn new() -> Self {
        Self { recheck: None, batch_calls: None, publish: None, jvm_watchdog: None, server_side_expiry: None }
    }

    /// Sets the longest pause of a waiter between attempts. A lost notice delays a waiter by up to this time. From 10 ms to a day. Default:
    /// 30 s.
    pub const fn recheck(mut self, interval: Duration) -> Self {
        self.recheck = Some(interval);
        self
    }

    /// Sets whether the client sends concurrent acquires and releases as one script. Default: `true`.
    ///
    /// A batch contains the calls that are ready when the connection writes, and at least four. No call waits for further calls. One batch blocks the
    /// server for at most about a third of a millisecond. The 99th percentile of a call among hundreds may therefore rise; use `false` if that latency
    /// matters more than throughput. On a cluster a batch contains calls of one hash slot only. Embedded engines have no batches.
    pub const fn batch_calls(mut self, batch: bool) -> Self {
        self.batch_calls = Some(batch);
        self
    }

    /// Sets the command that announces a release. Default: [`PublishCommand::Auto`]. Embedded engines have only one such command.
    pub const fn publish(mut self, command: PublishCommand) -> Self {
        self.publish = Some(command);
        self
    }

    /// Sets the shortest `lockWatchdogTimeout` of the JVMs that share read-write locks with this client. From 300 ms to a day. Default:
    /// 30 s, as in Redisson.
    ///
    /// A renewal by a Redisson reader *sets* the time to live of the whole lock to this value. This can cut a longer lease of another reader. Readers
    /// of this library restore it every third of this value, also for fixed leases.
    pub const fn jvm_watchdog(mut self, watchdog: Duration) -> Self {
        self.jvm_watchdog = Some(watchdog);
        self
    }

    /// Sets whether a first acquire contains an expiry by the server's clock, after which the server refuses it. Use it for servers that
    /// forbid `CLIENT KILL`. It costs a third of the script's time. Default: `false`.
    pub const fn server_side_expiry(mut self, carry: bool) -> Self {
        self.server_side_expiry = Some(carry);
        self
    }
}

impl ClientBuilder {
    /// Changes rarely needed settings. Settings that `tuning` does not set keep their values.
    pub fn tuning(mut self, tuning: Tuning) -> Self {
        let Tuning { recheck, batch_calls, publish, jvm_watchdog, server_side_expiry } = tuning;
        if let Some(interval) = recheck {
            self.settings.session.recheck = interval;
        }
        if let Some(batch) = batch_calls {
            self.link.batch_from = LinkSettings::default().batch_from.filter(|_| batch);
        }
        if let Some(command) = publish {
            self.link.publish = command;
        }
        if let Some(watchdog) = jvm_watchdog {
            self.settings.session.jvm_watchdog = watchdog;
        }
        if let Some(carry) = server_side_expiry {
            self.settings.session.not_after = carry;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_tuned_stays() {
        let recheck = Tuning::new().recheck(Duration::from_secs(1));
        let alone = Tuning::new().batch_calls(false);
        let builder = ClientBuilder::default().tuning(recheck).tuning(alone).tuning(Tuning::new());
        assert_eq!((builder.settings.session.recheck, builder.link.batch_from), (Duration::from_secs(1), None));
        let settings = ClientBuilder::default().tuning(Tuning::new()).settings;
        assert_eq!(settings.session.jvm_watchdog, Duration::from_secs(30));
    }
}
