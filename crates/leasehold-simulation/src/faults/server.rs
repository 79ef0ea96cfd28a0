//! The disasters of the server: restarts, failovers, evictions, force releases, steps of its clock, and flushes of its scripts.

use crate::invariants::grants::Grant;
use crate::report::stats::{Coverage, FaultKind};
use crate::workload::family::{LockFamily, hold_of};
use crate::world::client::Guard;
use crate::world::event::{CallKey, ReplyFate, WorldEvent};
use crate::world::network::Caller;
use crate::world::{World, ms, name, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::command::read_write::Mode;
use leasehold_core::command::{Kind, fair, lock, read_write, simple, spin};
use leasehold_core::error::{HoldEnd, LossReason};
use leasehold_core::link::{LinkError, LinkEvent, Plane, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::time::Duration;

/// An epoch of the server's data that no other hold has.
pub(crate) const OF_NO_EPOCH: u32 = u32::MAX;

impl World {
    /// The promises for the holds that exist do not hold any more; those for later grants do.
    pub(crate) fn void_guarantees(&mut self) {
        self.net.restarts += 1;
        self.holders.clear();
        self.void_what_is_timed();
    }

    /// Promises that rest on times that the server has written down do not hold any more.
    fn void_what_is_timed(&mut self) {
        self.broken = true;
        self.note_fault(self.now);
        self.queues.forget();
    }

    /// The same, of the holds of one lock.
    fn void_guarantees_of(&mut self, lock: &Bytes) {
        self.broken = true;
        self.note_fault(self.now);
        self.queues.forget_lock(lock);
        self.holders.remove(lock);
        self.granted.values_mut().filter(|grant| grant.lock == lock).for_each(Grant::void);
        let guards = self.guards.iter_mut().filter(|guard| guard.name.key() == lock);
        guards.for_each(|guard| guard.epoch_of_data = OF_NO_EPOCH);
    }

    /// Nothing is promised of what a client has while its clock stands still, nor of what it was granted then and hears of later.
    pub(crate) fn disown(&mut self, client: usize) {
        for (id, grant) in &mut self.granted {
            if self.senders.get(id) == Some(&client) {
                grant.void();
            }
        }
        let guards = self.guards.iter_mut().filter(|guard| guard.client == client);
        guards.for_each(|guard| guard.epoch_of_data = OF_NO_EPOCH);
    }

    /// Every connection is gone, and comes back.
    fn reset_all(&mut self) {
        for client in (0..self.clients.len()).filter(|client| !self.clients[*client].dead).collect::<Vec<_>>() {
            for plane in [Plane::Foreground, Plane::Lifeline] {
                if self.net.connection(client, plane).up {
                    let epoch = self.net.connection(client, plane).epoch;
                    self.net.kill(client, plane, epoch);
                    self.reset(client, plane);
                }
            }
            self.reset_notices(client);
            self.after(ms(1), WorldEvent::Event { client, event: LinkEvent::NoticesReset });
        }
        self.known_scripts.clear();
        self.flushed = true;
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
        self.lost_tokens = true;
        self.void_guarantees();
        self.fill();
        self.reset_all();
        self.note_removals(ms(20));
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.snapshot = Some(self.server.snapshot());
    }

    /// A replica takes over that has not heard of the last writes.
    pub(crate) fn fail_over(&mut self) {
        let Some(snapshot) = self.snapshot.take() else { return };
        trace!(self, "a replica takes over");
        self.stats.fault(FaultKind::Failover);
        self.server.restore(&snapshot);
        self.leftovers = true;
        self.restored = true;
        self.lost_tokens = true;
        self.void_guarantees();
        self.reset_all();
        self.note_removals(ms(20));
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
            self.forgot_processes |= key.starts_with(b"leasehold:1:fair:");
            self.lost_tokens |= key.starts_with(b"redisson_lock_token:");
            let names = (0..self.plan.locks).map(|lock| name(&format!("lock{lock}")).key().clone());
            of = names.into_iter().find(|name| key.windows(name.len()).any(|part| part == name));
            drop(self.server.command(&[b"DEL", key]));
        }
        self.stats.fault(FaultKind::Eviction);
        self.leftovers = true;
        match of {
            Some(lock) => self.void_guarantees_of(&lock),
            None => self.void_guarantees(),
        }
        self.note_removals(self.plan.settings.lease / 3);
    }

    /// An operator who has looked at the holder of a lock releases it.
    pub(crate) fn force_release(&mut self) {
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
        self.stats.fault(FaultKind::ForceRelease);
        self.note_fault_of(client, self.now);
        self.granted.entry(id.clone()).or_default().void();
        for guard in self.guards.iter_mut().filter(|guard| guard.wire_id == id) {
            guard.epoch_of_data = OF_NO_EPOCH;
        }
        self.note_silence(&call);
        self.holders.remove(&call.keys()[0]);
        drop(self.server.execute(&call));
        self.deliver_notices();
        self.note_removals(self.plan.settings.lease / 3);
    }

    /// The call that ends a guard's hold by force, if the kind has one.
    fn forced(&self, guard: &Guard) -> Option<Call> {
        let settings = &self.plan.settings;
        let field = std::str::from_utf8(&guard.field).ok()?;
        Some(match guard.kind {
            Kind::Lock | Kind::Fenced => lock::force_release(&guard.name, field, &settings.publish),
            Kind::Fair | Kind::FencedFair => fair::force_release(&guard.name, field, settings),
            Kind::Spin => spin::force_release(&guard.name, field),
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
        self.put_back += Duration::from_millis(millis.min(0).unsigned_abs());
        if (-3..=1).contains(&millis) {
            self.stats.fault(FaultKind::ServerNudge);
            return;
        }
        self.stats.fault(FaultKind::ServerStep);
        self.leftovers = true;
        if millis < 0 {
            self.restored = true;
            return self.void_what_is_timed();
        }
        self.void_guarantees();
        self.note_removals(self.plan.settings.lease / 3);
    }

    pub(crate) fn flush_scripts(&mut self) {
        trace!(self, "the scripts are flushed");
        self.stats.fault(FaultKind::ScriptFlush);
        self.known_scripts.clear();
        self.flushed = true;
    }

    /// The link learns that the server does not know the script of a call, and sends its text, unless the call was settled meanwhile.
    pub(crate) fn no_script(&mut self, key: CallKey, client: usize, plane: Plane, call: Call, reply: ReplyFate) {
        let Some(waiting) = self.net.waiting.get(&key) else { return };
        let (epoch, fence, who) = (waiting.epoch, waiting.fence, waiting.who);
        let gone = match who {
            Caller::Task(task) => self.clients[client].tasks[task].flight.is_none_or(|(_, known)| known != key),
            Caller::Lifeline(_) => false,
        };
        let connection = self.net.connection(client, plane);
        if gone || !connection.up || connection.epoch != epoch {
            self.unknown_script.remove(&key);
            return;
        }
        if connection.fence != fence {
            self.unknown_script.remove(&key);
            if call.script().name().ends_with("/release") {
                self.refused_releases.extend(hold_of(&call).map(|(id, _)| id));
            }
            self.note_fault_of(client, self.now);
            let refusal = ServerError::new("NOSCRIPT No matching script, and it was settled meanwhile");
            let result = Err(LinkError::Refused(refusal));
            return self.at(self.now, WorldEvent::Answer { key, result });
        }
        if let Caller::Task(task) = who {
            let now = self.local(client);
            let ticket = self.clients[client].tasks[task].ticket;
            let flight = self.clients[client].tasks[task].flight.map(|(flight, _)| flight);
            let may = flight.is_some_and(|flight| self.clients[client].session.may_resend(now, ticket, flight));
            if !may {
                self.unknown_script.remove(&key);
                return;
            }
        }
        self.stats.reach(Coverage::NoScript);
        let delay = self.delay(client);
        let now = self.now;
        let connection = self.net.connection(client, plane);
        let at = (now + delay).max(connection.last_arrival).max(connection.frozen_until);
        connection.last_arrival = at;
        self.at(at, WorldEvent::Arrive { key, client, plane, epoch, call, reply });
    }

    /// Whether the server has a guard's hold, so far as that can be seen.
    pub(crate) fn is_on_server(&self, guard: &Guard) -> bool {
        match guard.kind {
            Kind::Simple => self.server.command(&[b"GET", guard.name.key()]) == Ok(Reply::Bulk(guard.field.clone())),
            Kind::Permits => {
                let deadlines = guard.name.suffixed("timeout");
                let now = self.server.wall_millis();
                guard.wire_id.chunks(ID_BYTES).all(|id| match self.server.command(&[b"ZSCORE", &deadlines, id]) {
                    Ok(Reply::Bulk(end)) => String::from_utf8_lossy(&end).parse().is_ok_and(|end: i64| end > now),
                    _ => false,
                })
            }
            _ => self.count_on_server(guard).is_none_or(|count| count > 0),
        }
    }

    /// Those whose holds have just been removed must be told: within `within`, and the time that a command takes.
    fn note_removals(&mut self, within: Duration) {
        for guard in 0..self.guards.len() {
            let state = &self.guards[guard];
            if state.alive && state.renewed && self.believes(state) && !self.is_on_server(state) {
                let beside = self.guards.iter().filter(|other| other.client == state.client && other.alive).count();
                let slack = ms(60) + ms(20) * u32::try_from(beside).unwrap_or(u32::MAX);
                self.after(within + slack, WorldEvent::Promptness { guard, removed: self.now });
            }
        }
    }

    /// A removal is told in time, unless something else went wrong since.
    pub(crate) fn check_promptness(&mut self, guard: usize, removed: Instant) {
        let state = &self.guards[guard];
        let client = &self.clients[state.client];
        if !state.alive || !client.runs() {
            return;
        }
        if !self.believes(state) {
            if state.cell.would_end(self.local(state.client)) == Some(HoldEnd::Lost(LossReason::Removed)) {
                self.stats.reach(Coverage::RemovalTold);
            }
            return;
        }
        let leapt = client.leapt.is_some_and(|at| at >= client.clock.shows(removed));
        let reachable = self.net.wires[state.client].reachable;
        // A clock that is too slow lets a renewal come late.
        let expected_by_fault = self.last_fault_of(state.client) > removed
            || leapt
            || !reachable
            || client.clock_is_wrong
            || self.is_on_server(state);
        assert!(
            expected_by_fault,
            "client {} was not told that {:?} was removed at {removed:?}, although nothing else went wrong",
            state.client, state.hold
        );
    }
}

impl World {
    /// Perhaps lets a command arrive in the last moment of one of its keys, at its end, or just after it.
    pub(crate) fn worst_instant(&mut self, client: usize, at: Instant, call: &Call) -> Instant {
        if !self.chance(self.rates.worst_instant) {
            return at;
        }
        let wall = self.server.wall_millis();
        let into = Duration::from_nanos(self.now.as_nanos() % 1_000_000);
        for key in call.keys() {
            let Ok(Reply::Int(left @ 0..)) = self.server.command(&[b"PTTL", key]) else { continue };
            // The key is there until the end of its last millisecond.
            let last = self.now - into + ms(left.unsigned_abs());
            let end = last + ms(1);
            let aimed = match self.rng.u8(..4) {
                0 => last - Duration::from_nanos(1),
                1 => last,
                2 => end - Duration::from_nanos(1),
                _ => end,
            };
            if aimed >= at && end.since(at) < ms(1_300) {
                self.stats.fault(FaultKind::WorstInstant);
                self.note_fault_of(client, aimed);
                self.ends.insert(key.clone(), wall + left);
                return aimed;
            }
        }
        at
    }

    /// Notes when a command comes so near to the end of a key.
    pub(crate) fn note_expiry(&mut self, call: &Call) {
        if self.rates.worst_instant <= 0.0 {
            return;
        }
        let wall = self.server.wall_millis();
        for key in call.keys() {
            let left = self.server.command(&[b"PTTL", key]);
            let after = self.ends.get(key).is_some_and(|end| end + 1 == wall);
            match left {
                Ok(Reply::Int(1)) => self.stats.reach(Coverage::BeforeExpiry),
                Ok(Reply::Int(0)) => self.stats.reach(Coverage::AtExpiry),
                Ok(Reply::Int(-2)) if after => self.stats.reach(Coverage::AfterExpiry),
                _ => {}
            }
        }
    }
}
