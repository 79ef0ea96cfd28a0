//! Barriers and kills: they make sure that the server can no longer apply a client's earlier calls.

use crate::report::stats::FaultKind;
use crate::world::message::{Message, Settlement};
use crate::world::{World, ms, trace};
use leasehold_core::link::{Epoch, LinkError, Plane, Settled};
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;

impl World {
    pub(crate) fn settle(&mut self, client: usize, id: CallId, plane: Plane, epoch: Epoch) {
        trace!(self, "client {client} settles {plane:?} up to {epoch:?} as {id:?}");
        self.stats.digest.record((self.now, client, "settle", plane == Plane::Background, epoch.0));
        self.net.settling.insert((client, id));
        if !self.net.wires[client].reachable || self.chance(self.faults.rates.settle_fails) {
            self.note_fault_of(client, self.now);
            self.stats.fault(FaultKind::SettleFailed);
            return self.after(ms(5), Message::SettleFailed { client, id });
        }
        let delay = self.delay(client);
        let now = self.now;
        let connection = self.net.connection(client, plane);
        connection.fence += 1;
        if connection.up && epoch >= connection.epoch {
            let epoch = connection.epoch;
            let at = connection.arrival(now + delay);
            let until = now + self.clients[client].session.settings().command_timeout / 2;
            if at <= until {
                return self.at(at, Message::Barrier { of: Settlement { client, plane, epoch, id }, until });
            }
            return self.at(until, Message::Kill { of: Settlement { client, plane, epoch, id } });
        }
        // A connection that is yet to come has carried nothing.
        let last = if connection.up { connection.epoch } else { Epoch(connection.epoch.0 - 1) };
        let epoch = epoch.min(last);
        self.at(now, Message::Kill { of: Settlement { client, plane, epoch, id } });
    }

    /// A barrier comes to the server.
    pub(crate) fn barrier_arrives(&mut self, of: Settlement, until: Instant) {
        let Settlement { client, plane, epoch, .. } = of;
        // Its reply comes behind those to what was sent before.
        let back = self.now + self.delay(client);
        let connection = self.net.connection(client, plane);
        let back = back.max(connection.last_reply);
        if connection.epoch != epoch || !connection.up || back > until {
            return self.at(until, Message::Kill { of });
        }
        connection.last_reply = back;
        self.at(back, Message::Settled { of });
    }

    /// The reply to a barrier comes to its client.
    pub(crate) fn barrier_answered(&mut self, of: Settlement) {
        let Settlement { client, plane, epoch, id } = of;
        let now = self.now;
        let connection = self.net.connection(client, plane);
        let answered = connection.epoch == epoch && connection.up && connection.frozen_until <= now;
        if answered {
            self.net.kill(client, plane, Epoch(epoch.0 - 1));
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
        let Settlement { client, plane, epoch, id } = of;
        if proven {
            trace!(self, "client {client}: {plane:?} up to {epoch:?} is killed");
            self.net.kill(client, plane, epoch);
        }
        if self.net.connection(client, plane).epoch <= epoch && self.net.connection(client, plane).up {
            self.reset(client, plane);
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
