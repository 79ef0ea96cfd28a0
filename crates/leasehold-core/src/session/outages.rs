//! Which servers are out of reach: as the link says, and as attempts have shown.

use crate::link::not_connected;
use crate::name;
use crate::time::Instant;

/// A server that cannot be reached.
#[derive(Debug)]
pub(super) struct Outage {
    server: String,
    /// When its connection was lost.
    since: Instant,
    why: String,
    /// The slots that it owns, in order; `None` where it has them all.
    slots: Option<Vec<u16>>,
}

impl Outage {
    /// A server that cannot be reached since then, and why.
    pub(super) const fn new(server: String, since: Instant, why: String, slots: Option<Vec<u16>>) -> Self {
        Self { server, since, why, slots }
    }

    /// When its connection was lost.
    pub(super) const fn since(&self) -> Instant {
        self.since
    }

    /// Whether the key is one that this server would have.
    pub(super) fn concerns(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.binary_search(&name::slot(key)).is_ok())
    }

    /// Adds the outage to what else is known of the failures of a server.
    pub(super) fn added_to(&self, since: Option<Instant>, in_words: String) -> String {
        let told = not_connected(&self.server, &self.why).to_string();
        match since {
            None => told,
            Some(_) if in_words.contains(&told) => in_words,
            Some(_) => format!("{in_words}; {told}"),
        }
    }
}

/// The servers that are out of reach.
#[derive(Debug, Default)]
pub(super) struct Outages {
    /// Since when no server has been in reach, as far as first acquires have seen.
    seen_since: Option<Instant>,
    /// As the link says.
    told: Vec<Outage>,
}

impl Outages {
    /// Notes a failed attempt: since when all have failed.
    pub(super) fn note_failure(&mut self, now: Instant) -> Instant {
        *self.seen_since.get_or_insert(now)
    }

    /// Notes that a server answered: it is in reach.
    pub(super) const fn note_answer(&mut self) {
        self.seen_since = None;
    }

    /// A server is out of reach, as the link says.
    pub(super) fn begin(&mut self, outage: Outage) {
        self.told.push(outage);
    }

    /// A server is out of reach no longer, or others have what it had. Gives the outage that ends, if there was one.
    pub(super) fn end(&mut self, server: &str) -> Option<Outage> {
        let at = self.told.iter().position(|outage| outage.server == server)?;
        Some(self.told.swap_remove(at))
    }

    /// The outage that keeps the server of a key out of reach.
    pub(super) fn of(&self, key: &[u8]) -> Option<&Outage> {
        self.told.iter().find(|outage| outage.concerns(key))
    }
}
