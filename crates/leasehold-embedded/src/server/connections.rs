//! The connections of one client, as the server's side of the world sees them.

use crate::engine::channels::{Listener, PubSubMode};
use crate::server::fault::Faults;
use crate::server::in_flight::Wire;
use leasehold_core::link::LinkEvent;
use std::collections::VecDeque;
use std::task::Waker;

/// The number of a link within its server, under which it is subscribed, too.
pub(crate) type LinkId = Listener;

/// The connections of one client: one for calls, one for calls that wait for replicas, and one for notices.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Numbers of the current connections for calls. A reset changes them.
    calls: u64,
    durable: u64,
    /// How many settlings have begun.
    pub(crate) settlings: u64,
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

impl Connections {
    pub(crate) fn new([calls, durable]: [u64; 2], mode: PubSubMode) -> Self {
        Self {
            calls,
            durable,
            settlings: 0,
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

    /// The life of a connection for calls.
    pub(crate) const fn life(&mut self, wire: Wire) -> &mut u64 {
        match wire {
            Wire::Durable => &mut self.durable,
            Wire::Calls | Wire::Notices => &mut self.calls,
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
