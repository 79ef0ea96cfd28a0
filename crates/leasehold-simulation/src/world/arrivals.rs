//! The arrival of calls and subscriptions at the server, and of replies and notices at their clients.

use crate::world::client::{Client, PollPolicy};
use crate::world::events::{CallKey, Message, ReplyFate, hold_of};
use crate::world::history::Fact;
use crate::world::network::{CallFault, Caller, Role, Waiting};
use crate::world::server::{acknowledged, of_script};
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Link, LinkError, LinkEvent, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedLink, RefusalEffect, RefuseAt};
use std::mem::discriminant;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

impl World {
    pub(crate) fn arrive(&mut self, key: CallKey, client: usize, role: Role, life: u64, call: Call, reply: ReplyFate) {
        if life <= self.net.connection(client, role).killed {
            trace!(self, "call {key} dies with its connection");
            return;
        }
        let wires = &mut self.net.wires[client];
        if key < wires.latest {
            self.stats.reach(Coverage::Overtaken);
        }
        wires.latest = wires.latest.max(key);
        let script = call.script().name();
        if self.net.unknown_script.remove(&key) {
            // This time it is the text.
            self.server.learn(script);
        } else if !self.server.knows(script) {
            self.net.unknown_script.insert(key);
            let at = self.reply_at(client, role);
            return self.at(at, Message::NoScript { key, client, role, call, reply });
        }
        self.note_way(key, &call);
        self.note_expiry(&call);
        let result = match reply {
            ReplyFate::Refused(text) => Err(ServerError::new(text)),
            ReplyFate::Inside(inside) => self.execute_refused(&call, inside),
            _ => self.execute(&call),
        };
        trace!(self, "call {key} arrives: {result:?}");
        if result.is_err() && script.ends_with("/release") {
            self.net.refused_releases.insert(key);
        }
        if !matches!(reply, ReplyFate::Refused(_) | ReplyFate::Inside(_)) && self.chance(self.net.rates.copy_now) {
            trace!(self, "call {key} arrives again");
            self.stats.fault(FaultKind::Resent);
            drop(self.execute(&call));
        }
        match reply {
            ReplyFate::Comes | ReplyFate::Refused(_) | ReplyFate::Inside(_) => {
                let (result, waited) = self.acknowledge(&call, result);
                let at = self.reply_at(client, role) + waited;
                let at = self.net.connection(client, role).reply(at);
                self.at(at, Message::Answer { key, result: result.map_err(LinkError::Refused) });
            }
            ReplyFate::Lost => {
                // Nothing that follows on this connection is answered before that is seen.
                let at = self.reply_at(client, role);
                self.at(at, Message::Lost { client, role, lose: false });
            }
            // Nothing that is sent by this connection from here on is answered while it lasts.
            ReplyFate::Swallowed => self.freeze(client, role, ms(1_500)),
        }
    }

    /// The reply to a call that has just been executed, and for how long it waits for a replica first.
    fn acknowledge(
        &mut self,
        call: &Call,
        result: Result<Reply, ServerError>,
    ) -> (Result<Reply, ServerError>, Duration) {
        match (call.replicas(), result) {
            (Some(wanted), Ok(reply)) => {
                let (by, waited) = self.wait_for_replica(wanted);
                (Ok(acknowledged(reply, by)), waited)
            }
            (_, result) => (result, Duration::ZERO),
        }
    }

    /// When a reply to what has just arrived comes to the client.
    fn reply_at(&mut self, client: usize, role: Role) -> Instant {
        let at = self.now + self.delay(client);
        self.net.connection(client, role).reply(at)
    }

    /// A copy of a call comes to the server.
    pub(crate) fn arrive_again(&mut self, key: CallKey, call: Call) {
        if self.net.unknown_script.contains(&key) && self.net.waiting.contains_key(&key) {
            // The call that it is a copy of comes once more, as a text, and it never comes before that.
            return self.after(ms(1), Message::Copy { key, call });
        }
        let script = call.script().name();
        trace!(self, "a copy arrives: {script} {:?}", call.args());
        if !self.server.knows(script) {
            // It names its script, as what it is a copy of did.
            return;
        }
        if self.net.refused_releases.contains(&key) {
            self.doubts.refused_releases.extend(hold_of(&call).map(|(id, _)| id));
        }
        self.tell(Fact::Copied(&call));
        drop(self.execute(&call));
    }

    /// The link learns that the server does not know the script of a call, and sends its text, unless the call was settled meanwhile.
    pub(crate) fn no_script(&mut self, key: CallKey, client: usize, role: Role, call: Call, reply: ReplyFate) {
        let Some(waiting) = self.net.waiting.get(&key) else { return };
        let (life, fence) = (waiting.life, waiting.fence);
        let connection = self.net.connection(client, role);
        if !connection.up || connection.life != life {
            self.net.unknown_script.remove(&key);
            return;
        }
        if connection.fence != fence {
            self.net.unknown_script.remove(&key);
            if call.script().name().ends_with("/release") {
                self.doubts.refused_releases.extend(hold_of(&call).map(|(id, _)| id));
            }
            self.note_fault_of(client, self.now);
            let refusal = ServerError::new("NOSCRIPT No matching script, and it was settled meanwhile");
            let result = Err(LinkError::Refused(refusal));
            return self.at(self.now, Message::Answer { key, result });
        }
        self.stats.reach(Coverage::NoScript);
        let delay = self.delay(client);
        let at = self.net.connection(client, role).arrival(self.now + delay);
        self.at(at, Message::Arrive { key, client, role, life, call, reply });
    }

    /// Notes where an acquire was on its way for longer than the lease that it asks for: its client reckons with it no more.
    fn note_way(&mut self, key: CallKey, call: &Call) {
        let Some(sent) = self.net.sent.remove(&key) else { return };
        let lease = call.args().get(2).and_then(|lease| std::str::from_utf8(lease).ok()?.parse().ok());
        if let (Some((id, _)), Some(lease)) = (hold_of(call), lease)
            && self.now.since(sent) > Duration::from_millis(lease)
        {
            self.doubts.outlasted.insert(id);
        }
    }

    /// Runs a script on the server, and sends the notices of it.
    pub(crate) fn execute(&mut self, call: &Call) -> Result<Reply, ServerError> {
        self.tell(Fact::Arrives(call));
        let result = self.server.execute(call);
        self.executed(call, result, RefusalEffect::Nothing)
    }

    /// The same, where the user lacks the right to a command of the script.
    fn execute_refused(&mut self, call: &Call, inside: RefuseAt) -> Result<Reply, ServerError> {
        self.tell(Fact::Arrives(call));
        let denied = ServerError::new("ERR ACL failure in script: User app has no permissions to run a command");
        let (result, met) = self.server.execute_refused(call, inside, denied);
        self.server.met = met;
        self.executed(call, result, met)
    }

    fn executed(
        &mut self,
        call: &Call,
        result: Result<Reply, ServerError>,
        met: RefusalEffect,
    ) -> Result<Reply, ServerError> {
        let result = result.map(|reply| of_script(call, reply));
        let result = result.map_err(|error| error.of_script(call.script(), call.script()));
        if let Some((id, _)) = hold_of(call).filter(|_| met == RefusalEffect::AfterWriting) {
            // A release that was refused may have been carried out.
            self.doubts.doubtful.insert(id.clone());
            self.doubts.half_done.insert(id);
        }
        self.tell(Fact::Executed { call, result: &result, met });
        self.deliver_notices();
        result
    }

    pub(crate) fn answer(&mut self, key: CallKey, result: Result<Reply, LinkError>) {
        let Some(Waiting { client, who, hold, .. }) = self.net.waiting.remove(&key) else { return };
        self.stats.digest.record((self.now, client, key, result.as_ref().ok()));
        if matches!(result, Err(LinkError::Unknown(_))) {
            self.doubts.doubtful.extend(hold);
        }
        trace!(self, "call {key} is answered: {result:?}");
        let now = self.local(client);
        let id = match who {
            Caller::Background(id) => id,
            Caller::Task(task, id) => {
                self.clients[client].tasks[task].call.take_if(|(known, _)| *known == id);
                id
            }
        };
        let ahead = self.clients[client].session.granted_ahead();
        self.clients[client].session.handle_called(now, id, result);
        let asked_ahead = self.clients[client].session.granted_ahead() > ahead;
        self.stats.reach_all(asked_ahead.then_some(Coverage::AskedAhead));
        let Caller::Task(task, _) = who else { return self.look_after(client) };
        let reign = self.server.reign();
        let state = &mut self.clients[client].tasks[task];
        state.reign = reign;
        if state.polls == PollPolicy::AtOnce && !state.drop_at_reply {
            state.is_answered_now = true;
            self.poll(client, task);
            self.clients[client].tasks[task].is_answered_now = false;
        }
        self.look_after(client);
        if self.clients[client].tasks[task].drop_at_reply {
            self.abandon(client, task);
        }
    }
}

impl World {
    pub(crate) fn change_subscription(&mut self, client: usize, channel: Bytes, wanted: bool) {
        trace!(self, "client {client} wants notices of {channel:?}: {wanted}");
        self.stats.digest.record((self.now, client, &channel, wanted));
        self.net.subscribes += usize::from(wanted);
        let wires = &self.net.wires[client];
        let (life, reachable) = (wires.life, wires.reachable);
        let delay = self.delay(client);
        if !reachable {
            let result = Err(LinkError::NotSent("no connection".to_owned()));
            return self.after(ms(1), Message::SubscriptionAnswer { client, channel, wanted, life, result });
        }
        let fate = if self.chance(self.net.rates.subscribe_fails) {
            self.note_fault_of(client, self.now);
            self.stats.fault(FaultKind::SubscribeFailed);
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
        self.at(at, Message::Subscription { client, channel, wanted, life, fate });
    }

    fn fault_for_subscription(&mut self, client: usize, wanted: bool) -> Option<&'static str> {
        let script = if wanted { "subscribe" } else { "unsubscribe" };
        let index = self.net.planned.iter().position(|fault| fault.client == client && fault.script == script)?;
        match self.net.planned.remove(index).kind {
            CallFault::Refuse(text) => Some(text),
            other => panic!("no fault of a subscription: {other:?}"),
        }
    }

    pub(crate) fn subscription(
        &mut self,
        client: usize,
        channel: Bytes,
        wanted: bool,
        life: u64,
        fate: Result<(), LinkError>,
    ) {
        // A command that is lost may have been carried out.
        let done = fate.is_ok() || (matches!(fate, Err(LinkError::Unknown(_))) && self.rng.bool());
        if done && self.net.wires[client].life == life {
            let link = &self.clients[client].notices;
            let channel = channel.clone();
            if wanted { at_once(link.subscribe(channel)) } else { at_once(link.unsubscribe(channel)) }
                .expect("an embedded link can subscribe");
        }
        let delay = self.delay(client);
        self.after(delay, Message::SubscriptionAnswer { client, channel, wanted, life, result: fate });
    }

    /// The confirmation of a subscription, or of its end, comes to the client.
    pub(crate) fn subscription_answered(
        &mut self,
        client: usize,
        channel: Bytes,
        wanted: bool,
        life: u64,
        result: Result<(), LinkError>,
    ) {
        let result = if self.net.wires[client].life == life {
            result
        } else {
            result.and_then(|()| if wanted { Err(LinkError::Unknown("lost".to_owned())) } else { Ok(()) })
        };
        trace!(self, "client {client} notices of {channel:?}: {wanted} {result:?}");
        let now = self.local(client);
        let session = &mut self.clients[client].session;
        if wanted {
            session.handle_subscribed(now, &channel, result);
        } else {
            session.handle_unsubscribed(now, &channel, result);
        }
        self.look_after(client);
    }

    /// Sends the notices that the server has published to those who listen.
    pub(crate) fn deliver_notices(&mut self) {
        let outer = self.draw_for("notices");
        for client in 0..self.clients.len() {
            self.draw_for(("notices", outer, client));
            while let Some(event) = next_event(&self.clients[client]) {
                if self.chance(self.net.rates.lose_notice) {
                    self.stats.fault(FaultKind::LostNotice);
                    continue;
                }
                if matches!(event, LinkEvent::Notice { .. } | LinkEvent::Offered { .. } | LinkEvent::Wanted { .. }) {
                    let delay = self.delay(client);
                    if delay > self.net.rates.delay.1 {
                        self.stats.reach(Coverage::LateNotice);
                    }
                    let wires = &mut self.net.wires[client];
                    let at = (self.now + delay).max(wires.last_notice);
                    wires.last_notice = at;
                    let life = wires.life;
                    self.at(at, Message::Notice { client, event, life });
                }
            }
        }
        self.draw_as(outer);
    }

    pub(crate) fn event(&mut self, client: usize, event: LinkEvent) {
        trace!(self, "client {client} link: {event:?}");
        self.stats.digest.record((self.now, client, "link", discriminant(&event)));
        let now = self.local(client);
        let wanted = matches!(event, LinkEvent::Wanted { .. });
        let lingering = self.lingering_of(client);
        self.clients[client].session.handle_event(now, event);
        let gave_way = wanted && self.lingering_of(client) < lingering;
        self.stats.reach_all(gave_way.then_some(Coverage::GaveWay));
        self.look_after(client);
    }
}

pub(crate) fn next_event(client: &Client) -> Option<LinkEvent> {
    next_event_of(&client.notices)
}

pub(crate) fn next_event_of(link: &EmbeddedLink) -> Option<LinkEvent> {
    match pin!(link.event()).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(event) => event,
        Poll::Pending => None,
    }
}

pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("an embedded link does not wait"),
    }
}
