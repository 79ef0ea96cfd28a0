//! The server's side of a client's connections.

use crate::engine::channels::{Listener, PubSubMode};
use crate::server::fault::Faults;
use crate::server::in_flight::Wire;
use leasehold_core::link::LinkEvent;
use std::collections::VecDeque;
use std::task::Waker;

/// The number of a link within its server, also its subscriber id.
pub(crate) type LinkId = Listener;

/// The connections of one client: for calls, for durable calls, and for notices.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Numbers of the current connections for calls. A reset changes the number.
    calls: u64,
    durable: u64,
    /// Number of settlements so far.
    pub(crate) settlings: u64,
    pub(crate) mode: PubSubMode,
    pub(crate) state: LinkState,
    /// Whether the link was connected before.
    pub(crate) was_up: bool,
    /// Whether a call yields once before and once after its effect.
    pub(crate) stepped: bool,
    pub(crate) faults: Faults,
    /// Number of notices to drop silently.
    pub(crate) lose_notices: u32,
    /// Number of subscriptions to leave unconfirmed.
    pub(crate) lose_confirmations: u32,
    events: VecDeque<LinkEvent>,
    consumer: Option<Waker>,
}

/// Returns whether calls can be sent.
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

    /// Returns the number of the current connection for calls.
    pub(crate) const fn life(&mut self, wire: Wire) -> &mut u64 {
        match wire {
            Wire::Durable => &mut self.durable,
            Wire::Calls | Wire::Notices => &mut self.calls,
        }
    }

    /// Adds an event. Returns the waker of the waiting task.
    #[must_use]
    pub(crate) fn push(&mut self, event: LinkEvent) -> Option<Waker> {
        self.events.push_back(event);
        self.consumer.take()
    }

    pub(crate) fn pop(&mut self) -> Option<LinkEvent> {
        self.events.pop_front()
    }

    /// Registers the waiting task. Returns the replaced waker, to be dropped without a lock.
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
