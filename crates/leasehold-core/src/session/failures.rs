//! A server that does not do its part, as a request or a line has met it.

use crate::session::retry;
use crate::time::Instant;
use std::time::Duration;

/// A server that does not do its part. It takes a place of its own only once it has failed: thousands of requests may wait, and few of them
/// meet a failure.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures(Option<Box<Found>>);

/// What was found of a server.
#[derive(Clone, Debug, Default)]
struct Found {
    since: Option<Instant>,
    tries: u32,
    why: String,
    /// Whether a call of this request has an outcome that is not known.
    unsure: bool,
    /// The server is a replica that refuses writes.
    demotion: Option<Box<Demotion>>,
}

/// A server that refuses writes, because it is a replica.
#[derive(Clone, Debug)]
struct Demotion {
    /// Its last words.
    text: String,
    /// Resets before the first refused call was sent.
    resets: u64,
}

impl Failures {
    /// The server has done its part so far.
    pub(super) const fn new() -> Self {
        Self(None)
    }

    /// Whether anything is known of failures.
    pub(super) const fn has_any(&self) -> bool {
        self.0.is_some()
    }

    /// Since when the server has failed.
    pub(super) fn since(&self) -> Option<Instant> {
        self.0.as_ref()?.since
    }

    /// How often it has failed.
    pub(super) fn tries(&self) -> u32 {
        self.0.as_ref().map_or(0, |found| found.tries)
    }

    /// Whether a call of the request has been applied, or not: its outcome is not known.
    pub(super) fn is_outcome_unknown(&self) -> bool {
        self.0.as_ref().is_some_and(|found| found.unsure)
    }

    /// Notes whether a call of the request has an outcome that is not known.
    pub(super) fn set_outcome_unknown(&mut self, unsure: bool) {
        if unsure || self.has_any() {
            self.found().unsure = unsure;
        }
    }

    /// The failures so far do not count any more; what is not known stays so.
    pub(super) fn forget_failures(&mut self) {
        if let Some(found) = &mut self.0 {
            found.since = None;
            found.tries = 0;
        }
    }

    /// The request does not wait for the server, and so not for too long.
    pub(super) fn forget_since(&mut self) {
        if let Some(found) = &mut self.0 {
            found.since = None;
        }
    }

    /// The server is given so much longer.
    pub(super) fn postpone(&mut self, more: Duration) {
        if let Some(since) = self.0.as_mut().and_then(|found| found.since.as_mut()) {
            *since = *since + more;
        }
    }

    /// Notes a failure.
    pub(super) fn note(&mut self, now: Instant, why: &str) {
        let found = self.found();
        found.since.get_or_insert(now);
        found.tries = found.tries.saturating_add(1);
        found.why.clear();
        found.why.push_str(why);
    }

    /// Notes a call refused by a replica. Returns whether a connection was reset between the first refused call and this one: a primary
    /// that has taken its place would have been found.
    pub(super) fn note_demotion(&mut self, text: &str, resets: u64) -> bool {
        let first = || Box::new(Demotion { text: String::new(), resets });
        let demotion = self.found().demotion.get_or_insert_with(first);
        text.clone_into(&mut demotion.text);
        resets > demotion.resets
    }

    /// The last failure, and whether the server was seen to be a replica.
    pub(super) fn in_words(&self) -> String {
        let Some(found) = &self.0 else { return String::new() };
        match &found.demotion {
            None => found.why.clone(),
            Some(demotion) if demotion.text == found.why => {
                format!("its address leads to a replica that may only be read: {}", found.why)
            }
            Some(_) => format!("{}; before that, its address led to a replica that may only be read", found.why),
        }
    }

    /// How long to leave the server in peace: 10 ms, doubled with every failure, at most half a second.
    pub(super) fn pause(&self) -> Duration {
        retry::pause_before(self.tries())
    }

    fn found(&mut self) -> &mut Found {
        self.0.get_or_insert_default()
    }
}
