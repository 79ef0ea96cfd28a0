//! The path of a call from its link to the server and back, including faults.

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

/// The state of a call after sending.
pub(crate) enum Begun {
    /// The result is available.
    Ended(CallResult),
    /// The result is pending.
    Waits(CallId),
}

/// The result is still pending.
pub(crate) struct NotYet;

impl State {
    /// Sends a call of a link, with any planned fault.
    pub(crate) fn begin(&mut self, link: LinkId, decided: u64, call: &Call) -> Begun {
        if self.links.get(&link).is_some_and(|connections| connections.settlings != decided) {
            return Begun::Ended(Err(LinkError::NotSent("a settling has ruled the call out".to_owned())));
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
                            // Record the call even if the caller is gone.
                            state.note_outcome(entry, &result);
                            state.reply(id, result);
                        });
                    }
                });
                Begun::Waits(id)
            }
        }
    }

    /// Returns the connections of a link that is up.
    fn reachable(&mut self, link: LinkId) -> Result<&mut Connections, LinkError> {
        let connections = self.links.get_mut(&link).ok_or_else(closed)?;
        match connections.state {
            LinkState::Up => Ok(connections),
            LinkState::Down => Err(not_sent()),
            LinkState::Closed => Err(closed()),
        }
    }

    /// Registers a waiting caller.
    fn wait(&mut self, route: Route, entry: Option<usize>) -> CallId {
        let id = self.next_number();
        self.waiting.insert(id, Waiting { route, entry, result: None, waker: None });
        id
    }

    /// Handles a call that arrived at the server. Returns its result, unless a fault suppresses it.
    fn arrive(&mut self, link: LinkId, call: &Call, entry: Option<usize>, fault: Option<Fault>) -> Option<CallResult> {
        let reply = match fault {
            // The sender handles the remaining faults.
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

    /// Returns the result of a waiting call, if available. Otherwise swaps `waker` with the registered waker. Callers
    /// clone and drop wakers without a lock.
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

    /// Removes a dropped caller. Its call stays in transit.
    pub(crate) fn forget_waiting(&mut self, id: CallId) -> Option<Waiting> {
        self.waiting.remove(&id)
    }

    /// Applies the requests of a link that a proxy holds, in order. Returns their number.
    pub(crate) fn release_held(&mut self, link: LinkId) -> usize {
        let held = std::mem::take(&mut self.held);
        let (released, kept): (Vec<_>, Vec<_>) = held.into_iter().partition(|held| held.route.link == link);
        self.held = kept;
        let number = released.len();
        for Held { id, route, entry, call } in released {
            let refused = |error: ServerError| LinkError::Refused(error.of_script(call.script(), call.script()));
            let result = self.apply(&call, entry).map_err(refused);
            // A caller on a dead connection has already received an error.
            self.carry(route, move |state| state.reply(id, result));
        }
        number
    }

    /// Returns the number of requests of a link that a proxy holds.
    pub(crate) fn held(&self, link: LinkId) -> usize {
        self.held.iter().filter(|held| held.route.link == link).count()
    }

    /// Settles all earlier calls. Kills each connection with a waiting call.
    pub(crate) fn settle(&mut self, link: LinkId) -> Begun {
        let route = match self.reachable(link) {
            Ok(connections) => {
                connections.settlings += 1;
                Route { link, wire: Wire::Calls, life: *connections.life(Wire::Calls) }
            }
            Err(error) => return Begun::Ended(Err(error)),
        };
        let id = self.wait(route, None);
        // Replies to earlier calls precede the settlement.
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

    /// Requests an empty reply.
    pub(crate) fn ping(&mut self, link: LinkId) -> Begun {
        let route = match self.reachable(link) {
            Ok(connections) => Route { link, wire: Wire::Calls, life: *connections.life(Wire::Calls) },
            Err(error) => return Begun::Ended(Err(error)),
        };
        let id = self.wait(route, None);
        self.carry(route, move |state| state.carry(route, move |state| state.reply(id, Ok(Reply::Nil))));
        Begun::Waits(id)
    }

    /// Requests a page of key names. The reply is that of `SCAN`.
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

    /// Returns whether a call sent before `id` still waits for its reply on this connection.
    fn is_stuck(&mut self, link: LinkId, wire: Wire, id: CallId) -> bool {
        let Some(connections) = self.links.get_mut(&link) else { return false };
        let route = Route { link, wire, life: *connections.life(wire) };
        let waiting = self.waiting.range(..id).filter(|(_, waiting)| waiting.result.is_none());
        let waiting = waiting.map(|(_, waiting)| &waiting.route);
        let mut all = waiting.chain(self.held.iter().filter(|held| held.id < id).map(|held| &held.route));
        all.any(|other| *other == route)
    }

    /// Subscribes or unsubscribes.
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

    /// Resets the notice connection, which loses its subscriptions.
    pub(crate) fn reset_notices(&mut self, link: LinkId) {
        self.engine.channels().disconnect(link);
        self.lose(link, Wire::Notices);
        self.event(link, LinkEvent::NoticesReset);
    }

    /// Disconnects a link.
    pub(crate) fn set_down(&mut self, link: LinkId) {
        let Some(connections) = self.links.get_mut(&link).filter(|links| links.state == LinkState::Up) else { return };
        connections.state = LinkState::Down;
        self.engine.channels().disconnect(link);
        Wire::ALL.into_iter().for_each(|wire| self.lose(link, wire));
        self.event(link, out_of_reach());
    }

    /// Reconnects a link.
    pub(crate) fn set_up(&mut self, link: LinkId) {
        let Some(connections) = self.links.get_mut(&link).filter(|links| links.state == LinkState::Down) else {
            return;
        };
        connections.state = LinkState::Up;
        let again = std::mem::replace(&mut connections.was_up, true);
        self.event(link, LinkEvent::Connected { server: SERVER.to_owned(), again });
        self.reset_all(link);
    }

    /// Resets every connection of a link.
    fn reset_all(&mut self, link: LinkId) {
        self.reset_notices(link);
        Wire::OF_CALLS.into_iter().for_each(|wire| self.reset(link, wire));
    }

    /// Restarts the server without data. Drops requests held by a proxy.
    pub(crate) fn restart_empty(&mut self) {
        self.held.clear();
        self.engine.keyspace().clear();
        let up = self.links.iter().filter(|(_, connections)| connections.state == LinkState::Up);
        let up: Vec<_> = up.map(|(link, _)| *link).collect();
        up.into_iter().for_each(|link| self.reset_all(link));
    }

    /// Handles the client's close of its connections.
    pub(crate) fn close(&mut self, link: LinkId) {
        self.engine.channels().disconnect(link);
        Wire::ALL.into_iter().for_each(|wire| self.end_waiting(link, wire));
        if let Some(connections) = self.links.get_mut(&link) {
            self.wakers.extend(connections.close());
        }
    }

    /// Drops a connection with its messages in transit.
    fn lose(&mut self, link: LinkId, wire: Wire) {
        self.transit.lose(link, wire);
        self.end_waiting(link, wire);
    }

    /// Ends all calls of a lost connection.
    fn end_waiting(&mut self, link: LinkId, wire: Wire) {
        let waiting = self.waiting.iter().filter(|(_, waiting)| waiting.route.is_by(link, wire));
        let ended: Vec<_> = waiting.map(|(id, _)| *id).collect();
        ended.into_iter().for_each(|id| self.reply(id, Err(lost())));
    }

    /// Delivers a result to a waiting caller.
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
    LinkError::Unknown("the connection was lost before the reply arrived".into())
}

pub(crate) fn not_sent() -> LinkError {
    LinkError::NotSent(CANNOT_BE_REACHED.into())
}

/// Returns the event of an unreachable server.
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
