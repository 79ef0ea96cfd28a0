//! The engine: scripts and commands over typed keys, without clients, connections or faults.

mod answer;
pub(crate) mod channels;
mod command;
mod convert;
pub(crate) mod keyspace;
mod lua;
mod number;
pub(crate) mod refusal;
mod value;

use crate::clock::ServerClock;
use bytes::Bytes;
use channels::{Channels, Published};
use keyspace::Keyspace;
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_core::scan::ScanPage;
use leasehold_core::script::Script;
use lua::{Compiled, Host};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use refusal::{RefusalEffect, RefuseAt};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A keyspace, its Lua state, and its clock.
pub(crate) struct Engine {
    host: Host,
    /// Shared with the functions of the Lua host. Only a holder of the server's lock locks it, so the lock is never
    /// contended.
    keyspace: Arc<Mutex<Keyspace>>,
    pub(crate) clock: ServerClock,
    pub(crate) stepped_micros: i64,
    scripts: Scripts,
    /// Number of replicas that acknowledge writes.
    pub(crate) replicas: u32,
}

/// Compiled scripts with name and number of calls, by the address of the static script.
type Scripts = FxHashMap<usize, (Compiled, &'static str, u64)>;

impl Engine {
    pub(crate) fn new(clock: ServerClock) -> mlua::Result<Self> {
        let keyspace = Arc::new(Mutex::new(Keyspace::default()));
        Ok(Self::with_host(Host::new(keyspace.clone())?, keyspace, FxHashMap::default(), clock))
    }

    /// Resets everything except the Lua state and the compiled scripts, which store no data.
    pub(crate) fn renewed(self, clock: ServerClock) -> Self {
        *self.keyspace.lock() = Keyspace::default();
        let mut scripts = self.scripts;
        scripts.values_mut().for_each(|(_, _, calls)| *calls = 0);
        Self::with_host(self.host, self.keyspace, scripts, clock)
    }

    const fn with_host(host: Host, keyspace: Arc<Mutex<Keyspace>>, scripts: Scripts, clock: ServerClock) -> Self {
        Self { host, keyspace, clock, stepped_micros: 0, scripts, replicas: 0 }
    }

    pub(crate) fn keyspace(&self) -> MutexGuard<'_, Keyspace> {
        self.keyspace.lock()
    }

    /// Returns the subscriptions.
    pub(crate) fn channels(&self) -> MappedMutexGuard<'_, Channels> {
        MutexGuard::map(self.keyspace.lock(), |keyspace| &mut keyspace.channels)
    }

    pub(crate) fn wall_micros(&self) -> i64 {
        self.clock.wall_micros() + self.stepped_micros
    }

    /// Runs the script of a call. A durable call also returns the number of replicas.
    pub(crate) fn call(&mut self, call: &Call) -> Result<Reply, ServerError> {
        let script = self.compiled(call.script())?;
        self.begin_turn(true);
        let reply = self.host.run(&script, call.script().sha1(), call.keys(), call.args())?;
        Ok(match call.replicas() {
            None => reply,
            Some(_) => Reply::Array(vec![reply, Reply::Int(i64::from(self.replicas))]),
        })
    }

    /// Plans a refusal for the next scripts, until [`Engine::end_refusal`].
    pub(crate) fn plan_refusal(&self, inside: RefuseAt, error: ServerError) {
        self.keyspace.lock().refusals.plan(inside, error);
    }

    /// Ends the refusal. Returns whether a script reached it.
    pub(crate) fn end_refusal(&self) -> RefusalEffect {
        self.keyspace.lock().refusals.end()
    }

    /// Runs a custom script.
    pub(crate) fn eval(&self, source: &str, keys: &[Bytes], args: &[Bytes]) -> Result<Reply, ServerError> {
        let script = self.host.compile(source)?;
        self.begin_turn(true);
        self.host.run(&script, "eval", keys.iter().map(Bytes::as_ref), args.iter().map(Bytes::as_ref))
    }

    /// Runs one command.
    pub(crate) fn command(&self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        self.begin_turn(false);
        command::run(&mut self.keyspace.lock(), words).map(|answer| answer.into_reply())
    }

    /// Returns all unexpired keys, in order.
    pub(crate) fn keys(&self) -> Vec<Bytes> {
        self.begin_turn(false);
        self.keyspace.lock().keys()
    }

    /// Returns a page of key names, and the cursor of the next page.
    pub(crate) fn page(&self, page: &ScanPage) -> (Option<u64>, Vec<Bytes>) {
        self.begin_turn(false);
        self.keyspace.lock().page(page.cursor, usize::try_from(page.count).unwrap_or(usize::MAX), &page.pattern)
    }

    /// Returns the messages published since the last call, in order.
    pub(crate) fn take_published(&self) -> Vec<Published> {
        self.channels().take_published()
    }

    /// Returns the number of calls of a script.
    pub(crate) fn calls(&self, script: &str) -> u64 {
        self.scripts.values().filter(|(_, name, _)| *name == script).map(|(_, _, calls)| calls).sum()
    }

    fn begin_turn(&self, in_script: bool) {
        let now = self.wall_micros();
        self.keyspace.lock().begin_turn(now, in_script);
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
}
