//! A server that does not do its part, as a request or a line has met it.

use crate::link::{Epoch, Plane};
use crate::session::retry;
use crate::time::Instant;
use std::time::Duration;

/// A server that does not do its part.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    pub(super) since: Option<Instant>,
    pub(super) tries: u32,
    pub(super) why: String,
    /// Whether a call of this request has an outcome that is not known.
    pub(super) unsure: bool,
    /// The server is a replica that refuses writes.
    pub(super) demotion: Option<Box<Demotion>>,
}

/// A server that refuses writes, because it is a replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Demotion {
    /// Its last words.
    text: String,
    /// The connections on which it did, the first one of each plane.
    met: Vec<(Plane, Epoch)>,
}

impl Trouble {
    pub(super) fn note(&mut self, now: Instant, why: &str) {
        self.since.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        self.why.clear();
        self.why.push_str(why);
    }

    /// Notes that a replica refused to write. Whether a connection that was made since its first refusal leads to a replica, too: a primary
    /// that has taken its place would have been found.
    pub(super) fn note_demotion(&mut self, text: &str, plane: Plane, epoch: Epoch) -> bool {
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
