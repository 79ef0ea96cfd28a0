//! The rest on the server of clients that have gone, and of holds without a holder.

use crate::report::stats::Coverage;
use crate::workload::family::{CAPACITY, LockFamily};
use crate::workload::plan::{FaultMix, LEASE};
use crate::world::client::Guard;
use crate::world::event::WorldEvent;
use crate::world::{World, name};
use bytes::Bytes;
use leasehold_core::error::HoldEnd;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

impl World {
    /// Wants every hold that the server has of a client to be one that the client has, or has lost: where the client waits for nothing, has
    /// nothing to clean up, and nothing that it has sent can still arrive. The entries of a simple lock or a permit on the server do not
    /// name its client; these are looked for when all have gone.
    pub(crate) fn check_strays(&mut self) {
        // A copy of an acquire that comes after its release may bring a hold about again, which ends with its lease; and so may older data. One
        // that was only not proven dead is expected by its client, for as long as the lease that it asks for.
        let fields = self.plan.family.excludes() && self.plan.family != LockFamily::Simple;
        if !fields || self.plan.mix.has(FaultMix::Copies) || self.restored {
            return;
        }
        for lock in 0..self.plan.locks {
            let lock = name(&format!("lock{lock}"));
            let Ok(Reply::Array(fields)) = self.server.command(&[b"HKEYS", lock.key()]) else { continue };
            for field in fields {
                let Reply::Bulk(field) = field else { continue };
                let Some(client) = self.client_of(&field).filter(|client| self.is_at_rest(*client)) else {
                    continue;
                };
                let of_hold = field.strip_suffix(b":write").unwrap_or(&field);
                let is_of = |guard: &Guard| {
                    let lost = matches!(guard.cell.would_end(self.local(client)), Some(HoldEnd::Lost(_)));
                    guard.client == client && guard.field == of_hold && (guard.alive || guard.detached || lost)
                };
                assert!(
                    self.guards.iter().any(is_of)
                        || self.may_still_arrive(client)
                        || self.is_of_a_reader_whose_lease_is_over(&lock, &field)
                        || self.is_about_to_end(&lock)
                        || self.outlasted.contains(&field)
                        || self.leaves_to_leases(client),
                    "{lock} is held by {field:?}, of which client {client} knows nothing"
                );
                if self.last_fault_of(client) > Instant::default() {
                    self.stats.reach(Coverage::StraysSought);
                }
            }
        }
    }

    /// Whether a client waits for nothing and has nothing to clean up.
    fn is_at_rest(&self, client: usize) -> bool {
        let state = &self.clients[client];
        state.runs()
            && state.tasks.iter().all(|task| task.outcome.is_some())
            && self.net.is_idle(client)
            && !state.session.has_clean_up()
    }

    /// The lease of a reader is a key of its own, and its field stays until another client comes to the lock after that.
    fn is_of_a_reader_whose_lease_is_over(&self, lock: &LockName, field: &Bytes) -> bool {
        if !matches!(self.plan.family, LockFamily::ReadWrite | LockFamily::PreferWriters) || field.ends_with(b":write")
        {
            return false;
        }
        let lease = [b"{", &lock.key()[..], b"}:", field, b":rwlock_timeout:1"].concat();
        self.server.command(&[b"EXISTS", &lease]) == Ok(Reply::Int(0))
    }

    /// Whether a client believes that what it could not take back has ended with its lease, because its clock jumped ahead.
    fn leaves_to_leases(&self, client: usize) -> bool {
        // Its last messages may have arrived a little later, with a lease of their own.
        self.clients[client].clock_jumped.is_some_and(|jumped| self.now < jumped + LEASE * 4)
    }

    /// Whether the lease of a lock is in its last moments. A client that is out of reach takes back what it can for one lease, by a clock
    /// that may be faster than the server's.
    fn is_about_to_end(&self, lock: &LockName) -> bool {
        let early = if self.plan.keeps_data { Settings::margin(LEASE) } else { LEASE / 4 };
        match self.server.command(&[b"PTTL", lock.key()]) {
            Ok(Reply::Int(left @ 0..)) => Duration::from_millis(left.unsigned_abs()) <= early,
            _ => false,
        }
    }

    /// Whether a command of a client is on its way to the server.
    fn may_still_arrive(&self, client: usize) -> bool {
        let is_of_it = |what: &WorldEvent| match what {
            WorldEvent::Arrive { client: other, .. } | WorldEvent::NoScript { client: other, .. } => *other == client,
            _ => false,
        };
        self.queue.values().any(is_of_it)
    }

    /// Wants no listener, and nothing to be left but what may be left.
    pub(crate) fn check_left(&self, when: &str) {
        self.check_keys_left(when);
        assert_eq!(self.server.subscriptions(), 0, "somebody listens {when}");
    }

    /// Wants what is left on the server to be what may be left: fencing tokens, counters that the user made, and what expires by itself.
    fn check_keys_left(&self, when: &str) {
        for key in self.server.keys() {
            let int = |command: &[u8]| match self.server.command(&[command, &key]) {
                Ok(Reply::Int(value)) => value,
                other => panic!("{other:?}"),
            };
            let text = String::from_utf8_lossy(&key);
            let token = text.starts_with("redisson_lock_token:");
            let counter = self.plan.family.counts()
                && (0..self.plan.locks).any(|lock| *key == *name(&format!("lock{lock}")).key());
            if self.plan.family == LockFamily::Permits && text.ends_with(":timeout") {
                self.check_expired(&key, when);
                continue;
            }
            // A late copy may have put a hold into a queue again, whose process is silent by now.
            let queue = (self.plan.copies || self.leftovers) && text.starts_with("redisson_lock_");
            let expires = (queue || text.starts_with("leasehold:1:")) && int(b"PTTL") >= 0;
            let dump = [b"LRANGE".as_slice(), b"ZRANGE"].map(|read| self.server.command(&[read, &key, b"0", b"-1"]));
            assert!(token || counter || expires, "{text} is left {when}: {dump:?}");
            if counter && self.plan.family == LockFamily::Semaphore {
                let left = self.server.command(&[b"GET", &key]).expect("a counter");
                assert_eq!(left, Reply::Bulk(CAPACITY.to_string().into()), "all permits of {text} are back {when}");
            }
        }
    }

    /// Wants every permit that is left to have expired: the next command takes it back.
    fn check_expired(&self, key: &Bytes, when: &str) {
        let now = self.server.wall_millis();
        let later = format!("({now}");
        let alive = self.server.command(&[b"ZCOUNT", key, later.as_bytes(), b"+inf"]).expect("a sorted set");
        assert_eq!(alive, Reply::Int(0), "permits of {key:?} are held {when}");
    }
}
