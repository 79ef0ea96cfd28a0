//! Which servers are out of reach, by what the link says: a waiter that sleeps sends nothing, and would not know.

use super::contend::Phase;
use super::{Event, Session};
use crate::link::LinkError;
use crate::name;
use crate::time::Instant;
use std::time::Duration;

/// A server that cannot be reached.
#[derive(Debug)]
pub(super) struct Outage {
    server: String,
    /// When its connection was lost.
    pub(super) since: Instant,
    why: String,
    /// The slots that it owns, in order; `None` where it has them all.
    slots: Option<Vec<u16>>,
}

impl Outage {
    fn concerns(&self, key: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.binary_search(&name::slot(key)).is_ok())
    }
}

impl Session {
    /// A connection to a server stands, where there was none or `again` where there was one before.
    pub(super) fn server_connected(&mut self, now: Instant, server: String, again: bool) {
        let ended = self.end_outage(&server);
        let out_for = ended.map(|outage| now.since(outage.since));
        self.events.push_back(Event::Connected { server, again, out_for });
    }

    /// Others have what the server had.
    pub(super) fn server_retired(&mut self, now: Instant, server: String) {
        let ended = self.end_outage(&server);
        let out_for = ended.map(|outage| now.since(outage.since));
        self.events.push_back(Event::Retired { server, out_for });
    }

    /// A server cannot be reached, and could not for `lost_for`.
    pub(super) fn server_out_of_reach(
        &mut self,
        now: Instant,
        server: String,
        why: String,
        lost_for: Duration,
        slots: Option<Vec<u16>>,
    ) {
        self.end_outage(&server);
        let outage = Outage { server: server.clone(), since: now - lost_for, why: why.clone(), slots };
        let concerned = self.holds.values().filter(|hold| hold.is_live() && !hold.degraded);
        let (mut holds, mut first) = (0, Instant::FAR_FUTURE);
        for hold in concerned.filter(|hold| outage.concerns(self.locks[hold.lock].name.key())) {
            holds += 1;
            first = first.min(hold.cell.deadline());
        }
        let first_lost_in = (first != Instant::FAR_FUTURE).then(|| first.since(now));
        self.outages.push(outage);
        self.events.push_back(Event::OutOfReach { server, why, holds, first_lost_in });
        let waited_for: Vec<_> = self.locks.iter().map(|(lock, _)| lock).collect();
        waited_for.into_iter().for_each(|lock| self.set_lock_timer(lock));
    }

    fn end_outage(&mut self, server: &str) -> Option<Outage> {
        let at = self.outages.iter().position(|outage| outage.server == server)?;
        Some(self.outages.swap_remove(at))
    }

    /// What keeps the server of a lock out of reach.
    pub(super) fn outage_of(&self, lock: usize) -> Option<&Outage> {
        let key = self.locks.get(lock)?.name.key();
        self.outages.iter().find(|outage| outage.concerns(key))
    }

    /// Since when the server has not done its part for those who wait for a lock: as their attempts have shown, and while they sleep as the
    /// link says.
    pub(super) fn trouble_since(&self, lock: usize) -> Option<Instant> {
        let line = self.locks.get(lock)?;
        let sleeps = matches!(line.phase, Phase::Sleeping(_) | Phase::Subscribing);
        let told = self.outage_of(lock).filter(|_| sleeps).map(|outage| outage.since);
        [line.trouble.since, told].into_iter().flatten().min()
    }

    /// The same in words.
    pub(super) fn trouble_in_words(&self, lock: usize) -> String {
        let line = &self.locks[lock];
        match self.outage_of(lock) {
            Some(outage) if line.trouble.since.is_none() => {
                LinkError::NotSent(format!("not connected to {}: {}", outage.server, outage.why)).to_string()
            }
            _ => line.trouble.in_words(),
        }
    }
}
