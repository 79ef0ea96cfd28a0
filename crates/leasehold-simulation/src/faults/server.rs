//! The faults of the server: restarts, failovers, evictions, force releases, steps of its clock, and flushes of its scripts.

use crate::faults::plan::MEMORY_IS_FULL;
use crate::terms::LockFamily;
use crate::world::client::Guard;
use crate::world::events::{Message, lock_of};
use crate::world::history::{Fact, Promises};
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::read_write::Mode;
use leasehold_core::command::{Kind, fair, lock, read_write, simple};
use leasehold_core::link::LinkEvent;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use std::time::Duration;

impl World {
    /// Every connection is gone, and comes back.
    fn reset_all(&mut self) {
        for client in (0..self.clients.len()).filter(|client| !self.clients[*client].dead).collect::<Vec<_>>() {
            for role in self.net.roles() {
                if self.net.connection(client, role).up {
                    let life = self.net.connection(client, role).life;
                    self.net.kill(client, role, life);
                    self.reset(client, role);
                }
            }
            self.reset_notices(client);
            self.after(ms(1), Message::Event { client, event: LinkEvent::NoticesReset });
        }
        self.server.flush_scripts();
    }

    pub(crate) fn restart(&mut self) {
        trace!(self, "the server restarts with its data");
        self.stats.fault(FaultKind::Restart);
        self.reset_all();
    }

    pub(crate) fn restart_empty(&mut self) {
        trace!(self, "the server restarts empty");
        self.stats.fault(FaultKind::RestartEmpty);
        self.server.restart_empty();
        self.doubts.lost_tokens = true;
        self.void_guarantees();
        self.fill();
        self.reset_all();
        self.tell(Fact::Removed { within: ms(20) });
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.server.snapshot = Some(self.server.snapshot());
    }

    /// A replica takes over that has not heard of the last writes.
    pub(crate) fn fail_over(&mut self) {
        let Some(snapshot) = self.server.snapshot.take() else { return };
        trace!(self, "a replica takes over");
        self.stats.fault(FaultKind::Failover);
        self.server.restore(&snapshot);
        self.doubts.leftovers = true;
        self.doubts.restored = true;
        self.doubts.lost_tokens = true;
        self.void_guarantees();
        self.reset_all();
        self.tell(Fact::Removed { within: ms(20) });
    }

    /// The replica takes over. What it has acknowledged is there, and nothing else.
    pub(crate) fn take_over(&mut self) {
        let now = self.now;
        let Some(replica) = &mut self.server.replica else { return };
        let content = replica.take_over(now);
        trace!(self, "the replica takes over with what it has acknowledged");
        self.stats.fault(FaultKind::TakeOver);
        self.server.restore(&content);
        let survives = self.guards.iter().filter(|guard| guard.alive && self.is_believed(guard)).count();
        for _ in 0..survives {
            self.stats.reach(Coverage::SurvivedTakeOver);
        }
        self.lose_what_is_not_acknowledged();
    }

    /// Writes that no replica has acknowledged are gone, and with them nothing that a client relies on: what it holds is there, and a lock
    /// that it has given back may be held again until its lease is over.
    fn lose_what_is_not_acknowledged(&mut self) {
        self.doubts.leftovers = true;
        self.doubts.restored = true;
        // A release does not wait for a replica.
        self.void(Promises::Unacknowledged);
        self.reset_all();
    }

    /// A key goes away, because memory is scarce.
    pub(crate) fn evict(&mut self, all: bool) {
        let mut keys = self.server.keys();
        let mut of = None;
        if self.plan.family == LockFamily::Permits {
            // Counters that are left without their permits would never be right again: their maker makes them anew.
            keys.iter().for_each(|key| drop(self.server.command(&[b"DEL", key])));
            self.fill();
        } else {
            let server = &self.server;
            keys.retain(|key| all || matches!(server.command(&[b"PTTL", key]), Ok(Reply::Int(1..))));
            if keys.is_empty() {
                return;
            }
            let key = &keys[self.rng.usize(..keys.len())];
            trace!(self, "the server evicts {key:?}");
            self.doubts.forgot_processes |= key.starts_with(b"leasehold:1:fair:");
            self.doubts.lost_tokens |= key.starts_with(b"redisson_lock_token:");
            let names = self.plan.lock_names().map(|lock| lock.to_key());
            of = names.into_iter().find(|name| key.windows(name.len()).any(|part| part == name));
            drop(self.server.command(&[b"DEL", key]));
        }
        self.stats.fault(FaultKind::Eviction);
        self.doubts.leftovers = true;
        match of {
            Some(lock) => self.void(Promises::OfLock(&lock)),
            None => self.void_guarantees(),
        }
        self.tell(Fact::Removed { within: self.plan.settings.lease / 3 });
    }

    /// An operator who has looked at the holder of a lock releases it.
    pub(crate) fn force_release(&mut self) {
        if let Some((name, field)) = self.marked_hold() {
            trace!(self, "{field} of {name} is released by force");
            let call = lock::force_release(&name, &field, &self.plan.settings.publish);
            let client = self.client_of(field.as_bytes());
            return self.release_by_force(&call, field.into(), client);
        }
        let held: Vec<_> = (0..self.guards.len())
            .filter(|guard| self.guards[*guard].alive && self.believes(&self.guards[*guard]))
            .collect();
        if held.is_empty() {
            return;
        }
        let guard = &self.guards[held[self.rng.usize(..held.len())]];
        let Some(call) = self.forced(guard) else { return };
        trace!(self, "{:?} of client {} is released by force", guard.hold, guard.client);
        let (id, client) = (guard.wire_id.clone(), guard.client);
        self.release_by_force(&call, id, Some(client));
    }

    /// A hold of a client is released by force. Nothing is promised of it any more.
    fn release_by_force(&mut self, call: &Call, id: Bytes, client: Option<usize>) {
        self.stats.fault(FaultKind::ForceRelease);
        client.into_iter().for_each(|client| self.note_fault_of(client, self.now));
        self.void(Promises::OfHold { id: &id, lock: &lock_of(call) });
        self.tell(Fact::Arrives(call));
        drop(self.server.execute(call));
        self.deliver_notices();
        self.tell(Fact::Removed { within: self.plan.settings.lease / 3 });
    }

    /// The call that ends a guard's hold by force, if the kind has one.
    fn forced(&self, guard: &Guard) -> Option<Call> {
        let settings = &self.plan.settings;
        let field = std::str::from_utf8(&guard.field).ok()?;
        Some(match guard.kind {
            Kind::Lock | Kind::Fenced => lock::force_release(&guard.name, field, &settings.publish),
            Kind::Fair | Kind::FencedFair => fair::force_release(&guard.name, field, settings),
            Kind::Spin => lock::force_release(&guard.name, field, &"SILENT".into()),
            Kind::Simple => simple::force_release(&guard.name, field),
            Kind::Read => read_write::force_release(&guard.name, Mode::Read, field, &settings.publish),
            Kind::Write => read_write::force_release(&guard.name, Mode::Write, field, &settings.publish),
            Kind::Semaphore | Kind::Permits | Kind::Latch => return None,
        })
    }

    /// The server's clock is stepped. Up to a millisecond forward is within every margin; a step back makes leases last longer, and breaks
    /// no promise.
    pub(crate) fn step_server(&mut self, millis: i64) {
        trace!(self, "the server's clock is stepped by {millis} ms");
        self.server.step_clock(millis);
        self.server.put_back += Duration::from_millis(millis.min(0).unsigned_abs());
        if (-3..=1).contains(&millis) {
            self.stats.fault(FaultKind::ServerNudge);
            return;
        }
        self.stats.fault(FaultKind::ServerStep);
        self.doubts.leftovers = true;
        if millis < 0 {
            self.doubts.restored = true;
            return self.void(Promises::Timed);
        }
        self.void_guarantees();
        self.tell(Fact::Removed { within: self.plan.settings.lease / 3 });
    }

    /// The server's memory is full, or is not any more.
    pub(crate) fn deny_growth(&mut self, deny: bool) {
        self.note_fault(self.now);
        if deny {
            self.stats.fault(FaultKind::MemoryFull);
            self.note_fault(self.now + MEMORY_IS_FULL);
        }
        self.server.deny_growth(deny);
        // A JVM's commands that count or join are refused before they change anything.
        self.jvms.memory_is_full = deny && !self.jvms.is_empty();
    }

    pub(crate) fn flush_scripts(&mut self) {
        trace!(self, "the scripts are flushed");
        self.stats.fault(FaultKind::ScriptFlush);
        self.server.flush_scripts();
    }

    /// The name and the field of a hold on the server that may linger, if an operator ends one of these now.
    fn marked_hold(&mut self) -> Option<(LockName, String)> {
        let ends_one = self.plan.lingering.as_mut()?.rng.bool();
        if !ends_one {
            return None;
        }
        self.plan.lock_names().find_map(|name| {
            let fields = self.server.command(&[b"HKEYS", name.key()]).ok()?;
            let field = fields.array().ok()?.first()?.text().ok()?.to_owned();
            field.ends_with('~').then_some((name, field))
        })
    }
}
