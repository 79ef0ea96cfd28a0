//! Barriers and kills: they make sure that the server can no longer apply a client's earlier calls.

use crate::report::stats::FaultKind;
use crate::world::message::{Message, Settlement};
use crate::world::network::Role;
use crate::world::{World, ms, trace};
use leasehold_core::link::{LinkError, Settled};
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;

impl World {
    pub(crate) fn settle(&mut self, client: usize, id: CallId, durable: bool) {
        trace!(self, "client {client} settles as {id:?}");
        self.stats.digest.record((self.now, client, "settle", durable));
        self.net.settling.insert((client, id));
        if !self.net.wires[client].reachable || self.chance(self.faults.rates.settle_fails) {
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
        let proven = !self.chance(self.faults.rates.unproven);
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
