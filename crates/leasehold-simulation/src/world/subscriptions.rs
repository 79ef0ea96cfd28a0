//! Subscriptions, the notices that come by them, and everything else that a client's link tells it of.

use crate::world::client::Client;
use crate::world::conditions::CallFault;
use crate::world::message::Message;
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::link::{Link, LinkError, LinkEvent, ServerError};
use leasehold_embedded::EmbeddedLink;
use std::mem::discriminant;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

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
