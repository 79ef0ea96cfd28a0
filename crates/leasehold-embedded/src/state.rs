//! Everything behind the one lock of a server.

use crate::channels::{LinkId, World};
use crate::clock::ServerClock;
use crate::connections::Connections;
use crate::fault::Faults;
use crate::in_flight::{CallId, Held, Route, Waiting};
use crate::keyspace::Keyspace;
use crate::lua::{Compiled, Host};
use crate::recorder::Recorded;
use crate::refusal::{Inside, Met};
use crate::transit::Transit;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkEvent, ServerError};
use leasehold_core::reply::Reply;
use leasehold_core::script::Script;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Waker;

/// The server, and its ends of all connections.
pub(crate) struct State {
    host: Host,
    /// Shared with the host's functions. Its lock is only ever taken under the server's, so it is never waited for.
    pub(crate) keyspace: Arc<Mutex<Keyspace>>,
    pub(crate) clock: ServerClock,
    pub(crate) stepped_micros: i64,
    scripts: Scripts,
    pub(crate) links: BTreeMap<LinkId, Connections>,
    pub(crate) faults: Faults,
    pub(crate) waiting: BTreeMap<CallId, Waiting>,
    pub(crate) held: Vec<Held>,
    pub(crate) transit: Transit,
    pub(crate) log: Option<Vec<Recorded>>,
    /// How many replicas acknowledge what is written.
    pub(crate) replicas: u32,
    pub(crate) eviction_policy: String,
    pub(crate) world: World,
    /// Whether links made from now on find the server out of reach.
    pub(crate) down: bool,
    last_number: u64,
    /// To be woken when the lock is open again.
    pub(crate) wakers: Vec<Waker>,
}

/// The compiled script, its name, and how often it was called; by the address of the script, which is static.
type Scripts = FxHashMap<usize, (Compiled, &'static str, u64)>;

impl State {
    pub(crate) fn new(clock: ServerClock) -> mlua::Result<Self> {
        let keyspace = Arc::new(Mutex::new(Keyspace::default()));
        Ok(Self::with_host(Host::new(keyspace.clone())?, keyspace, FxHashMap::default(), clock))
    }

    /// Nothing stays of `self` but its Lua state and the scripts that are compiled in it, which know nothing of what they have done.
    pub(crate) fn renewed(self, clock: ServerClock) -> Self {
        *self.keyspace.lock() = Keyspace::default();
        let mut scripts = self.scripts;
        scripts.values_mut().for_each(|(_, _, calls)| *calls = 0);
        Self::with_host(self.host, self.keyspace, scripts, clock)
    }

    fn with_host(host: Host, keyspace: Arc<Mutex<Keyspace>>, scripts: Scripts, clock: ServerClock) -> Self {
        Self {
            host,
            keyspace,
            clock,
            stepped_micros: 0,
            scripts,
            links: BTreeMap::new(),
            faults: Faults::default(),
            waiting: BTreeMap::new(),
            held: Vec::new(),
            transit: Transit::default(),
            log: None,
            replicas: 0,
            eviction_policy: "noeviction".into(),
            world: World::Plain,
            down: false,
            last_number: 0,
            wakers: Vec::new(),
        }
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
            self.carry(Route::of_notices(link), move |state| state.event(link, LinkEvent::Notice { channel }));
        }
        result
    }

    /// Runs a call, and notes it in its entry of the log.
    pub(crate) fn apply(&mut self, call: &Call, entry: Option<usize>) -> Result<Reply, ServerError> {
        if let Some(recorded) = entry.and_then(|entry| self.log.as_mut()?.get_mut(entry)) {
            recorded.applied += 1;
        }
        let script = self.compiled(call.script())?;
        let reply = self.turn(true, |state| state.host.run(&script, call.script().sha1(), call.keys(), call.args()))?;
        Ok(match call.replicas() {
            None => reply,
            Some(_) => Reply::Array(vec![reply, Reply::Int(i64::from(self.replicas))]),
        })
    }

    /// The same, where the script meets an error in its middle. Also says whether it came so far.
    pub(crate) fn apply_refused(
        &mut self,
        call: &Call,
        entry: Option<usize>,
        inside: Inside,
        error: ServerError,
    ) -> (Result<Reply, ServerError>, Met) {
        self.keyspace.lock().refusals.plan(inside, error);
        let result = self.apply(call, entry);
        (result, self.keyspace.lock().refusals.end())
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

    /// Starts the log, if it has not been; gives its length.
    pub(crate) fn start_log(&mut self) -> usize {
        self.log.get_or_insert_default().len()
    }

    pub(crate) fn log(&self) -> &[Recorded] {
        self.log.as_deref().unwrap_or_default()
    }
}
