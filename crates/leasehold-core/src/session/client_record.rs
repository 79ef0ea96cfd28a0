//! The client's record of itself: written at the beginning, written again before it ends, and removed at the end.
//!
//! It also says which locks the client holds and waits for, as far as that has lasted for a while. So it is written again when that has
//! changed, for which the client looks once in a while, and not at each acquire.

use crate::call::Call;
use crate::command::record;
use crate::command::record::uses::LockUse;
use crate::owner::ClientId;
use crate::time::Instant;
use std::time::Duration;

/// How soon a record is written again that could not be written.
const AGAIN: Duration = Duration::from_secs(1);

/// How long lies between two looks at what the client holds and waits for, so that the record is written no more often.
const LOOK: Duration = Duration::from_secs(1);

/// The record of a client, if it keeps one.
#[derive(Debug, Default)]
pub(super) struct ClientRecord(Option<Kept>);

/// A record that is kept on the server.
#[derive(Debug)]
struct Kept {
    record: record::ClientRecord,
    lifetime: Duration,
    /// The time of the first record.
    since: Instant,
    state: State,
    /// The locks that the server was told of last.
    told: Vec<LockUse>,
    /// When the client looks again whether they are others.
    look_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is written at this instant.
    Due(Instant),
    /// It is being written.
    Writing,
}

impl ClientRecord {
    /// When the record is to be written next, or to be looked at. A client that `is_idle` holds nothing and waits for nothing.
    pub(super) fn next(&self, is_idle: bool) -> Option<Instant> {
        let kept = self.0.as_ref()?;
        match kept.state {
            State::Due(at) if is_idle && kept.told.is_empty() => Some(at),
            State::Due(at) => Some(at.min(kept.look_at)),
            State::Writing => None,
        }
    }

    /// Whether it is to be written now, or to be looked at whether what it says has changed.
    pub(super) fn is_due(&self, now: Instant, is_idle: bool) -> bool {
        self.next(is_idle).is_some_and(|at| at <= now)
    }

    /// Keeps this record from now on.
    pub(super) fn keep(&mut self, now: Instant, record: record::ClientRecord, lifetime: Duration) {
        let (since, state, look_at) = (now, State::Due(now), now + LOOK);
        self.0 = Some(Kept { record, lifetime, since, state, told: Vec::new(), look_at });
    }

    /// Keeps no record any more. Says whether there was one.
    pub(super) fn give_up(&mut self) -> bool {
        self.0.take().is_some()
    }

    /// The call that writes the record with these locks, if it is time to, or if they are others than those that the server was told of.
    pub(super) fn write(&mut self, now: Instant, client: &ClientId, uses: Vec<LockUse>) -> Option<Call> {
        let kept = self.0.as_mut()?;
        let State::Due(at) = kept.state else { return None };
        if kept.look_at <= now {
            kept.look_at = now + LOOK;
        }
        let is_told = uses.len() == kept.told.len() && uses.iter().zip(&kept.told).all(|(now, told)| now.is_same(told));
        if at > now && is_told {
            return None;
        }
        kept.state = State::Writing;
        kept.told = uses;
        Some(record::put(client, &kept.record, now.since(kept.since), &kept.told, kept.lifetime))
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
    use crate::command::Kind;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LIFETIME: Duration = Duration::from_secs(60);

    fn kept() -> (ClientRecord, ClientId) {
        let (host, application) = ("host".to_owned(), "orders".to_owned());
        let mut record = ClientRecord::default();
        record.keep(NOW, record::ClientRecord { host, pid: 7, application, since: 0, within: Vec::new() }, LIFETIME);
        (record, ClientId::new(uuid::Uuid::nil()))
    }

    fn holds(key: &str) -> Vec<LockUse> {
        let hold = Some("a:1".to_owned());
        vec![LockUse { key: key.to_owned(), kind: Kind::Lock, hold, owners: Vec::new(), lasted: LOOK, lease: None }]
    }

    #[test]
    fn a_record_is_written_at_once_and_again_at_a_third_of_its_life() {
        let (mut record, client) = kept();
        assert_eq!(record.next(true), Some(NOW));
        assert!(record.write(NOW, &client, Vec::new()).is_some());
        assert!(record.write(NOW + LIFETIME, &client, Vec::new()).is_none(), "it is being written");
        assert_eq!(record.next(true), None);
        record.written(NOW, true);
        assert_eq!(record.next(true), Some(NOW + LIFETIME / 3));
        assert!(record.write(NOW + LIFETIME / 4, &client, Vec::new()).is_none(), "it is not time yet");
    }

    #[test]
    fn a_record_that_could_not_be_written_is_written_again_soon() {
        let (mut record, client) = kept();
        assert!(record.write(NOW, &client, Vec::new()).is_some());
        record.written(NOW, false);
        assert_eq!(record.next(true), Some(NOW + AGAIN));
    }

    #[test]
    fn a_record_is_written_again_when_its_locks_are_others() {
        let (mut record, client) = kept();
        assert!(record.write(NOW, &client, Vec::new()).is_some());
        record.written(NOW, true);
        assert_eq!(record.next(true), Some(NOW + LIFETIME / 3), "an idle client does not look");
        assert_eq!(record.next(false), Some(NOW + LOOK));
        let mut now = NOW + LOOK;
        assert!(record.write(now, &client, holds("stock")).is_some());
        assert_eq!(record.next(false), None);
        record.written(now, true);
        assert_eq!(record.next(false), Some(now + LOOK));
        now = now + LOOK;
        assert!(record.write(now, &client, holds("stock")).is_none(), "they have only lasted longer");
        assert_eq!(record.next(false), Some(now + LOOK), "and are looked at no more often for that");
        now = now + LOOK;
        assert!(record.write(now, &client, holds("other")).is_some());
        record.written(now, true);
        assert_eq!(record.next(true), Some(now + LOOK), "the server is still told of a lock");
        assert!(record.write(now + LOOK, &client, Vec::new()).is_some());
    }

    #[test]
    fn late_answer_of_an_earlier_record_delays_nothing() {
        let (mut record, client) = kept();
        assert!(record.write(NOW, &client, Vec::new()).is_some());
        assert!(record.give_up() && !record.give_up());
        let (host, application) = ("host".to_owned(), "other".to_owned());
        record.keep(NOW, record::ClientRecord { host, pid: 7, application, since: 0, within: Vec::new() }, LIFETIME);
        record.written(NOW, true);
        assert_eq!(record.next(true), Some(NOW));
    }
}
