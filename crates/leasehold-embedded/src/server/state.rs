//! The state behind the server's lock.

use crate::clock::ServerClock;
use crate::engine::Engine;
use crate::engine::channels::PubSubMode;
use crate::engine::refusal::{RefusalEffect, RefuseAt};
use crate::server::connections::{Connections, LinkId};
use crate::server::fault::Faults;
use crate::server::in_flight::{CallId, Held, Route, Waiting};
use crate::server::recorded::Recorded;
use crate::server::transit::Transit;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkEvent, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::collections::BTreeMap;
use std::task::Waker;

/// The engine, and the server's ends of all connections.
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) links: BTreeMap<LinkId, Connections>,
    pub(crate) faults: Faults,
    pub(crate) waiting: BTreeMap<CallId, Waiting>,
    pub(crate) held: Vec<Held>,
    pub(crate) transit: Transit<Self>,
    pub(crate) log: Option<Vec<Recorded>>,
    pub(crate) eviction_policy: String,
    pub(crate) mode: PubSubMode,
    /// Whether new links start disconnected.
    pub(crate) down: bool,
    last_number: u64,
    /// Tasks to wake after the lock is released.
    pub(crate) wakers: Vec<Waker>,
}

impl State {
    pub(crate) fn new(clock: ServerClock) -> mlua::Result<Self> {
        Ok(Self::with_engine(Engine::new(clock)?))
    }

    /// Resets everything except the Lua state and the compiled scripts, which store no data.
    pub(crate) fn renewed(self, clock: ServerClock) -> Self {
        Self::with_engine(self.engine.renewed(clock))
    }

    fn with_engine(engine: Engine) -> Self {
        Self {
            engine,
            links: BTreeMap::new(),
            faults: Faults::default(),
            waiting: BTreeMap::new(),
            held: Vec::new(),
            transit: Transit::default(),
            log: None,
            eviction_policy: "noeviction".into(),
            mode: PubSubMode::Plain,
            down: false,
            last_number: 0,
            wakers: Vec::new(),
        }
    }

    /// Returns a new unique number.
    pub(crate) const fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Runs a turn of the engine, and delivers its messages.
    pub(crate) fn turn<R>(&mut self, take: impl FnOnce(&mut Engine) -> R) -> R {
        let result = take(&mut self.engine);
        for (link, channel, text) in self.engine.take_published() {
            let Some(connections) = self.links.get_mut(&link) else { continue };
            if connections.lose_notices > 0 {
                connections.lose_notices -= 1;
                continue;
            }
            self.carry(Route::of_notices(link), move |state| state.event(link, LinkEvent::of_message(channel, &text)));
        }
        result
    }

    /// Runs a call, and records the run in the log.
    pub(crate) fn apply(&mut self, call: &Call, entry: Option<usize>) -> Result<Reply, ServerError> {
        if let Some(recorded) = entry.and_then(|entry| self.log.as_mut()?.get_mut(entry)) {
            recorded.applied += 1;
        }
        self.turn(|engine| engine.call(call))
    }

    /// Runs a call with a refusal within the script. Also returns whether the script reached the refusal.
    pub(crate) fn apply_refused(
        &mut self,
        call: &Call,
        entry: Option<usize>,
        inside: RefuseAt,
        error: ServerError,
    ) -> (Result<Reply, ServerError>, RefusalEffect) {
        self.engine.plan_refusal(inside, error);
        let result = self.apply(call, entry);
        (result, self.engine.end_refusal())
    }

    /// Reports an event to a link.
    pub(crate) fn event(&mut self, link: LinkId, event: LinkEvent) {
        if let Some(connections) = self.links.get_mut(&link) {
            self.wakers.extend(connections.push(event));
        }
    }

    /// Schedules `deliver` at the other end of a connection.
    pub(crate) fn carry(&mut self, route: Route, deliver: impl FnOnce(&mut Self) + Send + 'static) {
        if self.transit.is_instant() {
            return deliver(self);
        }
        self.transit.send(self.engine.clock.now(), route, deliver);
    }

    /// Delivers all messages that have arrived.
    pub(crate) fn deliver_due(&mut self) {
        if self.transit.is_empty() {
            return;
        }
        let now = self.engine.clock.now();
        while let Some(deliver) = self.transit.receive(now) {
            deliver(self);
        }
    }

    /// Returns the instant at which the clock must wake the server, unless already requested.
    pub(crate) fn take_alarm(&mut self) -> Option<(Instant, ServerClock)> {
        self.transit.take_alarm().map(|due| (due, self.engine.clock.clone()))
    }

    /// Starts the log if necessary. Returns its length.
    pub(crate) fn start_log(&mut self) -> usize {
        self.log.get_or_insert_default().len()
    }

    pub(crate) fn log(&self) -> &[Recorded] {
        self.log.as_deref().unwrap_or_default()
    }
}
