//! The next acts of users.

use crate::workload::registers::Versions;
use crate::world::World;
use leasehold_core::call::Call;

/// Something that a user, or a future of one, is about to do.
#[derive(Debug)]
pub(crate) enum UserEvent {
    Poll {
        client: usize,
        task: usize,
    },
    Abandon {
        client: usize,
        task: usize,
    },
    Start {
        client: usize,
        /// The number of the operation in the world.
        number: u32,
    },
    GiveUp {
        guard: usize,
        how: u8,
    },
    /// A count comes to a latch.
    CountDown {
        call: Call,
    },
    /// A holder begins to work on what the store has.
    Section {
        guard: usize,
    },
    /// Its read comes to the store.
    StoreRead {
        guard: usize,
    },
    /// The value that it read comes to the holder.
    Work {
        guard: usize,
        read: Versions,
    },
    /// Its write comes to the store.
    StoreWrite {
        guard: usize,
        read: Versions,
    },
}

impl UserEvent {
    /// The client that it happens within; nothing, if it happens at a latch or a store.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Poll { client, .. } | Self::Abandon { client, .. } | Self::Start { client, .. } => Some(*client),
            Self::GiveUp { guard, .. } | Self::Section { guard } | Self::Work { guard, .. } => {
                Some(world.guards[*guard].client)
            }
            Self::CountDown { .. } | Self::StoreRead { .. } | Self::StoreWrite { .. } => None,
        }
    }
}

/// Lets a user do what is next.
pub(crate) fn apply(world: &mut World, event: UserEvent) {
    match event {
        UserEvent::Poll { client, task } => world.poll(client, task),
        UserEvent::Abandon { client, task } => world.abandon(client, task),
        UserEvent::Start { client, number } => world.start_one(client, number),
        UserEvent::GiveUp { guard, how } => world.give_up(guard, how),
        UserEvent::CountDown { call } => world.count_down(&call),
        UserEvent::Section { guard } => world.begin_section(guard),
        UserEvent::StoreRead { guard } => world.store_reads(guard),
        UserEvent::Work { guard, read } => world.section_works(guard, read),
        UserEvent::StoreWrite { guard, read } => world.store_writes(guard, read),
    }
}
