//! The network between clients and the server: order within a connection, and everything that can happen to a call on its way.

use crate::world::draws::Draws;
use crate::world::events::{CallKey, Message, ReplyFate, hold_of};
use crate::world::history::Fact;
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::LinkError;
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;
use leasehold_embedded::RefuseAt;
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
    /// Releases that the server has refused, and of which a copy may come.
    pub(crate) refused_releases: FxHashSet<CallKey>,
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
            refused_releases: FxHashSet::default(),
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

/// A fault for one call.
#[derive(Clone, Debug)]
pub(crate) struct PlannedFault {
    pub(crate) client: usize,
    pub(crate) script: &'static str,
    pub(crate) kind: CallFault,
}

#[derive(Clone, Debug)]
pub(crate) enum CallFault {
    LoseRequest,
    LoseReply,
    Swallow,
    NotSent,
    Refuse(&'static str),
    /// The script is refused something in its middle.
    Inside(RefuseAt),
    #[cfg(test)]
    Delay(Duration),
    CopyAfter(Duration),
}

impl CallFault {
    pub(crate) const fn kind(&self) -> FaultKind {
        match self {
            Self::LoseRequest => FaultKind::LostRequest,
            Self::LoseReply => FaultKind::LostReply,
            Self::Swallow => FaultKind::Swallowed,
            Self::NotSent => FaultKind::NotSent,
            Self::Refuse(_) => FaultKind::Refused,
            Self::Inside(_) => FaultKind::RefusedInside,
            #[cfg(test)]
            Self::Delay(_) => FaultKind::Delay,
            Self::CopyAfter(_) => FaultKind::LateCopy,
        }
    }
}

/// How likely what is.
#[derive(Clone, Debug)]
pub(crate) struct CallRates {
    pub(crate) delay: (Duration, Duration),
    pub(crate) spike: f64,
    pub(crate) spike_of: Duration,
    pub(crate) lose_request: f64,
    pub(crate) lose_reply: f64,
    pub(crate) swallow: f64,
    pub(crate) not_sent: f64,
    pub(crate) refuse: f64,
    /// That a script is refused something in its middle.
    pub(crate) inside: f64,
    pub(crate) copy_now: f64,
    pub(crate) copy_late: f64,
    pub(crate) unproven: f64,
    pub(crate) settle_fails: f64,
    pub(crate) subscribe_fails: f64,
    pub(crate) lose_notice: f64,
    /// That a command arrives just before, at, or just after the end of one of its keys.
    pub(crate) worst_instant: f64,
}

impl Default for CallRates {
    fn default() -> Self {
        Self {
            delay: (Duration::from_micros(100), Duration::from_micros(300)),
            spike: 0.0,
            spike_of: Duration::ZERO,
            lose_request: 0.0,
            lose_reply: 0.0,
            swallow: 0.0,
            not_sent: 0.0,
            refuse: 0.0,
            inside: 0.0,
            copy_now: 0.0,
            copy_late: 0.0,
            unproven: 0.0,
            settle_fails: 0.0,
            subscribe_fails: 0.0,
            lose_notice: 0.0,
            worst_instant: 0.0,
        }
    }
}

impl World {
    /// The fault that this call meets.
    pub(crate) fn fault_for(&mut self, client: usize, call: &Call) -> Option<CallFault> {
        let script = call.script().name();
        if let Some(index) = self.net.planned.iter().position(|fault| fault.client == client && fault.script == script)
        {
            return Some(self.net.planned.remove(index).kind);
        }
        let rates = self.net.rates.clone();
        if self.chance(rates.lose_request) {
            return Some(CallFault::LoseRequest);
        }
        if self.chance(rates.lose_reply) {
            return Some(CallFault::LoseReply);
        }
        if self.chance(rates.swallow) {
            return Some(CallFault::Swallow);
        }
        if self.chance(rates.not_sent) {
            return Some(CallFault::NotSent);
        }
        if self.chance(rates.refuse) {
            let text = ["LOADING Redis is loading", "OOM command not allowed", "READONLY You can't write"];
            return Some(CallFault::Refuse(text[self.rng.usize(..3)]));
        }
        if rates.inside > 0.0 && self.net.insides.f64() < rates.inside {
            // Few scripts use more than a dozen names of commands; what they come to last is the most interesting.
            return Some(CallFault::Inside(RefuseAt::Command(self.net.insides.u32(1..=12))));
        }
        // Only what a copy may come of later: a changed count of a hold that goes on is settled before it changes again.
        let change = hold_of(call);
        let changes_count = change.is_some();
        let first_or_last = change.is_some_and(|(_, count)| count == u32::from(script.ends_with("/acquire")));
        if self.chance(rates.copy_late) && (!changes_count || first_or_last) {
            return Some(CallFault::CopyAfter(self.between(Duration::ZERO, ms(2_000))));
        }
        None
    }

    /// Perhaps lets a command arrive in the last moment of one of its keys, at its end, or just after it.
    pub(crate) fn worst_instant(&mut self, client: usize, at: Instant, call: &Call) -> Instant {
        if !self.chance(self.net.rates.worst_instant) {
            return at;
        }
        let wall = self.server.wall_millis();
        let into = Duration::from_nanos(self.now.as_nanos() % 1_000_000);
        for key in call.keys().to_vec() {
            let Ok(Reply::Int(left @ 0..)) = self.server.command(&[b"PTTL", &key]) else { continue };
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
                self.server.ends.insert(key, wall + left);
                return aimed;
            }
        }
        at
    }

    /// Notes when a command comes so near to the end of a key.
    pub(crate) fn note_expiry(&mut self, call: &Call) {
        if self.net.rates.worst_instant <= 0.0 {
            return;
        }
        let wall = self.server.wall_millis();
        for key in call.keys().to_vec() {
            let left = self.server.command(&[b"PTTL", &key]);
            let after = self.server.ends.get(&key).is_some_and(|end| end + 1 == wall);
            match left {
                Ok(Reply::Int(1)) => self.stats.reach(Coverage::BeforeExpiry),
                Ok(Reply::Int(0)) => self.stats.reach(Coverage::AtExpiry),
                Ok(Reply::Int(-2)) if after => self.stats.reach(Coverage::AfterExpiry),
                _ => {}
            }
        }
    }
}
