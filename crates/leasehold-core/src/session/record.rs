//! The client's record of itself: written at the beginning, written again before it ends, and removed at the end.

use super::Session;
use super::pending::Purpose;
use crate::command::record::{self, ClientRecord};
use crate::link::LinkError;
use crate::reply::Reply;
use crate::time::Instant;
use std::time::Duration;

/// A record that is kept on the server.
#[derive(Debug)]
pub(super) struct Announced {
    record: ClientRecord,
    lifetime: Duration,
    /// When it is written next; `None` while it is being written.
    pub(super) next: Option<Instant>,
}

/// How soon a record is written again that could not be written.
const AGAIN: Duration = Duration::from_secs(1);

impl Session {
    /// Keeps a record of this client on the server, which goes away `lifetime` after the client does.
    pub fn announce(&mut self, now: Instant, record: ClientRecord, lifetime: Duration) {
        self.announced = Some(Announced { record, lifetime, next: Some(now) });
    }

    /// Removes the client's record, if there is one. A record that cannot be removed goes away by itself.
    pub fn retract(&mut self) {
        if self.announced.take().is_some() {
            self.call_by_lifeline(record::remove(&self.client));
        }
    }

    /// Writes the record where it is time to.
    pub(super) fn record_is_due(&mut self, now: Instant) {
        let Some(announced) = self.announced.as_ref().filter(|kept| kept.next.is_some_and(|next| next <= now)) else {
            return;
        };
        let call = record::put(&self.client, &announced.record, announced.lifetime);
        let id = self.call_by_lifeline(call);
        if let Some(announced) = &mut self.announced {
            announced.next = None;
        }
        self.pending.insert(id, Purpose::Record);
    }

    /// Takes the answer to a writing of the record. A record that was replaced meanwhile is about to be written.
    pub(super) fn handle_recorded(&mut self, now: Instant, result: &Result<Reply, LinkError>) {
        let Some(announced) = self.announced.as_mut().filter(|kept| kept.next.is_none()) else { return };
        let written = result.as_ref().is_ok_and(|reply| record::put_done(reply).is_ok());
        announced.next = Some(now + if written { announced.lifetime / 3 } else { AGAIN });
    }
}
