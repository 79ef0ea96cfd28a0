//! The least time for which a hold keeps its lock busy: its guards may go before, and then the server keeps the lock until the time is over.

use crate::error::{HoldEnd, LossReason};
use crate::session::hold::Hold;
use crate::time::Instant;
use std::time::Duration;

impl Hold {
    /// The lock stays busy until then, if it is released and not lost. An earlier instant than one that was set before changes nothing.
    pub(crate) fn keep_busy(&mut self, until: Instant) {
        let busy_until = &mut self.extras.get_or_insert_default().busy_until;
        *busy_until = (*busy_until).max(Some(until));
    }

    /// Whether a release at this instant would leave the lock busy. Such a hold goes to no other task of the client.
    pub(crate) fn keeps_busy(&self, now: Instant) -> bool {
        self.busy_until().is_some_and(|until| until > now)
    }

    fn busy_until(&self) -> Option<Instant> {
        self.extras.as_ref()?.busy_until
    }

    /// For how long the lock is to stay busy once its last guard has gone; zero where it is to be free. Others may have a lock that was lost.
    pub(crate) fn left_of_least_time(&self, now: Instant) -> Duration {
        let is_released = matches!(self.end(), Some(HoldEnd::Released | HoldEnd::Lost(LossReason::ShutDown)));
        self.busy_until().filter(|_| is_released && !self.has_guards()).map_or(Duration::ZERO, |until| until.since(now))
    }
}
