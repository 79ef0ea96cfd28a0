//! Time passes: leases end on the server's clock, deadlines on the clients'.

use crate::fault::Fault;
use crate::model::{LEASE, Model, PASSING};
use crate::world::{Leg, Lock, Message, Verb, World};

impl Model {
    /// A tick of the server's clock. The clock of one client may advance by another number of ticks, if none has done so for a lease.
    pub(crate) fn tick(&self, world: &World, drift: Option<(u8, u8)>) -> Option<World> {
        let may = drift.is_none_or(|(client, _)| {
            self.drift && world.steady >= LEASE - 1 && !world.clients[usize::from(client)].dead
        });
        may.then(|| {
            let mut next = world.clone();
            let ticks = |client: u8| drift.filter(|(drifts, _)| *drifts == client).map_or(1, |(_, ticks)| ticks);
            next.steady = if drift.is_some() { 0 } else { (world.steady + 1).min(LEASE - 1) };
            next.lock = world.lock.filter(|lock| lock.left > 1).map(|lock| {
                let unwanted = Self::unwanted(world, &lock);
                Lock { left: lock.left - 1, unwanted, ..lock }
            });
            for (client, me) in (0_u8..).zip(&mut next.clients) {
                let ticks = ticks(client);
                me.unproven = me.unproven.saturating_sub(ticks).max(me.unproven.min(1));
                me.belief = me.belief.saturating_sub(ticks);
                if me.belief == 0 {
                    me.lose();
                }
                if (self.hand_over || self.linger) && (me.wanted > 0 || me.lingers) {
                    me.tenure = (me.tenure + ticks).min(PASSING + 1);
                }
            }
            for message in next.network.iter_mut().filter(|message| message.is_awaited()) {
                match &mut message.leg {
                    Leg::Held(left) if !self.has(Fault::DeadlineFromTheReply) => {
                        *left = left.saturating_sub(ticks(message.client));
                    }
                    Leg::Call if message.verb != Verb::Release => {
                        message.age = (message.age + ticks(message.client)).min(LEASE);
                    }
                    _ => {}
                }
            }
            next
        })
    }

    /// For how many ticks a hold on the server will have been wanted by no task, if it is not wanted now.
    fn unwanted(world: &World, lock: &Lock) -> u8 {
        let is_of_hold = |message: &Message| message.hold() == lock.holder && message.verb != Verb::Asked;
        lock.unwanted + u8::from(!world.network.iter().any(is_of_hold))
    }
}
