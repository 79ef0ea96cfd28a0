//! Holds that move between the clients of a random world: a user offers its hold, and one or two clients try to adopt it.

use crate::terms::{Choices, LEASE, LockFamily};
use crate::workload::UserEvent;
use crate::world::client::{Outcome, PollPolicy, TaskKind};
use crate::world::stats::Coverage;
use crate::world::{World, ms, trace};
use bytes::Bytes;
use leasehold_core::error::MoveError;
use leasehold_core::session::{AcquireRequest, AdoptRequest, Offered};
use std::time::Duration;

/// Has half of the guards of some worlds move to other clients instead of their release.
pub(crate) fn tickets(world: &mut World, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed ^ (0x71c_4e70 << 32));
    let can =
        matches!(world.plan.family, LockFamily::Lock | LockFamily::Fair | LockFamily::FencedFair | LockFamily::Fenced);
    if can && world.plan.replicas.is_none() && rng.u8(..4) == 0 {
        let longest = ms([60, 400, 1_200][rng.usize(..3)]);
        world.plan.tickets = Some(Choices { rng, of: longest });
    }
}

impl World {
    /// A user releases its guard, or offers the hold to other clients. Returns whether it offers the hold.
    pub(crate) fn perhaps_offer(&mut self, guard: usize) -> bool {
        let Some(Choices { rng, of: longest }) = &mut self.plan.tickets else { return false };
        if self.plan.over || rng.bool() || !self.guards[guard].kind.may_move() {
            return false;
        }
        let life = ms(30).max(longest.mul_f64(rng.f64()));
        let polls = match rng.u8(..8) {
            0 => PollPolicy::Late(ms(rng.u64(..300))),
            _ => PollPolicy::AtOnce,
        };
        let drops = rng.u8(..10) == 0;
        let task = self.offer_polled(guard, life, polls);
        if drops {
            let client = self.guards[guard].client;
            self.after(ms(1), UserEvent::Abandon { client, task });
        }
        true
    }

    /// Starts to offer the hold of a guard, which ends.
    pub(crate) fn offer_polled(&mut self, guard: usize, life: Duration, polls: PollPolicy) -> usize {
        let (client, hold, renewed) = (self.guards[guard].client, self.guards[guard].hold, self.guards[guard].renewed);
        self.stats.operations += 1;
        let now = self.local(client);
        self.guards[guard].alive = false;
        let secret = Bytes::from(format!("secret{}", self.events.number()));
        let ticket = self.clients[client].session.offer(now, hold, renewed, life, secret);
        trace!(self, "g{}: client {client} offers {hold:?} as {ticket:?} for {life:?}", self.guards[guard].number);
        let task = self.clients[client].add_task(now, ticket, TaskKind::Offer { guard }, polls);
        self.clients[client].tasks[task].number = self.guards[guard].number;
        self.poll(client, task);
        task
    }

    /// A user has a ticket, and sends it to another, or to two.
    fn send_ticket(&mut self, guard: usize, offered: &Offered) {
        // Its client does not look after the hold from here on.
        self.guards[guard].detached = true;
        self.stats.reach(Coverage::Offered);
        let state = &self.guards[guard];
        let number = state.number;
        let (name, kind) = (state.name.clone(), state.kind);
        let living: Vec<usize> = (0..self.clients.len()).filter(|client| !self.clients[*client].dead).collect();
        let Some(Choices { mut rng, of: longest }) = self.plan.tickets.take() else { return };
        for _ in 0..1 + usize::from(rng.u8(..3) == 0) {
            let renewed = rng.bool();
            let lease = if renewed { LEASE } else { ms(rng.u64(100..1_200)) };
            let acquire = Box::new(AcquireRequest { renewed, ..AcquireRequest::new(name.clone(), kind, lease) });
            let wish = AdoptRequest { acquire, offered: offered.field.clone(), secret: offered.secret.clone() };
            let client = living[rng.usize(..living.len())];
            let pause = longest.mul_f64(rng.f64() * rng.f64() * 1.5);
            let drops = rng.u8(..8) == 0;
            self.plan.tickets_sent += 1;
            self.after(pause, UserEvent::Adopt { client, number, wish: Box::new(wish), drops });
        }
        self.plan.tickets = Some(Choices { rng, of: longest });
    }

    /// A user comes with a ticket.
    pub(crate) fn adopt(&mut self, client: usize, number: u32, wish: AdoptRequest, drops: bool) {
        self.plan.tickets_sent -= 1;
        self.stats.operations += 1;
        let now = self.local(client);
        let kind = TaskKind::Adopt(wish.acquire.clone());
        let ticket = self.clients[client].session.adopt(now, &wish);
        trace!(self, "client {client} adopts the hold of g{number} as {ticket:?}");
        let task = self.clients[client].add_task(now, ticket, kind, PollPolicy::AtOnce);
        self.clients[client].tasks[task].number = number;
        self.poll(client, task);
        if drops && !self.plan.over {
            self.after(ms(1), UserEvent::Abandon { client, task });
        }
    }

    /// An offer or an adoption has ended: a ticket goes to other users.
    pub(crate) fn note_moved(&mut self, client: usize, task: usize) {
        let state = &self.clients[client].tasks[task];
        match (&state.kind, &state.outcome) {
            (TaskKind::Offer { guard }, Some(Outcome::Offered(offered))) => {
                let (guard, offered) = (*guard, offered.clone());
                self.send_ticket(guard, &offered);
            }
            (TaskKind::Adopt(_), Some(Outcome::Granted(_))) => self.stats.reach(Coverage::Adopted),
            (_, Some(Outcome::NotMoved(MoveError::Spent))) => self.stats.reach(Coverage::TicketSpent),
            (_, Some(Outcome::NotMoved(MoveError::OutcomeUnknown(_)))) => self.stats.reach(Coverage::MoveUnknown),
            _ => {}
        }
    }
}
