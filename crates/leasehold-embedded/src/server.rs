//! The embedded server.

use crate::engine::channels::PubSubMode;
pub(crate) mod connections;
mod courier;
pub(crate) mod delivery;
pub(crate) mod fault;
pub(crate) mod in_flight;
pub(crate) mod recorded;
pub(crate) mod recorder;
pub(crate) mod snapshot;
pub(crate) mod state;
mod transit;

use crate::clock::ServerClock;
use crate::engine::refusal::{RefusalEffect, RefuseAt};
use bytes::Bytes;
use connections::LinkState;
use courier::Courier;
use fault::{Fault, FaultTarget};
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use parking_lot::Mutex;
use state::State;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// An in-process server that runs the scripts of leasehold. Clones are cheap and share the server.
///
/// It coordinates a single process: other processes cannot see its keys, which the last handle drops.
#[derive(Clone)]
pub struct EmbeddedServer {
    state: Arc<Mutex<State>>,
}

impl EmbeddedServer {
    /// Returns the unique number of this server within the process.
    pub(crate) fn instance(&self) -> String {
        format!("{:p}", Arc::as_ptr(&self.state))
    }

    /// Creates an empty server on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(ServerClock::system())
    }

    /// Creates an empty server on tokio's clock, for tests under `#[tokio::test(start_paused = true)]`, in which an
    /// hour takes no real time. Clients of the server use this clock too, and must be built on a tokio runtime.
    ///
    /// # Panics
    ///
    /// Allocating a Lua state failed.
    pub fn paused() -> Self {
        Self::with_clock(ServerClock::tokio(tokio::time::Instant::now()))
    }

    /// Returns the clock of the server.
    pub fn clock(&self) -> ServerClock {
        self.with(|state| state.engine.clock.clone())
    }

    /// Creates an empty server on this clock.
    ///
    /// # Panics
    ///
    /// Allocating a Lua state failed.
    pub fn with_clock(clock: impl Into<ServerClock>) -> Self {
        let state = State::new(clock.into()).expect("creating a Lua state only fails without memory");
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Creates an empty server as [`EmbeddedServer::with_clock`] does. If `old` is the last handle of its server,
    /// reuses the Lua state and the compiled scripts, which is faster.
    pub fn in_place_of(old: Self, clock: impl Into<ServerClock>) -> Self {
        match Arc::try_unwrap(old.state) {
            Ok(state) => Self { state: Arc::new(Mutex::new(state.into_inner().renewed(clock.into()))) },
            Err(_) => Self::with_clock(clock),
        }
    }

    /// Runs a script at once, without faults.
    ///
    /// # Errors
    ///
    /// The server's error reply. Earlier writes of the script persist.
    #[doc(hidden)]
    pub fn execute(&self, call: &Call) -> Result<Reply, ServerError> {
        self.with(|state| state.apply(call, None))
    }

    /// Runs a script at once, with a refusal as its only fault. Also returns whether the script reached the refusal.
    #[doc(hidden)]
    pub fn execute_refused(
        &self,
        call: &Call,
        inside: RefuseAt,
        error: ServerError,
    ) -> (Result<Reply, ServerError>, RefusalEffect) {
        self.with(|state| state.apply_refused(call, None, inside, error))
    }

    /// Forbids these commands to all scripts, as for a user without permission. An empty list allows all commands.
    #[doc(hidden)]
    pub fn forbid(&self, commands: &[&'static str]) {
        self.with(|state| state.engine.keyspace().refusals.forbid(commands));
    }

    /// Compiles and runs a custom Lua script, to test the engine.
    ///
    /// # Errors
    ///
    /// The server's error reply. Earlier writes of the script persist.
    #[doc(hidden)]
    pub fn eval(&self, source: &str, keys: &[Bytes], args: &[Bytes]) -> Result<Reply, ServerError> {
        self.with(|state| state.turn(|engine| engine.eval(source, keys, args)))
    }

    /// Runs a command, such as `["GET", "name"]`, to inspect or prepare data.
    ///
    /// # Errors
    ///
    /// The server's error reply.
    pub fn command(&self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        self.with(|state| state.turn(|engine| engine.command(words)))
    }

    /// Returns all unexpired keys, in order.
    pub fn keys(&self) -> Vec<Bytes> {
        self.with(|state| state.turn(|engine| engine.keys()))
    }

    /// Returns the number of subscriptions, over all links and channels.
    pub fn subscriptions(&self) -> usize {
        self.with(|state| state.engine.channels().total())
    }

    /// Returns the number of links that are subscribed to a channel.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        let channel = Bytes::copy_from_slice(channel);
        self.with(|state| state.engine.channels().count(&channel))
    }

    /// Returns channel and text of each `PUBLISH` message delivered since the last call, for tests. The first call
    /// returns no messages. Links only receive the channel of a message.
    #[doc(hidden)]
    pub fn take_messages(&self) -> Vec<(Bytes, Bytes)> {
        self.with(|state| state.engine.channels().take_log())
    }

    /// Returns the number of runs of a script, such as `lock/acquire`.
    pub fn calls(&self, script: &str) -> u64 {
        self.with(|state| state.engine.calls(script))
    }

    /// Returns the server's wall time, in milliseconds since the epoch.
    pub fn wall_millis(&self) -> i64 {
        self.with(|state| state.engine.wall_micros().div_euclid(1_000))
    }

    /// Steps the server's wall clock, as NTP does. Leases end by this clock.
    pub fn step_clock(&self, millis: i64) {
        self.with(|state| state.engine.stepped_micros += millis * 1_000);
    }

    /// Restarts the server without data, and resets all connections.
    pub fn restart_empty(&self) {
        self.with(State::restart_empty);
    }

    /// Simulates full memory, as under `maxmemory`: refuses commands that may need memory. Deletes succeed, and a
    /// script may finish after its first write.
    #[doc(hidden)]
    pub fn deny_growth(&self, deny: bool) {
        self.with(|state| state.engine.keyspace().deny_growth = deny);
    }

    /// Sets the number of replicas that acknowledge writes; initially 0. The replicas store no data. A call that
    /// requires more replicas receives its reply at once, without the replica timeout.
    pub fn set_replicas(&self, acknowledging: u32) {
        self.with(|state| state.engine.replicas = acknowledging);
    }

    /// Sets the `maxmemory-policy` that new links report; initially `noeviction`.
    pub fn set_eviction_policy(&self, policy: &str) {
        self.with(|state| state.eviction_policy = policy.into());
    }

    /// Sets whether new links use sharded channels, which `SPUBLISH` reaches and `PUBLISH` does not.
    pub fn set_sharded_notices(&self, sharded: bool) {
        self.with(|state| state.mode = if sharded { PubSubMode::Sharded } else { PubSubMode::Plain });
    }

    /// Disconnects or reconnects all links, including future links. See
    /// [`EmbeddedLink::set_down`](crate::EmbeddedLink::set_down).
    pub fn set_down(&self, down: bool) {
        self.with(|state| {
            state.down = down;
            let links: Vec<_> = state.links.keys().copied().collect();
            links.into_iter().for_each(|link| if down { state.set_down(link) } else { state.set_up(link) });
        });
    }

    /// Sets the round-trip time; initially zero, with immediate replies. A call takes half of `round_trip` to the
    /// server, where its script runs, and the reply takes the other half. A notice takes half, and confirming a
    /// subscription takes all of it. A change applies to later messages of all links. The server's clock measures the
    /// round-trip time. With a manual clock, messages arrive when a test advances the clock. With tokio's paused clock,
    /// round trips take no real time. Calls of a connection arrive in sending order, even if their futures were
    /// dropped. A lost connection loses its messages in transit, but a closed connection delivers them.
    ///
    /// Direct operations, such as [`EmbeddedServer::command`], take no time.
    ///
    /// # Panics
    ///
    /// The server's clock is a [`ServerClock::from_fn`] without a [timer](ServerClock::with_timer), or the machine's
    /// clock without a thread.
    pub fn set_round_trip(&self, round_trip: Duration) {
        let can_wake = round_trip.is_zero() || self.with(|state| state.engine.clock.clone()).has_timers();
        assert!(can_wake, "a round-trip time needs a clock with timers");
        self.with(|state| state.transit.set_round_trip(round_trip));
    }

    /// Makes every operation of the existing links yield before and after it takes effect. See
    /// [`EmbeddedLink::stepped`](crate::EmbeddedLink::stepped).
    #[doc(hidden)]
    pub fn stepped(&self, stepped: bool) {
        self.with(|state| state.links.values_mut().for_each(|connections| connections.stepped = stepped));
    }

    /// Plans a fault for a call of any link. A link's own faults come first.
    pub fn inject(&self, fault: Fault, target: FaultTarget) {
        self.with(|state| state.faults.add(fault, target));
    }

    /// Cancels all planned faults, including those of links.
    pub fn clear_faults(&self) {
        self.with(|state| {
            state.faults.clear();
            state.links.values_mut().for_each(|connections| connections.faults.clear());
        });
    }

    /// Returns the number of open links.
    pub fn links(&self) -> usize {
        self.with(|state| state.links.values().filter(|connections| connections.state != LinkState::Closed).count())
    }

    /// Reads the state. Delivers no message and wakes no task, so the caller may hold a lock.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(&self.state.lock())
    }

    /// Runs `f` under the lock, then releases the lock and wakes the affected tasks.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakers) = self.locked(f);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Delivers due messages and runs `f` under the lock. Returns the wakers, to wake without the lock.
    pub(crate) fn locked<R>(&self, f: impl FnOnce(&mut State) -> R) -> (R, Vec<Waker>) {
        let mut state = self.state.lock();
        state.deliver_due();
        let result = f(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        if let Some((due, clock)) = state.take_alarm() {
            drop(state);
            clock.wake_at(due, Courier::waker(&self.state));
        }
        (result, wakers)
    }
}

impl Default for EmbeddedServer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for EmbeddedServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedServer").finish_non_exhaustive()
    }
}
