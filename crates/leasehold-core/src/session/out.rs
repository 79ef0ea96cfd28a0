//! What a session hands out: actions for the driver, events to be counted or logged, and wakers to be woken.

use crate::session::{Action, Event};
use std::collections::VecDeque;
use std::task::Waker;

/// See the [module](self). It is drained after every public call.
#[derive(Debug, Default)]
pub(super) struct Out {
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    woken: Vec<Waker>,
}

impl Out {
    /// Has the driver do something.
    pub(super) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    /// Tells that something happened.
    pub(super) fn tell(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Has a future polled.
    pub(super) fn wake(&mut self, waker: Waker) {
        self.woken.push(waker);
    }

    /// The wakers that are to be woken.
    pub(super) const fn woken(&mut self) -> &mut Vec<Waker> {
        &mut self.woken
    }

    pub(super) fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(super) fn take_woken(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.woken)
    }

    /// Whether there are actions or events to be taken.
    pub(super) fn is_empty(&self) -> bool {
        self.actions.is_empty() && self.events.is_empty()
    }
}
