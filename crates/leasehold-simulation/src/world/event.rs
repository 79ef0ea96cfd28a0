//! The events to come in the world, in the order in which they happen.

use crate::faults::event::FaultEvent;
use crate::workload::event::UserEvent;
use crate::world::World;
use crate::world::message::Message;
use leasehold_core::time::Instant;
use std::collections::BTreeMap;

/// Something that is about to happen.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    Message(Message),
    Fault(FaultEvent),
    User(UserEvent),
    /// The holder must have been told by now that its hold was removed.
    Promptness {
        guard: usize,
        removed: Instant,
    },
}

impl From<Message> for WorldEvent {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl From<FaultEvent> for WorldEvent {
    fn from(fault: FaultEvent) -> Self {
        Self::Fault(fault)
    }
}

impl From<UserEvent> for WorldEvent {
    fn from(event: UserEvent) -> Self {
        Self::User(event)
    }
}

impl WorldEvent {
    /// Whether it happens within a client, and to which; otherwise it happens elsewhere, whatever clients do.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Message(message) => message.within(world),
            Self::User(event) => event.within(world),
            Self::Fault(_) | Self::Promptness { .. } => None,
        }
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    pub(crate) queue: BTreeMap<(Instant, u64), WorldEvent>,
    pub(crate) next_number: u64,
    /// How many steps there were at the present instant.
    standing: u64,
}

impl EventQueue {
    /// A number that is given to nothing else in the world.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn add(&mut self, at: Instant, event: WorldEvent) {
        let number = self.number();
        self.queue.insert((at, number), event);
    }

    /// An event that was taken happens later, before all that is added from now on.
    pub(crate) fn put_off(&mut self, until: Instant, number: u64, event: WorldEvent) {
        self.queue.insert((until, number), event);
    }

    /// Events of a sort that were to happen before then happen then, in the same order.
    pub(crate) fn put_off_all(&mut self, until: Instant, is_one: impl Fn(&WorldEvent) -> bool) {
        let early = self.queue.iter().filter(|((at, _), event)| *at < until && is_one(event));
        for key in early.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(event) = self.queue.remove(&key) {
                self.queue.insert((until, key.1), event);
            }
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next event, with its number, if it is due by now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(u64, WorldEvent)> {
        self.next_at().filter(|at| *at <= now)?;
        self.queue.pop_first().map(|((_, number), event)| (number, event))
    }

    /// The world takes a step, at the same instant as the last one or later.
    pub(crate) fn count_step(&mut self, at_the_same_instant: bool) {
        self.standing = if at_the_same_instant { self.standing + 1 } else { 0 };
        assert!(self.standing < 100_000, "the world stands still");
    }
}
