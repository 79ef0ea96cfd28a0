//! The connections of one client, as the server's side of the world sees them.

use crate::engine::channels::{Listener, PubSubMode};
use crate::server::fault::Faults;
use leasehold_core::link::{Epoch, LinkEvent, Plane, Settlings};
use std::collections::VecDeque;
use std::task::Waker;

/// The number of a link within its server, under which it is subscribed, too.
pub(crate) type LinkId = Listener;

/// The connections of one client: one for each plane, and one for notices.
#[derive(Debug)]
pub(crate) struct Connections {
    pub(crate) foreground: Epoch,
    pub(crate) background: Epoch,
    pub(crate) durable: Epoch,
    /// How many settlings have begun on each plane.
    settlings: [u64; 3],
    pub(crate) mode: PubSubMode,
    pub(crate) state: LinkState,
    /// Whether the link has had a connection before.
    pub(crate) was_up: bool,
    /// Whether a call waits once before it is applied and once after.
    pub(crate) stepped: bool,
    pub(crate) faults: Faults,
    /// How many notices are to be lost in silence.
    pub(crate) lose_notices: u32,
    /// How many subscriptions are to take effect without being confirmed.
    pub(crate) lose_confirmations: u32,
    events: VecDeque<LinkEvent>,
    consumer: Option<Waker>,
}

/// Whether calls can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkState {
    Up,
    Down,
    Closed,
}

const fn index(plane: Plane) -> usize {
    match plane {
        Plane::Foreground => 0,
        Plane::Background => 1,
        Plane::Durable => 2,
    }
}

impl Connections {
    pub(crate) fn new([foreground, background, durable]: [Epoch; 3], mode: PubSubMode) -> Self {
        Self {
            foreground,
            background,
            durable,
            settlings: [0; 3],
            mode,
            state: LinkState::Up,
            was_up: true,
            stepped: false,
            faults: Faults::default(),
            lose_notices: 0,
            lose_confirmations: 0,
            events: VecDeque::new(),
            consumer: None,
        }
    }

    pub(crate) const fn epoch(&self, plane: Plane) -> Epoch {
        match plane {
            Plane::Foreground => self.foreground,
            Plane::Background => self.background,
            Plane::Durable => self.durable,
        }
    }

    pub(crate) const fn settlings(&self, plane: Plane) -> Settlings {
        Settlings { plane: self.settlings[index(plane)], durable: self.settlings[index(Plane::Durable)] }
    }

    /// Whether a plane has been settled since a call for it was decided on.
    pub(crate) const fn is_settled_since(&self, decided: Settlings, plane: Plane) -> bool {
        let settled = match plane {
            Plane::Durable => decided.durable,
            Plane::Foreground | Plane::Background => decided.plane,
        };
        self.settlings[index(plane)] != settled
    }

    pub(crate) const fn note_settling(&mut self, plane: Plane) {
        self.settlings[index(plane)] += 1;
    }

    pub(crate) const fn set_epoch(&mut self, plane: Plane, epoch: Epoch) {
        match plane {
            Plane::Foreground => self.foreground = epoch,
            Plane::Background => self.background = epoch,
            Plane::Durable => self.durable = epoch,
        }
    }

    /// Adds an event; gives the waker of the task that waits for one.
    #[must_use]
    pub(crate) fn push(&mut self, event: LinkEvent) -> Option<Waker> {
        self.events.push_back(event);
        self.consumer.take()
    }

    pub(crate) fn pop(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// Remembers who waits for an event; gives the waker that this replaces, to be dropped without a lock.
    #[must_use]
    pub(crate) fn wait(&mut self, waker: &Waker) -> Option<Waker> {
        if self.consumer.as_ref().is_some_and(|old| old.will_wake(waker)) {
            return None;
        }
        self.consumer.replace(waker.clone())
    }

    #[must_use]
    pub(crate) fn close(&mut self) -> Option<Waker> {
        self.state = LinkState::Closed;
        self.events.clear();
        self.consumer.take()
    }
}
