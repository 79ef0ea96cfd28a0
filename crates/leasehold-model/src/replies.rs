//! The client reads a reply.

use crate::fault::Fault;
use crate::model::Model;
use crate::world::{Client, Leg, Message, Verb, World};

impl Model {
    /// The client reads a reply, or hears that another client asks.
    pub(crate) fn read(&self, world: &World, at: usize, message: Message) -> World {
        let mut next = Self::without(world, at);
        let me = &mut next.clients[usize::from(message.client)];
        if me.dead || message.past > 0 {
            return next;
        }
        let deadline = match message.leg {
            Leg::Held(left) => left,
            _ => 0,
        };
        let late = u8::from(me.unproven > 0);
        match (message.verb, message.leg) {
            (Verb::Acquire, Leg::Held(_)) if message.count == 1 => {
                // A grant whose deadline has passed by now is not handed out.
                let wanted = u8::from(deadline > 0);
                let unproven = me.unproven;
                *me = Client { unproven, on_server: 1, spent: true, wanted, belief: deadline, ..Client::default() };
            }
            (Verb::Acquire, Leg::Held(_)) => {
                me.change = None;
                if me.believes() {
                    me.wanted += 1;
                    me.belief = me.belief.max(deadline);
                }
            }
            (Verb::Acquire, _) if message.count == 1 => {
                (me.change, me.on_server, me.waits) = (None, late, self.hand_over || self.linger);
            }
            (Verb::Acquire, _) => {
                me.change = None;
                me.find_gone();
            }
            (Verb::Release, leg) => {
                me.change = None;
                me.on_server = late.max(message.count);
                if leg == Leg::Gone {
                    me.find_gone();
                }
            }
            (Verb::Renew, Leg::Held(_)) => {
                me.renewing = false;
                if me.believes() || (self.has(Fault::RenewalAfterTheDeadline) && me.wanted > 0) {
                    me.belief = me.belief.max(deadline);
                }
            }
            (Verb::Renew, _) => {
                me.renewing = false;
                me.lose();
            }
            (Verb::Asked, _) => {
                me.asked = true;
                if me.lingers && !self.has(Fault::LingeringDespiteARequest) {
                    (me.lingers, me.belief) = (false, 0);
                }
            }
        }
        next
    }
}
