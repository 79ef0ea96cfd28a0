//! The way of a call from its link to the server and back, with all that can go wrong on it.

use crate::channels::LinkId;
use crate::connections::LinkState;
use crate::fault::Fault;
use crate::in_flight::{CallId, CallResult, Held, Route, Waiting};
use crate::recorder::Recorded;
use crate::state::State;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, LinkError, LinkEvent, Plane};
use std::task::Waker;

/// What has become of a call that was begun.
pub(crate) enum Begun {
    /// Its result is here.
    Ended(CallResult),
    /// Its result will come.
    Waits(CallId),
}

/// A result that has not come yet.
pub(crate) struct NotYet;

impl State {
    /// Sends a call from a link, with whatever fault waits for it.
    pub(crate) fn begin(&mut self, link: LinkId, plane: Plane, call: &Call) -> Begun {
        let plane = call.plane(plane);
        let entry = self.log.as_mut().map(|log| {
            log.push(Recorded { link, plane, call: call.clone(), applied: 0, outcome: None });
            log.len() - 1
        });
        let begun = self.begin_logged(link, plane, call, entry);
        if let Begun::Ended(result) = &begun {
            self.note_outcome(entry, result);
        }
        begun
    }

    fn begin_logged(&mut self, link: LinkId, plane: Plane, call: &Call, entry: Option<usize>) -> Begun {
        let Some(connections) = self.links.get_mut(&link) else { return Begun::Ended(Err(closed())) };
        match connections.state {
            LinkState::Up => {}
            LinkState::Down => return Begun::Ended(Err(not_sent())),
            LinkState::Closed => return Begun::Ended(Err(closed())),
        }
        let script = call.script().name();
        let route = Route { link, plane, epoch: connections.epoch(plane) };
        let fault = connections.faults.take(plane, script).or_else(|| self.faults.take(plane, script));
        let reply = match fault {
            None => self.apply(call, entry),
            Some(Fault::Duplicate) => {
                let _first_reply = self.apply(call, entry);
                self.apply(call, entry)
            }
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::RefuseInside(inside, error)) => self.apply_refused(call, entry, inside, error).0,
            Some(Fault::LoseRequest) => {
                self.reset(link, plane);
                return Begun::Ended(Err(lost()));
            }
            Some(Fault::LoseReply) => {
                let _lost_reply = self.apply(call, entry);
                self.reset(link, plane);
                return Begun::Ended(Err(lost()));
            }
            Some(Fault::LinkDown) => {
                self.set_down(link);
                return Begun::Ended(Err(not_sent()));
            }
            Some(fault @ (Fault::Hold | Fault::Swallow)) => {
                let id = self.next_number();
                if fault == Fault::Hold {
                    self.held.push(Held { id, route, entry, call: call.clone() });
                } else {
                    let _swallowed_reply = self.apply(call, entry);
                }
                self.waiting.insert(id, Waiting { route, entry, result: None, waker: None });
                return Begun::Waits(id);
            }
        };
        Begun::Ended(reply.map_err(LinkError::Refused))
    }

    /// The result of a call that waits, if it has come. Otherwise `waker` is taken, and woken when it does. The waker that this replaces is
    /// left in its place: wakers are cloned and dropped without a lock.
    pub(crate) fn poll_waiting(&mut self, id: CallId, waker: &mut Option<Waker>) -> Result<CallResult, NotYet> {
        match self.waiting.get_mut(&id) {
            Some(Waiting { result: None, waker: slot, .. }) => {
                std::mem::swap(slot, waker);
                Err(NotYet)
            }
            Some(_) => Ok(self.waiting.remove(&id).and_then(|waiting| waiting.result).unwrap_or_else(|| Err(lost()))),
            None => Ok(Err(lost())),
        }
    }

    /// The caller has gone. What was sent stays sent.
    pub(crate) fn forget_waiting(&mut self, id: CallId) -> Option<Waiting> {
        self.waiting.remove(&id)
    }

    /// Applies the requests of a link that a proxy keeps, in order; gives their number.
    pub(crate) fn release_held(&mut self, link: LinkId) -> usize {
        let held = std::mem::take(&mut self.held);
        let (released, kept): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.route.link == link);
        self.held = kept;
        for held in &released {
            let result = self.apply(&held.call, held.entry).map_err(LinkError::Refused);
            // A caller whose connection has died meanwhile has been told so already, and hears nothing more.
            self.answer(|id, _| id == held.id, &result);
        }
        released.len()
    }

    /// How many requests of a link a proxy keeps.
    pub(crate) fn held(&self, link: LinkId) -> usize {
        self.held.iter().filter(|held| held.route.link == link).count()
    }

    /// Makes sure that no call of the plane up to `epoch` can be applied any more. Calls that still wait on the connection of
    /// today are ended by killing it.
    pub(crate) fn settle(&mut self, link: LinkId, plane: Plane, epoch: Epoch) -> Result<(), LinkError> {
        match self.links.get(&link).map(|connections| connections.state) {
            Some(LinkState::Up) => {}
            Some(LinkState::Down) => return Err(not_sent()),
            Some(LinkState::Closed) | None => return Err(closed()),
        }
        let stuck = |route: &Route| route.is_of(link, plane, epoch);
        let must_kill = self.is_stuck(link, plane, epoch);
        self.held.retain(|held| !stuck(&held.route));
        if must_kill {
            self.reset(link, plane);
        }
        Ok(())
    }

    /// Whether a call waits for its reply on the plane's connection.
    fn is_stuck(&self, link: LinkId, plane: Plane, epoch: Epoch) -> bool {
        let current = self.links.get(&link).map(|connections| connections.epoch(plane));
        let waiting = self.waiting.values().map(|waiting| &waiting.route);
        let mut all = waiting.chain(self.held.iter().map(|held| &held.route));
        all.any(|route| route.is_of(link, plane, epoch) && Some(route.epoch) == current)
    }

    /// Whether what was sent on the plane has been answered.
    pub(crate) fn probe(&self, link: LinkId, plane: Plane, epoch: Epoch) -> Result<(), LinkError> {
        match self.links.get(&link).map(|connections| connections.state) {
            Some(LinkState::Up) if self.is_stuck(link, plane, epoch) => {
                Err(LinkError::Unknown("an earlier call is not answered".to_owned()))
            }
            Some(LinkState::Up) => Ok(()),
            Some(LinkState::Down) => Err(not_sent()),
            Some(LinkState::Closed) | None => Err(closed()),
        }
    }

    /// The plane's connection is lost and at once back, in a new epoch.
    pub(crate) fn reset(&mut self, link: LinkId, plane: Plane) {
        self.end_waiting(link, plane);
        let epoch = Epoch(self.next_number());
        let Some(connections) = self.links.get_mut(&link) else { return };
        connections.set_epoch(plane, epoch);
        self.wakers.extend(connections.push(LinkEvent::PlaneReset(plane)));
    }

    /// The notice connection is lost and at once back, without subscriptions.
    pub(crate) fn reset_notices(&mut self, link: LinkId) {
        self.keyspace.lock().channels.disconnect(link);
        self.event(link, LinkEvent::NoticesReset);
    }

    pub(crate) fn event(&mut self, link: LinkId, event: LinkEvent) {
        if let Some(connections) = self.links.get_mut(&link) {
            self.wakers.extend(connections.push(event));
        }
    }

    /// All connections of a link are lost, and none can be made.
    pub(crate) fn set_down(&mut self, link: LinkId) {
        let Some(connections) = self.links.get_mut(&link).filter(|links| links.state == LinkState::Up) else { return };
        connections.state = LinkState::Down;
        self.keyspace.lock().channels.disconnect(link);
        Plane::ALL.into_iter().for_each(|plane| self.end_waiting(link, plane));
    }

    /// Connections can be made again, and are.
    pub(crate) fn set_up(&mut self, link: LinkId) {
        let Some(connections) = self.links.get_mut(&link).filter(|links| links.state == LinkState::Down) else {
            return;
        };
        connections.state = LinkState::Up;
        self.reset_all(link);
    }

    /// Every connection of a link is lost and at once back.
    fn reset_all(&mut self, link: LinkId) {
        self.reset_notices(link);
        Plane::ALL.into_iter().for_each(|plane| self.reset(link, plane));
    }

    /// The process died and came back with nothing. What a proxy kept has lost the connection that it would have gone by.
    pub(crate) fn restart_empty(&mut self) {
        self.held.clear();
        self.keyspace.lock().clear();
        let up = self.links.iter().filter(|(_, connections)| connections.state == LinkState::Up);
        let up: Vec<_> = up.map(|(link, _)| *link).collect();
        up.into_iter().for_each(|link| self.reset_all(link));
    }

    /// The client closes its connections.
    pub(crate) fn close(&mut self, link: LinkId) {
        self.keyspace.lock().channels.disconnect(link);
        Plane::ALL.into_iter().for_each(|plane| self.end_waiting(link, plane));
        if let Some(connections) = self.links.get_mut(&link) {
            self.wakers.extend(connections.close());
        }
    }

    /// Tells all callers of a plane that their connection is gone.
    fn end_waiting(&mut self, link: LinkId, plane: Plane) {
        self.answer(|_, route| route.link == link && route.plane == plane, &Err(lost()));
    }

    fn answer(&mut self, is_for: impl Fn(CallId, &Route) -> bool, result: &CallResult) {
        let mut noted = Vec::new();
        for (id, waiting) in &mut self.waiting {
            if waiting.result.is_none() && is_for(*id, &waiting.route) {
                waiting.result = Some(result.clone());
                self.wakers.extend(waiting.waker.take());
                noted.push(waiting.entry);
            }
        }
        noted.into_iter().for_each(|entry| self.note_outcome(entry, result));
    }

    fn note_outcome(&mut self, entry: Option<usize>, result: &CallResult) {
        if let Some(recorded) = entry.and_then(|entry| self.log.as_mut()?.get_mut(entry)) {
            recorded.outcome = Some(result.clone());
        }
    }
}

pub(crate) fn lost() -> LinkError {
    LinkError::Unknown("the connection was lost before the reply came".into())
}

pub(crate) fn not_sent() -> LinkError {
    LinkError::NotSent("the embedded server cannot be reached".into())
}

pub(crate) fn closed() -> LinkError {
    LinkError::NotSent("the link is closed".into())
}
