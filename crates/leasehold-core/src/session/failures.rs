//! A server that does not do its part, as a request or a line has met it.

use crate::link::{Epoch, Plane};
use crate::session::retry;
use crate::time::Instant;
use std::time::Duration;

/// A server that does not do its part.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    since: Option<Instant>,
    tries: u32,
    why: String,
    /// Whether a call of this request has an outcome that is not known.
    unsure: bool,
    /// The server is a replica that refuses writes.
    demotion: Option<Box<Demotion>>,
}

/// A server that refuses writes, because it is a replica.
#[derive(Clone, Debug, Default)]
struct Demotion {
    /// Its last words.
    text: String,
    /// The connections on which it did, the first one of each plane.
    met: Vec<(Plane, Epoch)>,
}

impl Failures {
    /// Since when the server has failed.
    pub(super) const fn since(&self) -> Option<Instant> {
        self.since
    }

    /// How often it has failed.
    pub(super) const fn tries(&self) -> u32 {
        self.tries
    }

    /// Whether a call of the request has been applied, or not: its outcome is not known.
    pub(super) const fn is_outcome_unknown(&self) -> bool {
        self.unsure
    }

    /// Notes whether a call of the request has an outcome that is not known.
    pub(super) const fn set_outcome_unknown(&mut self, unsure: bool) {
        self.unsure = unsure;
    }

    /// The failures so far do not count any more; what is not known stays so.
    pub(super) const fn forget_failures(&mut self) {
        self.since = None;
        self.tries = 0;
    }

    /// The request does not wait for the server, and so not for too long.
    pub(super) const fn forget_since(&mut self) {
        self.since = None;
    }

    /// The server is given so much longer.
    pub(super) fn postpone(&mut self, more: Duration) {
        if let Some(since) = &mut self.since {
            *since = *since + more;
        }
    }

    /// Notes a failure.
    pub(super) fn note(&mut self, now: Instant, why: &str) {
        self.since.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        self.why.clear();
        self.why.push_str(why);
    }

    /// Notes that a replica refused to write. Whether a connection that was made since its first refusal leads to a replica, too: a primary
    /// that has taken its place would have been found.
    pub(super) fn note_demotion(&mut self, text: &str, (plane, epoch): (Plane, Epoch)) -> bool {
        let demotion = self.demotion.get_or_insert_default();
        text.clone_into(&mut demotion.text);
        match demotion.met.iter().find(|(known, _)| *known == plane) {
            Some((_, first)) => epoch > *first,
            None => {
                demotion.met.push((plane, epoch));
                false
            }
        }
    }

    /// The last failure, and whether the server was seen to be a replica.
    pub(super) fn in_words(&self) -> String {
        match &self.demotion {
            None => self.why.clone(),
            Some(demotion) if demotion.text == self.why => {
                format!("its address leads to a replica that may only be read: {}", self.why)
            }
            Some(_) => format!("{}; before that, its address led to a replica that may only be read", self.why),
        }
    }

    /// How long to leave the server in peace: 10 ms, doubled with every failure, at most half a second.
    pub(super) fn pause(&self) -> Duration {
        retry::pause_before(self.tries)
    }
}
