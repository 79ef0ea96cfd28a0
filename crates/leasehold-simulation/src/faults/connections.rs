//! Connections that are lost, or stall, and clients that cannot reach the server.

use crate::report::stats::FaultKind;
use crate::world::dispatch::next_event;
use crate::world::event::{CallKey, WorldEvent};
use crate::world::network::Connection;
use crate::world::{World, ms, trace};
use leasehold_core::link::{Epoch, LinkError, LinkEvent, Plane};
use std::time::Duration;

/// The link's name of the server.
const SERVER: &str = "server:6379";

/// The words of the link when the server cannot be reached.
fn out_of_reach() -> LinkEvent {
    let (server, why) = (SERVER.to_owned(), "it does not answer".to_owned());
    LinkEvent::OutOfReach { server, why, lost_for: ms(1), slots: None }
}

impl World {
    /// A connection is lost: what waits for a reply ends, and it comes back in a new epoch.
    pub(crate) fn reset(&mut self, client: usize, plane: Plane) {
        trace!(self, "client {client}: {plane:?} is lost");
        self.note_fault_of(client, self.now);
        self.net.epochs += 1;
        let epoch = Epoch(self.net.epochs);
        let now = self.now;
        let connection = self.net.connection(client, plane);
        let old = connection.epoch;
        let killed = connection.killed;
        let fence = connection.fence;
        *connection =
            Connection { epoch, up: false, killed, last_arrival: now, last_reply: now, frozen_until: now, fence };
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
                WorldEvent::Answer { key, result: Err(LinkError::Unknown("the connection was lost".to_owned())) },
            );
        }
        let pause = self.between(ms(0), ms(5));
        self.after(pause, WorldEvent::Reconnected { client, plane });
    }

    pub(crate) fn reset_notices(&mut self, client: usize) {
        self.net.wires[client].life += 1;
        self.clients[client].notices.reset_notices();
        while next_event(&self.clients[client]).is_some() {}
    }

    pub(crate) fn set_unreachable(&mut self, client: usize, yes: bool) {
        trace!(self, "client {client} cannot reach the server: {yes}");
        self.note_fault_of(client, self.now);
        if yes {
            self.stats.fault(FaultKind::Unreachable);
        }
        let changes = std::mem::replace(&mut self.net.wires[client].reachable, !yes) == yes;
        if changes {
            let event =
                if yes { out_of_reach() } else { LinkEvent::Connected { server: SERVER.to_owned(), again: true } };
            self.after(ms(1), WorldEvent::Event { client, event });
        }
        for plane in [Plane::Foreground, Plane::Lifeline] {
            if yes && self.net.connection(client, plane).up {
                self.reset(client, plane);
            } else if !yes {
                self.after(ms(1), WorldEvent::Reconnected { client, plane });
            }
        }
        if yes {
            self.reset_notices(client);
        } else {
            self.after(ms(1), WorldEvent::Event { client, event: LinkEvent::NoticesReset });
        }
    }

    /// A client's connections work again.
    pub(crate) fn thaw(&mut self, client: usize) {
        if !self.net.wires[client].reachable {
            self.set_unreachable(client, false);
        }
        // A frozen client thaws by itself.
        self.note_fault_of(client, self.now + ms(1_500));
    }

    /// Nothing that a client sends by a plane's connection arrives for a while; order is kept.
    pub(crate) fn freeze(&mut self, client: usize, plane: Plane, pause: Duration) {
        trace!(self, "client {client}: {plane:?} freezes for {pause:?}");
        let until = self.now + pause;
        self.note_fault_of(client, until);
        let connection = self.net.connection(client, plane);
        connection.frozen_until = until;
        connection.last_arrival = connection.last_arrival.max(until);
        let now = connection.epoch;
        let is_on_it = |what: &WorldEvent| matches!(what, WorldEvent::Arrive { client: c, plane: p, epoch, .. } if (*c, *p, *epoch) == (client, plane, now));
        let frozen: Vec<_> =
            self.queue.iter().filter(|((at, _), what)| *at < until && is_on_it(what)).map(|(key, _)| *key).collect();
        for key in frozen {
            if let Some(what) = self.queue.remove(&key) {
                self.queue.insert((until, key.1), what);
            }
        }
    }
}
