//! Connections: they are lost, stall and come back. Barriers and kills make sure that the server can no longer apply a client's earlier
//! calls.

use crate::world::arrivals::next_event;
use crate::world::events::{CallKey, Message, Settlement, WorldEvent};
use crate::world::network::{Connection, Role};
use crate::world::stats::FaultKind;
use crate::world::{World, ms, trace};
use leasehold_core::link::{LinkError, LinkEvent, Settled};
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;
use std::time::Duration;

/// The link's name of the server.
const SERVER: &str = "server:6379";

/// The words of the link when the server cannot be reached.
fn out_of_reach() -> LinkEvent {
    let (server, why) = (SERVER.to_owned(), "it does not answer".to_owned());
    LinkEvent::OutOfReach { server, why, lost_for: ms(1), slots: None }
}

impl World {
    /// A connection is lost by chance, or because of what was sent by it.
    pub(crate) fn lose_connection(&mut self, client: usize, role: Role, lose: bool) {
        self.note_fault_of(client, self.now);
        self.stats.fault(FaultKind::Reset);
        if self.net.connection(client, role).up {
            if lose {
                let life = self.net.connection(client, role).life;
                self.net.kill(client, role, life);
            }
            self.reset(client, role);
        }
    }

    /// The notice connection of a client is lost.
    pub(crate) fn lose_notice_connection(&mut self, client: usize) {
        self.note_fault_of(client, self.now);
        self.stats.fault(FaultKind::NoticesReset);
        self.reset_notices(client);
        self.at(self.now, Message::Event { client, event: LinkEvent::NoticesReset });
    }

    /// A connection works again.
    pub(crate) fn reconnected(&mut self, client: usize, role: Role) {
        if self.net.wires[client].reachable && !self.net.connection(client, role).up {
            self.net.connection(client, role).up = true;
            if role == Role::Calls {
                self.event(client, LinkEvent::CallsReset);
            }
        }
    }

    /// A connection is lost: what waits for a reply ends, and a new connection follows.
    pub(crate) fn reset(&mut self, client: usize, role: Role) {
        trace!(self, "client {client}: {role:?} is lost");
        self.note_fault_of(client, self.now);
        self.net.lives += 1;
        let life = self.net.lives;
        let now = self.now;
        let connection = self.net.connection(client, role);
        let old = connection.life;
        let killed = connection.killed;
        let fence = connection.fence;
        *connection =
            Connection { life, up: false, killed, last_arrival: now, last_reply: now, frozen_until: now, fence };
        let lost: Vec<CallKey> = self
            .net
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.client == client && waiting.role == role && waiting.life <= old)
            .map(|(key, _)| *key)
            .collect();
        for key in lost {
            self.at(
                now,
                Message::Answer { key, result: Err(LinkError::Unknown("the connection was lost".to_owned())) },
            );
        }
        let pause = self.between(ms(0), ms(5));
        self.after(pause, Message::Reconnected { client, role });
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
            self.after(ms(1), Message::Event { client, event });
        }
        for role in self.net.roles() {
            if yes && self.net.connection(client, role).up {
                self.reset(client, role);
            } else if !yes {
                self.after(ms(1), Message::Reconnected { client, role });
            }
        }
        if yes {
            self.reset_notices(client);
        } else {
            self.after(ms(1), Message::Event { client, event: LinkEvent::NoticesReset });
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

    /// Nothing that a client sends by a connection arrives for a while; order is kept.
    pub(crate) fn freeze(&mut self, client: usize, role: Role, pause: Duration) {
        trace!(self, "client {client}: {role:?} freezes for {pause:?}");
        let until = self.now + pause;
        self.note_fault_of(client, until);
        let connection = self.net.connection(client, role);
        connection.frozen_until = until;
        connection.last_arrival = connection.last_arrival.max(until);
        let now = connection.life;
        self.events.put_off_all(until, |what| {
            matches!(what, WorldEvent::Message(Message::Arrive { client: c, role: p, life, .. }) if (*c, *p, *life) == (client, role, now))
        });
    }

    pub(crate) fn settle(&mut self, client: usize, id: CallId, durable: bool) {
        trace!(self, "client {client} settles as {id:?}");
        self.stats.digest.record((self.now, client, "settle", durable));
        self.net.settling.insert((client, id));
        if !self.net.wires[client].reachable || self.chance(self.net.rates.settle_fails) {
            self.note_fault_of(client, self.now);
            self.stats.fault(FaultKind::SettleFailed);
            return self.after(ms(5), Message::SettleFailed { client, id });
        }
        let role = if durable { Role::Durable } else { Role::Calls };
        self.net.connection(client, role).fence += 1;
        let delay = self.delay(client);
        let now = self.now;
        let connection = self.net.connection(client, role);
        let life = connection.life;
        if connection.up {
            let at = connection.arrival(now + delay);
            let until = now + self.clients[client].session.settings().command_timeout / 2;
            if at <= until {
                return self.at(at, Message::Barrier { of: Settlement { client, role, life, id }, until });
            }
            return self.at(until, Message::Kill { of: Settlement { client, role, life, id } });
        }
        // A connection that is yet to come has carried nothing.
        self.at(now, Message::Kill { of: Settlement { client, role, life: life - 1, id } });
    }

    /// A barrier comes to the server.
    pub(crate) fn barrier_arrives(&mut self, of: Settlement, until: Instant) {
        let Settlement { client, role, life, .. } = of;
        // Its reply comes behind those to what was sent before.
        let back = self.now + self.delay(client);
        let connection = self.net.connection(client, role);
        let back = back.max(connection.last_reply);
        if connection.life != life || !connection.up || back > until {
            return self.at(until, Message::Kill { of });
        }
        connection.last_reply = back;
        self.at(back, Message::Settled { of });
    }

    /// The reply to a barrier comes to its client.
    pub(crate) fn barrier_answered(&mut self, of: Settlement) {
        let Settlement { client, role, life, id } = of;
        let now = self.now;
        let connection = self.net.connection(client, role);
        let answered = connection.life == life && connection.up && connection.frozen_until <= now;
        if answered {
            self.net.kill(client, role, life - 1);
            self.settled(client, id, Ok(Settled::Proven));
        } else {
            self.at(self.now, Message::Kill { of });
        }
    }

    /// A client has its connections killed.
    pub(crate) fn kill_arrives(&mut self, of: Settlement) {
        let client = of.client;
        let proven = !self.chance(self.net.rates.unproven);
        if !proven {
            self.stats.fault(FaultKind::Unproven);
        }
        let delay = self.delay(client);
        if self.net.wires[client].reachable {
            self.after(delay, Message::Killed { of, proven });
        } else {
            self.after(ms(5), Message::SettleFailed { client, id: of.id });
        }
    }

    /// The connections of a client were killed, as far as that is proven.
    pub(crate) fn kill_answered(&mut self, of: Settlement, proven: bool) {
        let Settlement { client, role, life, id } = of;
        if proven {
            trace!(self, "client {client}: {role:?} up to {life:?} is killed");
            self.net.kill(client, role, life);
        }
        if self.net.connection(client, role).life <= life && self.net.connection(client, role).up {
            self.reset(client, role);
        }
        let settled = if proven { Settled::Proven } else { Settled::Unproven };
        self.settled(client, id, Ok(settled));
    }

    pub(crate) fn settled(&mut self, client: usize, id: CallId, result: Result<Settled, LinkError>) {
        if !self.net.settling.remove(&(client, id)) {
            return;
        }
        trace!(self, "client {client} {id:?} settled: {result:?}");
        let now = self.local(client);
        self.clients[client].session.handle_settled(now, id, result);
        self.look_after(client);
    }
}
