//! The way of an event to the folder that it is about. Events within a client wait while it is paused.

use crate::faults;
use crate::jvms;
use crate::workload;
use crate::workload::event::UserEvent;
use crate::world::World;
use crate::world::event::WorldEvent;
use crate::world::message::Message;
use leasehold_core::link::LinkError;

impl World {
    /// Events within a client wait while it is paused, and happen no more once it is dead.
    pub(crate) fn apply_unless_paused(&mut self, number: u64, what: WorldEvent) {
        if self.parts.leave_out_event(number) {
            return;
        }
        self.draw_for_event(number, &what);
        let within = what.within(self).map(|client| &self.clients[client]);
        if within.is_some_and(|client| client.dead) {
            if let WorldEvent::User(UserEvent::Start { number, .. }) = what {
                let client = self.somebody();
                self.at(self.now, UserEvent::Start { client, number });
            }
            return;
        }
        // Run the client before its next event.
        let wakes = what
            .within(self)
            .filter(|client| self.clients[*client].paused_until.is_some_and(|until| until <= self.now));
        if let Some(client) = wakes {
            self.resume(client);
        }
        let within = what.within(self).map(|client| &self.clients[client]);
        match within.and_then(|client| client.paused_until).filter(|until| *until > self.now) {
            Some(until) => self.events.put_off(until, number, what),
            None => self.apply(what),
        }
    }

    /// Lets something happen.
    pub(crate) fn apply(&mut self, event: impl Into<WorldEvent>) {
        match event.into() {
            WorldEvent::Message(message) => self.apply_message(message),
            WorldEvent::Fault(fault) => faults::event::apply(self, fault),
            WorldEvent::Jvm(event) => jvms::event::apply(self, event),
            WorldEvent::User(event) => workload::event::apply(self, event),
            WorldEvent::Promptness { guard, removed } => self.check_promptness(guard, removed),
        }
    }

    fn apply_message(&mut self, message: Message) {
        match message {
            Message::Arrive { key, client, role, life, call, reply } => {
                self.arrive(key, client, role, life, call, reply);
            }
            Message::Copy { key, call } => self.arrive_again(key, call),
            Message::NoScript { key, client, role, call, reply } => self.no_script(key, client, role, call, reply),
            Message::Answer { key, result } => self.answer(key, result),
            Message::Barrier { of, until } => self.barrier_arrives(of, until),
            Message::Settled { of } => self.barrier_answered(of),
            Message::Kill { of } => self.kill_arrives(of),
            Message::Killed { of, proven } => self.kill_answered(of, proven),
            Message::SettleFailed { client, id } => {
                self.settled(client, id, Err(LinkError::NotSent("no connection".to_owned())));
            }
            Message::Subscription { client, channel, wanted, life, fate } => {
                self.subscription(client, channel, wanted, life, fate);
            }
            Message::SubscriptionAnswer { client, channel, wanted, life, result } => {
                self.subscription_answered(client, channel, wanted, life, result);
            }
            Message::Notice { client, event, life } => {
                if self.net.wires[client].life == life {
                    self.event(client, event);
                }
            }
            Message::Event { client, event } => self.event(client, event),
            Message::Reconnected { client, role } => self.reconnected(client, role),
            Message::Replicated { reign, content } => self.replicated(reign, content),
        }
    }
}
