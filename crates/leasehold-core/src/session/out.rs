//! The output queues of a session: calls, other actions, events and wakers.

use crate::call::Call;
use crate::session::{Action, CallId, Event};
use std::collections::VecDeque;
use std::task::Waker;

/// See the [module](self). It is drained after every public call.
#[derive(Debug, Default)]
pub(super) struct Out {
    /// The flag marks a request's call.
    calls: VecDeque<(CallId, Call, bool)>,
    actions: VecDeque<Action>,
    events: VecDeque<Event>,
    woken: Vec<Waker>,
}

impl Out {
    /// Queues a call of a request or of the background.
    pub(super) fn call(&mut self, id: CallId, call: Call, of_request: bool) {
        self.calls.push_back((id, call, of_request));
    }

    /// Queues another action for the driver.
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

    pub(super) fn poll_call(&mut self) -> Option<(CallId, Call, bool)> {
        self.calls.pop_front()
    }

    /// The next call of a request, or of the background.
    #[cfg(test)]
    pub(super) fn poll_call_of(&mut self, request: bool) -> Option<(CallId, Call)> {
        let at = self.calls.iter().position(|(_, _, of_request)| *of_request == request)?;
        self.calls.remove(at).map(|(id, call, _)| (id, call))
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
