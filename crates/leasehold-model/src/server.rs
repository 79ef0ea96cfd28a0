//! The server executes a call: the scripts, in a few lines.

use crate::fault::Fault;
use crate::model::{LEASE, Model};
use crate::world::{Leg, Lock, Message, Verb, World};

impl Model {
    /// The server executes a call.
    pub(crate) fn arrive(&self, world: &World, at: usize, message: Message) -> World {
        let Message { client, past, verb, count, leg, .. } = message;
        let mut next = Self::without(world, at);
        let by_client = self.has(Fault::ComparedByClientOnly);
        let is_own = |lock: &Lock| lock.holder == (client, past) || (by_client && lock.holder.0 == client);
        let sender = world.clients[usize::from(client)];
        let known = past == 0 && sender.unproven > 0 && !sender.lost;
        let by_copy = leg == Leg::Copy && !(known && count == 1);
        let outcome = match (verb, world.lock) {
            (Verb::Acquire, None) if count == 1 => {
                next.lock = Some(Lock { holder: (client, past), count: 1, left: LEASE, by_copy, unwanted: 0 });
                Leg::Held(LEASE)
            }
            (Verb::Acquire, Some(lock)) if is_own(&lock) && lock.count > count => Leg::Held(lock.left),
            (Verb::Acquire, Some(lock)) if is_own(&lock) => {
                let by_copy = if lock.count < count { by_copy } else { lock.by_copy && leg == Leg::Copy };
                next.lock = Some(Lock { count, left: LEASE, by_copy, ..lock });
                Leg::Held(LEASE)
            }
            (Verb::Acquire, Some(_)) => Leg::Busy,
            (Verb::Release, Some(lock)) if is_own(&lock) => {
                next.lock = (count > 0).then_some(Lock { count: lock.count.min(count), ..lock });
                Leg::Held(0)
            }
            (Verb::Renew, Some(lock)) if is_own(&lock) => {
                next.lock = Some(Lock { left: LEASE, ..lock });
                Leg::Held(LEASE)
            }
            _ => Leg::Gone,
        };
        let others = world.lock.filter(|lock| lock.holder != (client, past));
        next.spoiled |= others.is_some() && next.lock != others;
        if let Some(lock) = world.lock.filter(|_| outcome == Leg::Busy && self.linger) {
            let (client, past) = lock.holder;
            next.network.push(Message { client, past, verb: Verb::Asked, count: 0, age: 0, leg: Leg::Busy });
            next.network.sort_unstable();
            next.network.dedup();
        }
        if leg == Leg::Call {
            let leg = match outcome {
                Leg::Held(left) => Leg::Held(self.deadline(left, message.age)),
                _ => outcome,
            };
            next.network.push(Message { leg, age: 0, ..message });
        }
        next
    }
}
