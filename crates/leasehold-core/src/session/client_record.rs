//! The client's record of itself: written at the beginning, written again before it ends, and removed at the end.

use crate::call::Call;
use crate::command::record;
use crate::owner::ClientId;
use crate::time::Instant;
use std::time::Duration;

/// How soon a record is written again that could not be written.
const AGAIN: Duration = Duration::from_secs(1);

/// The record of a client, if it keeps one.
#[derive(Debug, Default)]
pub(super) struct ClientRecord(Option<Kept>);

/// A record that is kept on the server.
#[derive(Debug)]
struct Kept {
    record: record::ClientRecord,
    lifetime: Duration,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is written at this instant.
    Due(Instant),
    /// It is being written.
    Writing,
}

impl ClientRecord {
    /// When the record is to be written next.
    pub(super) fn next(&self) -> Option<Instant> {
        match self.0.as_ref()?.state {
            State::Due(at) => Some(at),
            State::Writing => None,
        }
    }

    /// Keeps this record from now on.
    pub(super) fn keep(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        self.0 = Some(Kept { record, lifetime, state: State::Due(now) });
    }

    /// Keeps no record any more. Says whether there was one.
    pub(super) fn give_up(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The call that writes the record, if it is time to.
    pub(super) fn write(&mut self, now: Instant, client: &ClientId) -> Option<Call> {
        let kept = self.0.as_mut().filter(|kept| matches!(kept.state, State::Due(at) if at <= now))?;
        kept.state = State::Writing;
        Some(record::put(client, &kept.record, kept.lifetime))
    }

    /// Takes the answer to a writing of the record. A record that was replaced meanwhile is about to be written.
    pub(super) fn written(&mut self, now: Instant, was_written: bool) {
        if let Some(kept) = self.0.as_mut().filter(|kept| kept.state == State::Writing) {
            kept.state = State::Due(now + if was_written { kept.lifetime / 3 } else { AGAIN });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LIFETIME: Duration = Duration::from_secs(60);

    fn kept() -> (ClientRecord, ClientId) {
        let (host, application) = ("host".to_owned(), "orders".to_owned());
        let mut record = ClientRecord::default();
        record.keep(NOW, record::ClientRecord { host, pid: 7, application, since: 0 }, LIFETIME);
        (record, ClientId::new(uuid::Uuid::nil()))
    }

    #[test]
    fn a_record_is_written_at_once_and_again_at_a_third_of_its_life() {
        let (mut record, client) = kept();
        assert_eq!(record.next(), Some(NOW));
        assert!(record.write(NOW, &client).is_some());
        assert!(record.write(NOW + LIFETIME, &client).is_none(), "it is being written");
        assert_eq!(record.next(), None);
        record.written(NOW, true);
        assert_eq!(record.next(), Some(NOW + LIFETIME / 3));
        assert!(record.write(NOW + LIFETIME / 4, &client).is_none(), "it is not time yet");
    }

    #[test]
    fn a_record_that_could_not_be_written_is_written_again_soon() {
        let (mut record, client) = kept();
        assert!(record.write(NOW, &client).is_some());
        record.written(NOW, false);
        assert_eq!(record.next(), Some(NOW + AGAIN));
    }

    #[test]
    fn late_answer_of_an_earlier_record_delays_nothing() {
        let (mut record, client) = kept();
        assert!(record.write(NOW, &client).is_some());
        assert!(record.give_up() && !record.give_up());
        let (host, application) = ("host".to_owned(), "other".to_owned());
        record.keep(NOW, record::ClientRecord { host, pid: 7, application, since: 0 }, LIFETIME);
        record.written(NOW, true);
        assert_eq!(record.next(), Some(NOW));
    }
}
