//! The way of a call from its link to the server and back, with all that can go wrong on it.

use crate::server::connections::{Connections, LinkId, LinkState};
use crate::server::fault::Fault;
use crate::server::in_flight::{CallId, CallResult, Held, Route, Waiting, Wire};
use crate::server::recorded::Recorded;
use crate::server::state::State;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, LinkEvent, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::scan::ScanPage;
use std::task::Waker;
use std::time::Duration;

/// The state of a call that was begun.
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
    pub(crate) fn begin(&mut self, link: LinkId, decided: u64, call: &Call) -> Begun {
        if self.links.get(&link).is_some_and(|connections| connections.settlings != decided) {
            return Begun::Ended(Err(LinkError::NotSent("it was settled meanwhile".to_owned())));
        }
        let entry = self.log.as_mut().map(|log| {
            log.push(Recorded { link, call: call.clone(), applied: 0, outcome: None });
            log.len() - 1
        });
        let begun = self.begin_logged(link, call, entry);
        if let Begun::Ended(result) = &begun {
            self.note_outcome(entry, result);
        }
        begun
    }

    fn begin_logged(&mut self, link: LinkId, call: &Call, entry: Option<usize>) -> Begun {
        let connections = match self.reachable(link) {
            Ok(connections) => connections,
            Err(error) => return Begun::Ended(Err(error)),
        };
        let wire = Wire::of(call);
        let route = Route { link, wire, life: *connections.life(wire) };
        let fault = connections.faults.take(call).or_else(|| self.faults.take(call));
        match fault {
            Some(Fault::LinkDown) => {
                self.set_down(link);
                Begun::Ended(Err(not_sent()))
            }
            Some(Fault::Hold) => {
                let id = self.wait(route, entry);
                self.held.push(Held { id, route, entry, call: call.clone() });
                Begun::Waits(id)
            }
            fault if self.transit.is_instant() => match self.arrive(link, call, entry, fault) {
                Some(result) => Begun::Ended(result),
                None => Begun::Waits(self.wait(route, entry)),
            },
            fault => {
                let id = self.wait(route, entry);
                let call = call.clone();
                self.carry(route, move |state| {
                    if let Some(result) = state.arrive(link, &call, entry, fault) {
                        state.carry(route, move |state| {
                            // It is noted for a caller that has gone, too.
                            state.note_outcome(entry, &result);
                            state.reply(id, result);
                        });
                    }
                });
                Begun::Waits(id)
            }
        }
    }

    /// The connections of a link on which something can be sent.
    fn reachable(&mut self, link: LinkId) -> Result<&mut Connections, LinkError> {
        let connections = self.links.get_mut(&link).ok_or_else(closed)?;
        match connections.state {
            LinkState::Up => Ok(connections),
            LinkState::Down => Err(not_sent()),
            LinkState::Closed => Err(closed()),
        }
    }

    /// Notes that a caller waits.
    fn wait(&mut self, route: Route, entry: Option<usize>) -> CallId {
        let id = self.next_number();
        self.waiting.insert(id, Waiting { route, entry, result: None, waker: None });
        id
    }

    /// A call is at the server; gives its result, if there is to be one.
    fn arrive(&mut self, link: LinkId, call: &Call, entry: Option<usize>, fault: Option<Fault>) -> Option<CallResult> {
        let reply = match fault {
            // The last two are seen to where the call is sent.
            None | Some(Fault::LinkDown | Fault::Hold) => self.apply(call, entry),
            Some(Fault::Duplicate) => {
                let _first_reply = self.apply(call, entry);
                self.apply(call, entry)
            }
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::RefuseInside(inside, error)) => self.apply_refused(call, entry, inside, error).0,
            Some(Fault::LoseRequest) => {
                self.reset(link, Wire::of(call));
                return Some(Err(lost()));
            }
            Some(Fault::LoseReply) => {
                let _lost_reply = self.apply(call, entry);
                self.reset(link, Wire::of(call));
                return Some(Err(lost()));
            }
            Some(Fault::Swallow) => {
                let _swallowed_reply = self.apply(call, entry);
                return None;
            }
        };
        Some(reply.map_err(|error| LinkError::Refused(error.of_script(call.script(), call.script()))))
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

    /// The caller has gone. A call that was sent stays sent.
    pub(crate) fn forget_waiting(&mut self, id: CallId) -> Option<Waiting> {
        self.waiting.remove(&id)
    }

    /// Applies the requests of a link that a proxy keeps, in order; gives their number.
    pub(crate) fn release_held(&mut self, link: LinkId) -> usize {
        let held = std::mem::take(&mut self.held);
        let (released, kept): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.route.link == link);
        self.held = kept;
        let number = released.len();
        for Held { id, route, entry, call } in released {
            let refused = |error: ServerError| LinkError::Refused(error.of_script(call.script(), call.script()));
            let result = self.apply(&call, entry).map_err(refused);
            // A caller whose connection has died meanwhile has been told so already, and hears nothing more.
            self.carry(route, move |state| state.reply(id, result));
        }
        number
    }

    /// How many requests of a link a proxy keeps.
    pub(crate) fn held(&self, link: LinkId) -> usize {
        self.held.iter().filter(|held| held.route.link == link).count()
    }

    /// Settles all earlier calls. Kills each connection on which one still waits.
    pub(crate) fn settle(&mut self, link: LinkId) -> Begun {
        let route = match self.reachable(link) {
            Ok(connections) => {
                connections.settlings += 1;
                Route { link, wire: Wire::Calls, life: *connections.life(Wire::Calls) }
            }
            Err(error) => return Begun::Ended(Err(error)),
        };
        let id = self.wait(route, None);
        // Whatever was sent before is answered before this is, as far as it is answered at all.
        self.carry(route, move |state| {
            state.carry(route, move |state| {
                let stuck = Wire::OF_CALLS.map(|wire| (wire, state.is_stuck(link, wire, id)));
                state.reply(id, Ok(Reply::Nil));
                state.held.retain(|held| held.id > id || held.route.link != link);
                for (wire, _) in stuck.into_iter().filter(|(_, is_stuck)| *is_stuck) {
                    state.reset(link, wire);
                }
            });
        });
        Begun::Waits(id)
    }

    /// Asks for a page of the names of keys. The reply is that of `SCAN`.
    pub(crate) fn scan(&mut self, link: LinkId, page: ScanPage) -> Begun {
        let route = match self.reachable(link) {
            Ok(connections) => Route { link, wire: Wire::Calls, life: *connections.life(Wire::Calls) },
            Err(error) => return Begun::Ended(Err(error)),
        };
        let id = self.wait(route, None);
        self.carry(route, move |state| {
            let (next, names) = state.engine.page(&page);
            let place = Reply::Bulk(Bytes::from(next.unwrap_or_default().to_string()));
            let reply = Reply::Array(vec![place, Reply::Array(names.into_iter().map(Reply::Bulk).collect())]);
            state.carry(route, move |state| state.reply(id, Ok(reply)));
        });
        Begun::Waits(id)
    }

    /// Whether a call that was sent before `id` still waits for its reply on this connection.
    fn is_stuck(&mut self, link: LinkId, wire: Wire, id: CallId) -> bool {
        let Some(connections) = self.links.get_mut(&link) else { return false };
        let route = Route { link, wire, life: *connections.life(wire) };
        let waiting = self.waiting.range(..id).filter(|(_, waiting)| waiting.result.is_none());
        let waiting = waiting.map(|(_, waiting)| &waiting.route);
        let mut all = waiting.chain(self.held.iter().filter(|held| held.id < id).map(|held| &held.route));
        all.any(|other| *other == route)
    }

    /// Begins a subscription, or ends one.
    pub(crate) fn listen(&mut self, link: LinkId, channel: Bytes, listens: bool) -> Begun {
        let confirmation = match self.reachable(link) {
            Ok(connections) if connections.lose_confirmations > 0 => {
                connections.lose_confirmations -= 1;
                Err(lost())
            }
            Ok(_) => Ok(Reply::Nil),
            Err(error) => return Begun::Ended(Err(error)),
        };
        let route = Route::of_notices(link);
        let id = self.wait(route, None);
        self.carry(route, move |state| {
            if let Ok(mode) = state.reachable(link).map(|connections| connections.mode) {
                let mut channels = state.engine.channels();
                if listens {
                    channels.subscribe(mode, channel, link);
                } else {
                    channels.unsubscribe(mode, channel, link);
                }
            }
            state.carry(route, move |state| state.reply(id, confirmation));
        });
        Begun::Waits(id)
    }

    /// Resets a connection for calls.
    pub(crate) fn reset(&mut self, link: LinkId, wire: Wire) {
        self.lose(link, wire);
        let life = self.next_number();
        let Some(connections) = self.links.get_mut(&link) else { return };
        *connections.life(wire) = life;
        if wire == Wire::Calls {
            self.wakers.extend(connections.push(LinkEvent::CallsReset));
        }
    }

    /// The notice connection is lost and at once back, without subscriptions.
    pub(crate) fn reset_notices(&mut self, link: LinkId) {
        self.engine.channels().disconnect(link);
        self.lose(link, Wire::Notices);
        self.event(link, LinkEvent::NoticesReset);
    }

    /// All connections of a link are lost, and none can be made.
    pub(crate) fn set_down(&mut self, link: LinkId) {
        let Some(connections) = self.links.get_mut(&link).filter(|links| links.state == LinkState::Up) else { return };
        connections.state = LinkState::Down;
        self.engine.channels().disconnect(link);
        Wire::ALL.into_iter().for_each(|wire| self.lose(link, wire));
        self.event(link, out_of_reach());
    }

    /// Connections can be made again, and are.
    pub(crate) fn set_up(&mut self, link: LinkId) {
        let Some(connections) = self.links.get_mut(&link).filter(|links| links.state == LinkState::Down) else {
            return;
        };
        connections.state = LinkState::Up;
        let again = std::mem::replace(&mut connections.was_up, true);
        self.event(link, LinkEvent::Connected { server: SERVER.to_owned(), again });
        self.reset_all(link);
    }

    /// Every connection of a link is lost and at once back.
    fn reset_all(&mut self, link: LinkId) {
        self.reset_notices(link);
        Wire::OF_CALLS.into_iter().for_each(|wire| self.reset(link, wire));
    }

    /// The process died and came back with nothing. A call that a proxy kept has lost the connection that it would have gone by.
    pub(crate) fn restart_empty(&mut self) {
        self.held.clear();
        self.engine.keyspace().clear();
        let up = self.links.iter().filter(|(_, connections)| connections.state == LinkState::Up);
        let up: Vec<_> = up.map(|(link, _)| *link).collect();
        up.into_iter().for_each(|link| self.reset_all(link));
    }

    /// The client closes its connections.
    pub(crate) fn close(&mut self, link: LinkId) {
        self.engine.channels().disconnect(link);
        Wire::ALL.into_iter().for_each(|wire| self.end_waiting(link, wire));
        if let Some(connections) = self.links.get_mut(&link) {
            self.wakers.extend(connections.close());
        }
    }

    /// A connection is gone, and with it what is on its way.
    fn lose(&mut self, link: LinkId, wire: Wire) {
        self.transit.lose(link, wire);
        self.end_waiting(link, wire);
    }

    /// Tells all callers of a connection that it is gone.
    fn end_waiting(&mut self, link: LinkId, wire: Wire) {
        let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.route.is_by(link, wire));
        let ended: Vec<_> = waiting.map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.reply(id, Err(lost())));
    }

    /// Tells a caller, if it waits.
    fn reply(&mut self, id: CallId, result: CallResult) {
        let Some(waiting) = self.waiting.get_mut(&id).filter(|waiting| waiting.result.is_none()) else { return };
        waiting.result = Some(result.clone());
        self.wakers.extend(waiting.waker.take());
        let entry = waiting.entry;
        self.note_outcome(entry, &result);
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
    LinkError::NotSent(CANNOT_BE_REACHED.into())
}

/// The event of a link that is down.
pub(crate) fn out_of_reach() -> LinkEvent {
    let (server, why) = (SERVER.to_owned(), CANNOT_BE_REACHED.to_owned());
    LinkEvent::OutOfReach { server, why, lost_for: Duration::ZERO, slots: None }
}

/// The name of the server in events.
const SERVER: &str = "embedded";

const CANNOT_BE_REACHED: &str = "the embedded server cannot be reached";

pub(crate) fn closed() -> LinkError {
    LinkError::NotSent("the link is closed".into())
}
