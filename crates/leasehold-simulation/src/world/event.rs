//! The events of a world.

use crate::faults::event::FaultEvent;
use crate::jvms::event::JvmEvent;
use crate::workload::event::UserEvent;
use crate::world::World;
use crate::world::message::Message;
use leasehold_core::time::Instant;

/// Something that is about to happen.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    Message(Message),
    Fault(FaultEvent),
    User(UserEvent),
    Jvm(JvmEvent),
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

impl From<JvmEvent> for WorldEvent {
    fn from(event: JvmEvent) -> Self {
        Self::Jvm(event)
    }
}

impl WorldEvent {
    /// Whether it happens within a client, and to which; otherwise it happens elsewhere, whatever clients do.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Message(message) => message.within(world),
            Self::User(event) => event.within(world),
            Self::Fault(_) | Self::Jvm(_) | Self::Promptness { .. } => None,
        }
    }
}
