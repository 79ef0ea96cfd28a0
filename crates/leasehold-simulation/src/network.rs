//! The network between clients and the server: order within a connection, and everything that can go wrong.

use crate::client::Client;
use crate::happening::{CallKey, Happening, ReplyFate};
use crate::kinds::hold_of;
use crate::weather::FaultKind;
use crate::world::{World, ms, tell};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, Link, LinkError, LinkEvent, Plane, ServerError, Settled};
use leasehold_core::reply::Reply;
use leasehold_core::session::{CallId, FlightId, Via};
use leasehold_core::time::Instant;
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A connection of a plane.
#[derive(Debug)]
struct Connection {
    epoch: Epoch,
    up: bool,
    /// Of connections up to this nothing arrives any more.
    killed: Epoch,
    last_arrival: Instant,
    last_reply: Instant,
    frozen_until: Instant,
}

#[derive(Debug)]
struct Wires {
    planes: [Connection; 2],
    /// The life of the notice connection.
    life: u64,
    reachable: bool,
    last_notice: Instant,
    last_subscription: Instant,
}

/// Who waits for a call.
#[derive(Debug)]
struct Waiting {
    client: usize,
    plane: Plane,
    epoch: Epoch,
    who: Caller,
}

#[derive(Debug, Clone, Copy)]
enum Caller {
    Task(usize),
    Lifeline(CallId),
}

#[derive(Debug, Default)]
pub(crate) struct Network {
    wires: Vec<Wires>,
    waiting: BTreeMap<CallKey, Waiting>,
    /// Barriers and kills under way.
    settling: HashSet<(usize, CallId)>,
    epochs: u64,
    /// How often anybody subscribed.
    pub(crate) subscribes: usize,
    pub(crate) restarts: u32,
}

impl Network {
    pub(crate) fn add_client(&mut self) {
        let mut connection = || {
            self.epochs += 1;
            let start = Instant::from_nanos(0);
            Connection {
                epoch: Epoch(self.epochs),
                up: true,
                killed: Epoch(0),
                last_arrival: start,
                last_reply: start,
                frozen_until: start,
            }
        };
        let planes = [connection(), connection()];
        let start = Instant::from_nanos(0);
        self.wires.push(Wires { planes, life: 0, reachable: true, last_notice: start, last_subscription: start });
    }

    fn connection(&mut self, client: usize, plane: Plane) -> &mut Connection {
        &mut self.wires[client].planes[usize::from(plane == Plane::Lifeline)]
    }

    fn kill(&mut self, client: usize, plane: Plane, epoch: Epoch) {
        let connection = self.connection(client, plane);
        connection.killed = connection.killed.max(epoch);
    }

    /// Whether a client waits for nothing.
    pub(crate) fn is_idle(&self, client: usize) -> bool {
        self.waiting.values().all(|waiting| waiting.client != client)
            && self.settling.iter().all(|(other, _)| *other != client)
    }
}

impl World {
    fn chance(&mut self, likely: f64) -> bool {
        likely > 0.0 && self.rng.f64() < likely
    }

    pub(crate) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most - least).mul_f64(self.rng.f64())
    }

    fn delay(&mut self) -> Duration {
        let (least, most) = self.weather.delay;
        let delay = self.between(least, most);
        if self.chance(self.weather.spike) {
            return delay + self.between(Duration::ZERO, self.weather.spike_of);
        }
        delay
    }

    /// Where a caller's call goes.
    pub(crate) fn via(&mut self, client: usize) -> Via {
        Via { plane: Plane::Foreground, epoch: self.net.connection(client, Plane::Foreground).epoch }
    }

    pub(crate) fn send_by_task(&mut self, client: usize, task: usize, flight: FlightId, via: Via, call: Call) {
        let key = self.number();
        let state = &mut self.clients[client].tasks[task];
        state.flight = Some((flight, key));
        state.reply = None;
        state.sent += 1;
        let ticket = state.ticket;
        tell!(self, "client {client} {ticket:?} sends {key}: {} {:?}", call.script().name(), call.args());
        self.send(key, client, via.plane, Caller::Task(task), call);
    }

    pub(crate) fn send_by_lifeline(&mut self, client: usize, id: CallId, call: Call) {
        let key = self.number();
        tell!(self, "client {client} lifeline {id:?} sends {key}: {} {:?}", call.script().name(), call.args());
        self.send(key, client, Plane::Lifeline, Caller::Lifeline(id), call);
    }

    fn send(&mut self, key: CallKey, client: usize, plane: Plane, who: Caller, call: Call) {
        let epoch = self.net.connection(client, plane).epoch;
        self.net.waiting.insert(key, Waiting { client, plane, epoch, who });
        let up = self.net.connection(client, plane).up;
        let fault = if up { self.fault_for(client, &call) } else { None };
        if !matches!(fault, None | Some(FaultKind::CopyAfter(_))) {
            self.last_fault = self.now;
        }
        if !up || matches!(fault, Some(FaultKind::NotSent)) {
            let result = Err(LinkError::NotSent("no connection".to_owned()));
            return self.at(self.now, Happening::Answer { key, result });
        }
        if let Some(FaultKind::Refuse(text)) = fault {
            let delay = self.delay() * 2;
            let result = Err(LinkError::Refused(ServerError::new(text)));
            return self.after(delay, Happening::Answer { key, result });
        }
        let more = match fault {
            #[cfg(test)]
            Some(FaultKind::Delay(more)) => more,
            _ => Duration::ZERO,
        };
        let delay = self.delay() + more;
        if plane == Plane::Lifeline {
            let result = Err(LinkError::Unknown("timed out".to_owned()));
            let timeout = self.clients[client].session.settings().command_timeout;
            self.after(timeout, Happening::Answer { key, result });
        }
        let now = self.now;
        let connection = self.net.connection(client, plane);
        let at = (now + delay).max(connection.last_arrival).max(connection.frozen_until);
        connection.last_arrival = at;
        if let Some(FaultKind::CopyAfter(more)) = fault {
            // A copy never comes before what it is a copy of.
            self.at(at + more, Happening::Copy { call: call.clone() });
        }
        if matches!(fault, Some(FaultKind::LoseRequest)) {
            return self.at(at, Happening::Reset { client, plane, lose: true });
        }
        let reply = match fault {
            Some(FaultKind::LoseReply) => ReplyFate::Lost,
            Some(FaultKind::Swallow) => ReplyFate::Swallowed,
            _ => ReplyFate::Comes,
        };
        self.at(at, Happening::Arrive { key, client, plane, epoch, call, reply });
    }

    /// The fault that this call meets.
    fn fault_for(&mut self, client: usize, call: &Call) -> Option<FaultKind> {
        let script = call.script().name();
        if let Some(index) = self.faults.iter().position(|fault| fault.client == client && fault.script == script) {
            return Some(self.faults.remove(index).kind);
        }
        let weather = self.weather.clone();
        if self.chance(weather.lose_request) {
            return Some(FaultKind::LoseRequest);
        }
        if self.chance(weather.lose_reply) {
            return Some(FaultKind::LoseReply);
        }
        if self.chance(weather.swallow) {
            return Some(FaultKind::Swallow);
        }
        if self.chance(weather.not_sent) {
            return Some(FaultKind::NotSent);
        }
        if self.chance(weather.refuse) {
            let text = ["LOADING Redis is loading", "OOM command not allowed", "READONLY You can't write"];
            return Some(FaultKind::Refuse(text[self.rng.usize(..3)]));
        }
        // Only what a copy may come of later: a changed count of a hold that goes on is settled before it changes again.
        let change = hold_of(call);
        let changes_count = change.is_some();
        let first_or_last = change.is_some_and(|(_, count)| count == u32::from(script.ends_with("/acquire")));
        if self.chance(weather.copy_late) && (!changes_count || first_or_last) {
            return Some(FaultKind::CopyAfter(self.between(Duration::ZERO, ms(2_000))));
        }
        None
    }

    pub(crate) fn settle(&mut self, client: usize, id: CallId, plane: Plane, epoch: Epoch) {
        tell!(self, "client {client} settles {plane:?} up to {epoch:?} as {id:?}");
        self.net.settling.insert((client, id));
        if !self.net.wires[client].reachable || self.chance(self.weather.settle_fails) {
            self.last_fault = self.now;
            return self.after(ms(5), Happening::SettleFailed { client, id });
        }
        let delay = self.delay();
        let now = self.now;
        let connection = self.net.connection(client, plane);
        if connection.up && epoch >= connection.epoch {
            let epoch = connection.epoch;
            let at = (now + delay).max(connection.last_arrival).max(connection.frozen_until);
            connection.last_arrival = at;
            let back = self.delay();
            let connection = self.net.connection(client, plane);
            let back = (at + back).max(connection.last_reply);
            connection.last_reply = back;
            let timeout = self.clients[client].session.settings().command_timeout / 2;
            if back <= now + timeout {
                return self.at(back, Happening::Settled { client, plane, epoch, id });
            }
            return self.after(timeout, Happening::Kill { client, plane, epoch, id });
        }
        // A connection that is yet to come has carried nothing.
        let last = if connection.up { connection.epoch } else { Epoch(connection.epoch.0 - 1) };
        let epoch = epoch.min(last);
        self.at(now, Happening::Kill { client, plane, epoch, id });
    }

    pub(crate) fn change_subscription(&mut self, client: usize, channel: Bytes, wanted: bool) {
        tell!(self, "client {client} wants notices of {channel:?}: {wanted}");
        self.net.subscribes += usize::from(wanted);
        let wires = &self.net.wires[client];
        let (life, reachable) = (wires.life, wires.reachable);
        let delay = self.delay();
        if !reachable {
            let result = Err(LinkError::NotSent("no connection".to_owned()));
            return self.after(ms(1), Happening::SubscriptionAnswer { client, channel, wanted, life, result });
        }
        let fate = if self.chance(self.weather.subscribe_fails) {
            self.last_fault = self.now;
            Err(LinkError::Unknown("lost".to_owned()))
        } else {
            match self.fault_for_subscription(client, wanted) {
                Some(text) => Err(LinkError::Refused(ServerError::new(text))),
                None => Ok(()),
            }
        };
        let wires = &mut self.net.wires[client];
        let at = (self.now + delay).max(wires.last_subscription);
        wires.last_subscription = at;
        self.at(at, Happening::Subscription { client, channel, wanted, life, fate });
    }

    fn fault_for_subscription(&mut self, client: usize, wanted: bool) -> Option<&'static str> {
        let script = if wanted { "subscribe" } else { "unsubscribe" };
        let index = self.faults.iter().position(|fault| fault.client == client && fault.script == script)?;
        match self.faults.remove(index).kind {
            FaultKind::Refuse(text) => Some(text),
            other => panic!("no fault of a subscription: {other:?}"),
        }
    }

    /// Lets something happen.
    pub(crate) fn happen(&mut self, what: Happening) {
        match what {
            Happening::Arrive { key, client, plane, epoch, call, reply } => {
                self.arrive(key, client, plane, epoch, call, reply);
            }
            Happening::Copy { call } => {
                tell!(self, "a copy arrives: {} {:?}", call.script().name(), call.args());
                drop(self.execute(&call));
            }
            Happening::Answer { key, result } => self.answer(key, result),
            Happening::Settled { client, plane, epoch, id } => {
                let now = self.now;
                let connection = self.net.connection(client, plane);
                if connection.epoch == epoch && connection.up && connection.frozen_until <= now {
                    self.net.kill(client, plane, Epoch(epoch.0 - 1));
                    self.settled(client, id, Ok(Settled::Proven));
                } else {
                    self.at(self.now, Happening::Kill { client, plane, epoch, id });
                }
            }
            Happening::Kill { client, plane, epoch, id } => {
                let proven = !self.chance(self.weather.unproven);
                let delay = self.delay();
                if self.net.wires[client].reachable {
                    self.after(delay, Happening::Killed { client, plane, epoch, id, proven });
                } else {
                    self.after(ms(5), Happening::SettleFailed { client, id });
                }
            }
            Happening::Killed { client, plane, epoch, id, proven } => {
                if proven {
                    tell!(self, "client {client}: {plane:?} up to {epoch:?} is killed");
                    self.net.kill(client, plane, epoch);
                }
                if self.net.connection(client, plane).epoch <= epoch && self.net.connection(client, plane).up {
                    self.reset(client, plane);
                }
                let settled = if proven { Settled::Proven } else { Settled::Unproven };
                self.settled(client, id, Ok(settled));
            }
            Happening::SettleFailed { client, id } => {
                self.settled(client, id, Err(LinkError::NotSent("no connection".to_owned())));
            }
            Happening::Subscription { client, channel, wanted, life, fate } => {
                self.subscription(client, channel, wanted, life, fate);
            }
            Happening::SubscriptionAnswer { client, channel, wanted, life, result } => {
                let result = if self.net.wires[client].life == life {
                    result
                } else {
                    result.and_then(|()| if wanted { Err(LinkError::Unknown("lost".to_owned())) } else { Ok(()) })
                };
                tell!(self, "client {client} notices of {channel:?}: {wanted} {result:?}");
                let session = &mut self.clients[client].session;
                if wanted {
                    session.handle_subscribed(self.now, &channel, result);
                } else {
                    session.handle_unsubscribed(self.now, &channel, result);
                }
                self.look_after(client);
            }
            Happening::Notice { client, channel, life } => {
                if self.net.wires[client].life == life {
                    self.event(client, LinkEvent::Notice { channel });
                }
            }
            Happening::Event { client, event } => self.event(client, event),
            Happening::Reset { client, plane, lose } => {
                self.last_fault = self.now;
                if self.net.connection(client, plane).up {
                    if lose {
                        let epoch = self.net.connection(client, plane).epoch;
                        self.net.kill(client, plane, epoch);
                    }
                    self.reset(client, plane);
                }
            }
            Happening::Reconnected { client, plane } => {
                if self.net.wires[client].reachable && !self.net.connection(client, plane).up {
                    self.net.connection(client, plane).up = true;
                    self.event(client, LinkEvent::PlaneReset(plane));
                }
            }
            Happening::ResetNotices { client } => {
                self.last_fault = self.now;
                self.reset_notices(client);
                self.event(client, LinkEvent::NoticesReset);
            }
            Happening::Freeze { client, plane, pause } => {
                self.freeze(client, plane, pause);
            }
            Happening::Unreachable { client, yes } => self.set_unreachable(client, yes),
            Happening::RestartEmpty => self.restart_empty(),
            Happening::DenyGrowth { deny } => {
                self.last_fault = self.now;
                self.server.deny_growth(deny);
            }
            Happening::Poll { client, task } => self.poll(client, task),
            Happening::Abandon { client, task } => self.abandon(client, task),
            Happening::Start { client } => self.start_one(client),
            Happening::GiveUp { guard, how } => self.give_up(guard, how),
        }
    }

    fn arrive(&mut self, key: CallKey, client: usize, plane: Plane, epoch: Epoch, call: Call, reply: ReplyFate) {
        if epoch <= self.net.connection(client, plane).killed {
            tell!(self, "call {key} dies with its connection");
            return;
        }
        let now = self.now;
        let result = self.execute(&call);
        tell!(self, "call {key} arrives: {result:?}");
        if self.chance(self.weather.copy_now) {
            tell!(self, "call {key} arrives again");
            drop(self.execute(&call));
        }
        match reply {
            ReplyFate::Comes => {
                let delay = self.delay();
                let connection = self.net.connection(client, plane);
                let at = (now + delay).max(connection.last_reply);
                connection.last_reply = at;
                let result = result.map_err(LinkError::Refused);
                self.at(at, Happening::Answer { key, result });
            }
            ReplyFate::Lost => {
                let delay = self.delay();
                self.after(delay, Happening::Reset { client, plane, lose: false });
            }
            ReplyFate::Swallowed => {
                // Nothing that is sent by this connection from here on is answered while it lasts.
                self.freeze(client, plane, ms(1_500));
            }
        }
    }

    /// Runs a script on the server, and sends the notices of it.
    pub(crate) fn execute(&mut self, call: &Call) -> Result<Reply, ServerError> {
        let result = self.server.execute(call);
        if let Some((id, count)) = hold_of(call) {
            match &result {
                Ok(Reply::Int(1..=4)) => self.released.entry(id).or_default().push(count),
                Ok(Reply::Array(parts)) if parts[0] == Reply::Int(1) => self.was_granted(call, id, count),
                Ok(Reply::Array(parts)) if parts[0] == Reply::Int(4) => self.was_placed(call, id),
                _ => {}
            }
            if call.script().name().ends_with("/release") {
                self.left_queue(&hold_of(call).map(|(id, _)| id).unwrap_or_default());
            }
        }
        for client in 0..self.clients.len() {
            while let Some(event) = next_event(&self.clients[client]) {
                if let LinkEvent::Notice { channel } = event
                    && !self.chance(self.weather.lose_notice)
                {
                    let delay = self.delay();
                    let wires = &mut self.net.wires[client];
                    let at = (self.now + delay).max(wires.last_notice);
                    wires.last_notice = at;
                    let life = wires.life;
                    self.at(at, Happening::Notice { client, channel, life });
                }
            }
        }
        result
    }

    fn answer(&mut self, key: CallKey, result: Result<Reply, LinkError>) {
        let Some(Waiting { client, who, epoch, .. }) = self.net.waiting.remove(&key) else { return };
        match who {
            Caller::Task(task) => {
                let state = &mut self.clients[client].tasks[task];
                if state.flight.is_some_and(|(_, known)| known == key) && state.outcome.is_none() {
                    tell!(self, "call {key} is answered: {result:?}");
                    let state = &mut self.clients[client].tasks[task];
                    state.reply = Some(result);
                    std::task::Wake::wake(state.flag.clone());
                    self.plan_polls(client);
                }
            }
            Caller::Lifeline(id) => {
                tell!(self, "call {key} is answered: {result:?}");
                self.clients[client].session.handle_called(self.now, id, epoch, result);
                self.look_after(client);
            }
        }
    }

    fn settled(&mut self, client: usize, id: CallId, result: Result<Settled, LinkError>) {
        if !self.net.settling.remove(&(client, id)) {
            return;
        }
        tell!(self, "client {client} {id:?} settled: {result:?}");
        self.clients[client].session.handle_settled(self.now, id, result);
        self.look_after(client);
    }

    pub(crate) fn event(&mut self, client: usize, event: LinkEvent) {
        tell!(self, "client {client} link: {event:?}");
        self.clients[client].session.handle_event(self.now, event);
        self.look_after(client);
    }

    /// A connection is lost: what waits for a reply ends, and it comes back in a new epoch.
    pub(crate) fn reset(&mut self, client: usize, plane: Plane) {
        tell!(self, "client {client}: {plane:?} is lost");
        self.last_fault = self.last_fault.max(self.now);
        self.net.epochs += 1;
        let epoch = Epoch(self.net.epochs);
        let now = self.now;
        let connection = self.net.connection(client, plane);
        let old = connection.epoch;
        let killed = connection.killed;
        *connection = Connection { epoch, up: false, killed, last_arrival: now, last_reply: now, frozen_until: now };
        let lost: Vec<CallKey> = self
            .net
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.client == client && waiting.plane == plane && waiting.epoch <= old)
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            self.at(
                now,
                Happening::Answer { key, result: Err(LinkError::Unknown("the connection was lost".to_owned())) },
            );
        }
        let pause = self.between(ms(0), ms(5));
        self.after(pause, Happening::Reconnected { client, plane });
    }

    fn reset_notices(&mut self, client: usize) {
        self.net.wires[client].life += 1;
        self.clients[client].notices.reset_notices();
        while next_event(&self.clients[client]).is_some() {}
    }

    pub(crate) fn set_unreachable(&mut self, client: usize, yes: bool) {
        tell!(self, "client {client} cannot reach the server: {yes}");
        self.last_fault = self.now;
        self.net.wires[client].reachable = !yes;
        for plane in [Plane::Foreground, Plane::Lifeline] {
            if yes && self.net.connection(client, plane).up {
                self.reset(client, plane);
            } else if !yes {
                self.after(ms(1), Happening::Reconnected { client, plane });
            }
        }
        if yes {
            self.reset_notices(client);
        } else {
            self.after(ms(1), Happening::Event { client, event: LinkEvent::NoticesReset });
        }
    }

    pub(crate) fn restart_empty(&mut self) {
        tell!(self, "the server restarts empty");
        self.last_fault = self.now;
        self.net.restarts += 1;
        self.server.restart_empty();
        self.fill();
        self.places.clear();
        for client in 0..self.clients.len() {
            for plane in [Plane::Foreground, Plane::Lifeline] {
                if self.net.connection(client, plane).up {
                    let epoch = self.net.connection(client, plane).epoch;
                    self.net.kill(client, plane, epoch);
                    self.reset(client, plane);
                }
            }
            self.reset_notices(client);
            self.after(ms(1), Happening::Event { client, event: LinkEvent::NoticesReset });
        }
    }

    fn subscription(&mut self, client: usize, channel: Bytes, wanted: bool, life: u64, fate: Result<(), LinkError>) {
        // A command that is lost may have been carried out.
        let done = fate.is_ok() || (matches!(fate, Err(LinkError::Unknown(_))) && self.rng.bool());
        if done && self.net.wires[client].life == life {
            let link = &self.clients[client].notices;
            let channel = channel.clone();
            if wanted { at_once(link.subscribe(channel)) } else { at_once(link.unsubscribe(channel)) }
                .expect("an embedded link can subscribe");
        }
        let delay = self.delay();
        self.after(delay, Happening::SubscriptionAnswer { client, channel, wanted, life, result: fate });
    }
}

fn next_event(client: &Client) -> Option<LinkEvent> {
    match pin!(client.notices.event()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an embedded link does not wait"),
    }
}

impl World {
    /// A client's connections work again.
    pub(crate) fn thaw(&mut self, client: usize) {
        if !self.net.wires[client].reachable {
            self.set_unreachable(client, false);
        }
        // What is frozen thaws by itself.
        self.last_fault = self.now + ms(1_500);
    }

    /// Nothing that a client sends by a plane's connection arrives for a while; order is kept.
    pub(crate) fn freeze(&mut self, client: usize, plane: Plane, pause: Duration) {
        tell!(self, "client {client}: {plane:?} freezes for {pause:?}");
        let until = self.now + pause;
        self.last_fault = until;
        let connection = self.net.connection(client, plane);
        connection.frozen_until = until;
        connection.last_arrival = connection.last_arrival.max(until);
        let now = connection.epoch;
        let is_on_it = |what: &Happening| matches!(what, Happening::Arrive { client: c, plane: p, epoch, .. } if (*c, *p, *epoch) == (client, plane, now));
        let frozen: Vec<_> =
            self.queue.iter().filter(|((at, _), what)| *at < until && is_on_it(what)).map(|(key, _)| *key).collect();
        for key in frozen {
            if let Some(what) = self.queue.remove(&key) {
                self.queue.insert((until, key.1), what);
            }
        }
    }
}
