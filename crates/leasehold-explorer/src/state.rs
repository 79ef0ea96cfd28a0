//! A state of a small world: numbers of states of its parts.

use super::names::CLIENTS;

/// See the [module](self). It has no clock: everything in it is told from the present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) server: u32,
    /// Each among those of the clients with its script; 0 where there is no such client.
    pub(crate) members: [u32; CLIENTS],
    /// For a fair lock: the waiters, in the order in which the server took them in.
    pub(crate) places: u32,
    /// How many may still crash, or be held up.
    pub(crate) disturbances: u8,
    /// How many connections may still be lost.
    pub(crate) losses: u8,
    /// The clients that are held up, as a set; until one gets on, it is so for nothing.
    pub(crate) late: u8,
    /// How often time has passed with nothing else to happen since a client last got on.
    pub(crate) rests: u8,
}

impl State {
    /// The beginning.
    pub(crate) const fn new(disturbances: u8, losses: u8) -> Self {
        Self { server: 0, members: [0; CLIENTS], places: 0, disturbances, losses, late: 0, rests: 0 }
    }
}
