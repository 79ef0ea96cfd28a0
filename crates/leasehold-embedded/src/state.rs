//! Everything behind the one lock of a server.

use crate::channels::{LinkId, World};
use crate::clock::ServerClock;
use crate::connections::{Connections, LinkState};
use crate::fault::{Fault, Faults};
use crate::in_flight::{CallId, CallResult, Held, Route, Waiting};
use crate::keyspace::Keyspace;
use crate::lua::{Compiled, Host};
use crate::recorder::Recorded;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{Epoch, LinkError, LinkEvent, Plane, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::script::Script;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Waker;

const BOTH: [Plane; 2] = [Plane::Foreground, Plane::Lifeline];

/// The server, and its ends of all connections.
pub(crate) struct State {
    host: Host,
    /// Shared with the host's functions. Its lock is only ever taken under the server's, so nobody waits for it.
    pub(crate) keyspace: Arc<Mutex<Keyspace>>,
    clock: ServerClock,
    pub(crate) stepped_micros: i64,
    /// By the address of the script, which is static.
    scripts: HashMap<usize, (Compiled, &'static str, u64)>,
    pub(crate) links: BTreeMap<LinkId, Connections>,
    pub(crate) faults: Faults,
    waiting: BTreeMap<CallId, Waiting>,
    held: Vec<Held>,
    log: Option<Vec<Recorded>>,
    pub(crate) eviction_policy: String,
    pub(crate) world: World,
    last_number: u64,
    /// To be woken when the lock is open again.
    pub(crate) wakers: Vec<Waker>,
}

/// What has become of a call that was begun.
pub(crate) enum Begun {
    /// Its result is here.
    Ended(CallResult),
    /// Its result will come.
    Waits(CallId),
}

impl State {
    pub(crate) fn new(clock: ServerClock) -> mlua::Result<Self> {
        let keyspace = Arc::new(Mutex::new(Keyspace::default()));
        Ok(Self {
            host: Host::new(keyspace.clone())?,
            keyspace,
            clock,
            stepped_micros: 0,
            scripts: HashMap::new(),
            links: BTreeMap::new(),
            faults: Faults::default(),
            waiting: BTreeMap::new(),
            held: Vec::new(),
            log: None,
            eviction_policy: "noeviction".into(),
            world: World::Plain,
            last_number: 0,
            wakers: Vec::new(),
        })
    }

    /// A number never given before.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        self.clock.wall_micros() + self.stepped_micros
    }

    /// Begins a turn, takes it, and delivers what it published.
    pub(crate) fn turn<R>(&mut self, in_script: bool, take: impl FnOnce(&mut Self) -> R) -> R {
        let now = self.wall_micros();
        self.keyspace.lock().begin_turn(now, in_script);
        let result = take(self);
        let published = self.keyspace.lock().channels.take_published();
        for (link, channel) in published {
            let Some(connections) = self.links.get_mut(&link) else { continue };
            if connections.lose_notices > 0 {
                connections.lose_notices -= 1;
                continue;
            }
            self.wakers.extend(connections.push(LinkEvent::Notice { channel }));
        }
        result
    }

    /// Runs a call, and notes it in its entry of the log.
    pub(crate) fn apply(&mut self, call: &Call, entry: Option<usize>) -> Result<Reply, ServerError> {
        if let Some(recorded) = entry.and_then(|entry| self.log.as_mut()?.get_mut(entry)) {
            recorded.applied += 1;
        }
        let script = self.compiled(call.script())?;
        self.turn(true, |state| state.host.run(&script, call.script().sha1(), call.keys(), call.args()))
    }

    /// Runs a text that is no script of ours.
    pub(crate) fn eval(&mut self, source: &str, keys: &[Bytes], args: &[Bytes]) -> Result<Reply, ServerError> {
        let script = self.host.compile(source)?;
        self.turn(true, |state| state.host.run(&script, "eval", keys, args))
    }

    fn compiled(&mut self, script: &'static Script) -> Result<Compiled, ServerError> {
        let address = std::ptr::from_ref(script).addr();
        if let Some((compiled, _, calls)) = self.scripts.get_mut(&address) {
            *calls += 1;
            return Ok(compiled.clone());
        }
        let compiled = self.host.compile(script.source())?;
        self.scripts.insert(address, (compiled.clone(), script.name(), 1));
        Ok(compiled)
    }

    pub(crate) fn calls(&self, script: &str) -> u64 {
        self.scripts.values().filter(|(_, name, _)| *name == script).map(|(_, _, calls)| calls).sum()
    }

    /// Sends a call from a link, with whatever fault waits for it.
    pub(crate) fn begin(&mut self, link: LinkId, plane: Plane, call: &Call) -> Begun {
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

    /// The result of a call that waits, if it has come. Otherwise `waker` is woken when it does; the waker that this replaces comes
    /// back, to be dropped without a lock.
    pub(crate) fn poll_waiting(&mut self, id: CallId, waker: &Waker) -> Result<CallResult, Option<Waker>> {
        match self.waiting.get_mut(&id) {
            Some(Waiting { result: None, waker: slot, .. }) => Err(slot.replace(waker.clone())),
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
        let current = self.links.get(&link).map(|connections| connections.epoch(plane));
        let must_kill = self
            .waiting
            .values()
            .map(|waiting| &waiting.route)
            .chain(self.held.iter().map(|held| &held.route))
            .any(|route| stuck(route) && Some(route.epoch) == current);
        self.held.retain(|held| !stuck(&held.route));
        if must_kill {
            self.reset(link, plane);
        }
        Ok(())
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
        BOTH.into_iter().for_each(|plane| self.end_waiting(link, plane));
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
        BOTH.into_iter().for_each(|plane| self.reset(link, plane));
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
        BOTH.into_iter().for_each(|plane| self.end_waiting(link, plane));
        if let Some(connections) = self.links.get_mut(&link) {
            self.wakers.extend(connections.close());
        }
    }

    /// Starts the log, if it has not been; gives its length.
    pub(crate) fn start_log(&mut self) -> usize {
        self.log.get_or_insert_default().len()
    }

    pub(crate) fn log(&self) -> &[Recorded] {
        self.log.as_deref().unwrap_or_default()
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

fn lost() -> LinkError {
    LinkError::Unknown("the connection was lost before the reply came".into())
}

fn not_sent() -> LinkError {
    LinkError::NotSent("the embedded server cannot be reached".into())
}

pub(crate) fn closed() -> LinkError {
    LinkError::NotSent("the link is closed".into())
}
