//! The doubts that a server explains by losing data or time, and how long they last.

use super::process::Process;
use super::user::{Stage, User};
use super::wish::Thing;
use super::world::World;
use crate::workload::plan::LEASE;
use leasehold::embedded::EmbeddedServer;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::time::Duration;

impl World {
    /// A server is about to forget a key, or everything, or to find that leases have ended before their time. A holder that has something
    /// there may believe in it until that lease is over by the slowest clock, and meanwhile another one may get it. So may a user that
    /// waits for a reply that says that it has it.
    ///
    /// No other has an excuse: what others were told by the server they are told anew, and what the servers of other things say of those
    /// still holds. A quorum that does not count this server does not miss it either.
    pub(super) fn doubt(&mut self, server: usize, key: Option<&[u8]>) {
        let until = self.now + (LEASE + self.put_back[server]).mul_f64(SLOWEST);
        for process in &mut self.processes {
            let id = process.ids[server].as_bytes();
            for user in process.users.iter_mut().filter(|user| !matches!(user.stage, Stage::Over)) {
                user.saw_loss = true;
                for thing in &user.things {
                    let name = thing.name.as_bytes();
                    // The keys of a lock have its name in their own.
                    let is_lost = key.is_none_or(|key| key.windows(name.len()).any(|part| part == name));
                    if is_lost && has(&self.servers[server], name, id) {
                        let last = user.doubts.entry(thing.name.clone()).or_insert(until);
                        *last = until.max(*last);
                    }
                }
            }
        }
    }

    /// By how much servers' clocks were put back, in all.
    pub(super) fn put_back(&self) -> Duration {
        self.put_back.iter().sum()
    }
}

impl Process {
    /// Whether it is in doubt that a user has a thing that he believes to have. Owners share their holds, and the doubts of these.
    pub(super) fn doubts(&self, user: &User, thing: &Thing, now: Instant) -> bool {
        let shares = |one: &User| std::ptr::eq(one, user) || one.wish.owned && user.wish.owned;
        let mut those = self.users.iter().filter(|one| shares(one));
        those.any(|one| one.doubts.get(&thing.name).is_some_and(|until| now <= *until))
    }
}

/// How much longer a lease lasts by the slowest clock that is not wrong.
const SLOWEST: f64 = 1.01;

/// Whether a server has a hold of a client.
fn has(server: &EmbeddedServer, name: &[u8], id: &[u8]) -> bool {
    let Ok(Reply::Array(fields)) = server.command(&[b"HKEYS", name]) else { return false };
    fields.iter().any(|field| matches!(field, Reply::Bulk(text) if text.starts_with(id)))
}
