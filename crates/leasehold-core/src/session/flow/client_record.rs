//! The writing and the removal of the client's record of itself.

use crate::command::record;
use crate::link::LinkError;
use crate::reply::Reply;
use crate::session::parts::Parts;
use crate::session::pending::Purpose;
use crate::time::Instant;
use std::time::Duration;

impl Parts {
    /// See [`Session::announce`](crate::session::Session::announce).
    pub(crate) fn announce(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.record.keep(now, record, lifetime);
    }

    /// See [`Session::retract`](crate::session::Session::retract).
    pub(crate) fn retract(&mut self) {
        if self.record.give_up() {
            self.call_by_background(record::remove(&self.client));
        }
    }

    /// Writes the record if it is time to.
    pub(super) fn record_is_due(&mut self, now: Instant) {
        if let Some(call) = self.record.write(now, &self.client) {
            let id = self.call_by_background(call);
            self.pending.insert(id, Purpose::Record);
        }
    }

    /// Takes the answer to a writing of the record.
    pub(super) fn handle_recorded(&mut self, now: Instant, result: &Result<Reply, LinkError>) {
        self.record.written(now, result.as_ref().is_ok_and(|reply| record::put_done(reply).is_ok()));
    }
}
