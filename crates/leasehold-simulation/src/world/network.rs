//! The network between clients and the server: order within a connection, and everything that can go wrong.

use crate::world::conditions::{CallFault, CallRates, PlannedFault};
use crate::world::draws::Draws;
use crate::world::history::Fact;
use crate::world::message::hold_of;
use crate::world::message::{CallKey, Message, ReplyFate};
use crate::world::stats::FaultKind;
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::LinkError;
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::time::Duration;

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Calls,
    /// Calls that wait for a replica.
    Durable,
}

impl Role {
    const fn of(call: &Call) -> Self {
        if call.replicas().is_some() { Self::Durable } else { Self::Calls }
    }
}

/// A connection for calls.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) life: u64,
    pub(crate) up: bool,
    /// Nothing arrives any more of connections up to this.
    pub(crate) killed: u64,
    pub(crate) last_arrival: Instant,
    pub(crate) last_reply: Instant,
    pub(crate) frozen_until: Instant,
    /// Number of settlings.
    pub(crate) fence: u64,
}

impl Connection {
    /// When a request arrives that would be there then: behind all that was sent before.
    pub(crate) fn arrival(&mut self, at: Instant) -> Instant {
        self.last_arrival = at.max(self.last_arrival).max(self.frozen_until);
        self.last_arrival
    }

    /// The same of a reply.
    pub(crate) fn reply(&mut self, at: Instant) -> Instant {
        self.last_reply = at.max(self.last_reply);
        self.last_reply
    }
}

#[derive(Debug)]
pub(crate) struct Wires {
    calls: Connection,
    durable: Connection,
    /// The life of the notice connection.
    pub(crate) life: u64,
    pub(crate) reachable: bool,
    /// The latest request that has arrived.
    pub(crate) latest: CallKey,
    pub(crate) last_notice: Instant,
    pub(crate) last_subscription: Instant,
}

/// The one that waits for a call.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) client: usize,
    pub(crate) role: Role,
    pub(crate) life: u64,
    pub(crate) who: Caller,
    /// Settlings before the call was sent.
    pub(crate) fence: u64,
    /// The id that tells the hold that it is about from all others.
    pub(crate) hold: Option<Bytes>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Caller {
    Task(usize, CallId),
    Background(CallId),
}

#[derive(Debug)]
pub(crate) struct Network {
    /// How likely it is that something happens to a call.
    pub(crate) rates: CallRates,
    /// Faults for calls to come, in order.
    pub(crate) planned: Vec<PlannedFault>,
    /// By which scripts are refused something in their middle. It is not that of the world, so that everything else in that is what it
    /// would be without.
    pub(crate) insides: Draws,
    pub(crate) wires: Vec<Wires>,
    pub(crate) waiting: BTreeMap<CallKey, Waiting>,
    /// Settlings in flight.
    pub(crate) settling: FxHashSet<(usize, CallId)>,
    pub(crate) lives: u64,
    /// Whether calls wait for a replica, on their own connection.
    pub(crate) durable: bool,
    /// The number of subscriptions so far.
    pub(crate) subscribes: usize,
    /// When acquires were sent that have not arrived.
    pub(crate) sent: FxHashMap<CallKey, Instant>,
    /// Calls whose script the server did not know, and that come once more with its text.
    pub(crate) unknown_script: FxHashSet<CallKey>,
    /// The parts of the world that calls are drawn for, where draws are recorded.
    pub(crate) parts: FxHashMap<CallKey, u64>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rates: CallRates::default(),
            planned: Vec::new(),
            insides: Draws::with_seed(seed),
            wires: Vec::new(),
            waiting: BTreeMap::new(),
            settling: FxHashSet::default(),
            lives: 0,
            durable: false,
            subscribes: 0,
            sent: FxHashMap::default(),
            unknown_script: FxHashSet::default(),
            parts: FxHashMap::default(),
        }
    }

    pub(crate) fn add_client(&mut self) {
        let start = Instant::from_nanos(0);
        let mut connection = || {
            self.lives += 1;
            Connection {
                life: self.lives,
                up: true,
                killed: 0,
                last_arrival: start,
                last_reply: start,
                frozen_until: start,
                fence: 0,
            }
        };
        let (calls, durable) = (connection(), connection());
        let (last_notice, last_subscription) = (start, start);
        let wires = Wires { calls, durable, life: 0, reachable: true, latest: 0, last_notice, last_subscription };
        self.wires.push(wires);
    }

    pub(crate) fn connection(&mut self, client: usize, role: Role) -> &mut Connection {
        let wires = &mut self.wires[client];
        match role {
            Role::Calls => &mut wires.calls,
            Role::Durable => &mut wires.durable,
        }
    }

    /// The connections that each client has.
    pub(crate) fn roles(&self) -> impl Iterator<Item = Role> + use<> {
        std::iter::once(Role::Calls).chain(self.durable.then_some(Role::Durable))
    }

    pub(crate) fn kill(&mut self, client: usize, role: Role, life: u64) {
        let connection = self.connection(client, role);
        connection.killed = connection.killed.max(life);
    }

    /// Whether a client waits for nothing.
    pub(crate) fn is_idle(&self, client: usize) -> bool {
        self.waiting.values().all(|waiting| waiting.client != client)
            && self.settling.iter().all(|(other, _)| *other != client)
    }
}

impl World {
    #[track_caller]
    pub(crate) fn chance(&mut self, likely: f64) -> bool {
        likely > 0.0 && self.rng.f64() < likely
    }

    #[track_caller]
    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most - least).mul_f64(self.rng.f64())
    }

    /// How long a message of a client, or to it, is on the way.
    pub(crate) fn delay(&mut self, client: usize) -> Duration {
        let (least, most) = self.net.rates.delay;
        let delay = self.between(least, most);
        if self.chance(self.net.rates.spike) {
            self.stats.fault(FaultKind::Delay);
            let spike = self.between(Duration::ZERO, self.net.rates.spike_of);
            self.note_fault_of(client, self.now + delay + spike);
            return delay + spike;
        }
        delay
    }

    pub(crate) fn send_by_task(&mut self, client: usize, task: usize, id: CallId, call: Call) {
        let key = self.events.number();
        let state = &mut self.clients[client].tasks[task];
        state.call = Some((id, key));
        state.sent += 1;
        let asked = hold_of(&call).map(|(id, _)| id);
        if let Some(id) = asked.as_ref().filter(|id| !state.all_asked.contains(id)) {
            state.all_asked.push(id.clone());
        }
        state.asked = asked;
        let ticket = state.ticket;
        trace!(self, "client {client} {ticket:?} sends {key}: {} {:?}", call.script().name(), call.args());
        self.send(key, client, Role::of(&call), Caller::Task(task, id), call);
    }

    pub(crate) fn send_by_background(&mut self, client: usize, id: CallId, call: Call) {
        let key = self.events.number();
        trace!(self, "client {client} background {id:?} sends {key}: {} {:?}", call.script().name(), call.args());
        self.send(key, client, Role::of(&call), Caller::Background(id), call);
    }

    fn send(&mut self, key: CallKey, client: usize, role: Role, who: Caller, call: Call) {
        let outer = self.draw_for_call(key, client, who, &call);
        self.send_drawn(key, client, role, who, call);
        self.draw_as(outer);
    }

    fn send_drawn(&mut self, key: CallKey, client: usize, role: Role, who: Caller, call: Call) {
        let Connection { life, fence, .. } = *self.net.connection(client, role);
        let hold = hold_of(&call).map(|(id, _)| id);
        if let Some(hold) = &hold {
            self.tell(Fact::Sent { client, hold });
        }
        let words = (call.script().name(), call.keys(), call.args());
        self.stats.digest.record((self.now, client, key, role == Role::Durable, words));
        self.net.waiting.insert(key, Waiting { client, role, life, who, fence, hold });
        let up = self.net.connection(client, role).up;
        let fault = if up { self.fault_for(client, &call) } else { None };
        if let Some(fault) = &fault {
            self.stats.fault(fault.kind());
            if !matches!(fault, CallFault::CopyAfter(_)) {
                self.note_fault_of(client, self.now);
            }
        }
        if !up || matches!(fault, Some(CallFault::NotSent)) {
            let result = Err(LinkError::NotSent("no connection".to_owned()));
            return self.at(self.now, Message::Answer { key, result });
        }
        let more = match fault {
            #[cfg(test)]
            Some(CallFault::Delay(more)) => more,
            _ => Duration::ZERO,
        };
        let delay = self.delay(client) + more;
        // The session times out a task's call.
        if let Caller::Background(_) = self.net.waiting[&key].who {
            let result = Err(LinkError::Unknown("timed out".to_owned()));
            let within = call.replicas().map_or(Duration::ZERO, |replicas| replicas.within);
            let timeout = self.clients[client].session.settings().command_timeout + within;
            self.after(timeout, Message::Answer { key, result });
        }
        let now = self.now;
        let at = self.net.connection(client, role).arrival(now + delay);
        let at = self.worst_instant(client, at, &call);
        self.net.connection(client, role).last_arrival = at;
        if let Some(CallFault::CopyAfter(more)) = fault {
            // A copy never comes before what it is a copy of.
            self.at(at + more, Message::Copy { key, call: call.clone() });
        }
        if matches!(fault, Some(CallFault::LoseRequest)) {
            return self.at(at, Message::Lost { client, role, lose: true });
        }
        let reply = match fault {
            Some(CallFault::LoseReply) => ReplyFate::Lost,
            Some(CallFault::Swallow) => ReplyFate::Swallowed,
            Some(CallFault::Refuse(text)) => ReplyFate::Refused(text),
            Some(CallFault::Inside(inside)) => ReplyFate::Inside(inside),
            _ => ReplyFate::Comes,
        };
        if call.script().name().ends_with("/acquire") {
            self.net.sent.insert(key, now);
        }
        self.at(at, Message::Arrive { key, client, role, life, call, reply });
    }
}
