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

/// An in-process server that runs the scripts of leasehold. Cheap to clone; the clones are one server.
///
/// It coordinates one process only: nothing outside can see its keys, and they go with its last handle.
#[derive(Clone)]
pub struct EmbeddedServer {
    state: Arc<Mutex<State>>,
}

impl EmbeddedServer {
    /// The number that tells this server from every other one of this process.
    pub(crate) fn instance(&self) -> String {
        format!("{:p}", Arc::as_ptr(&self.state))
    }

    /// A server without keys, on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(ServerClock::system())
    }

    /// Creates an empty server on tokio's clock, for tests under `#[tokio::test(start_paused = true)]`, in which an
    /// hour passes at once. Clients of the server use this clock too, and must be built on a tokio runtime.
    ///
    /// # Panics
    ///
    /// There is no memory for a Lua state.
    pub fn paused() -> Self {
        Self::with_clock(ServerClock::tokio(tokio::time::Instant::now()))
    }

    /// The clock of the server.
    pub fn clock(&self) -> ServerClock {
        self.with(|state| state.engine.clock.clone())
    }

    /// A server without keys, on this clock.
    ///
    /// # Panics
    ///
    /// There is no memory for a Lua state.
    pub fn with_clock(clock: impl Into<ServerClock>) -> Self {
        let state = State::new(clock.into()).expect("a Lua state can be made unless memory has run out");
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// A server without keys, on this clock, as [`EmbeddedServer::with_clock`] makes it. It is made quicker if `old` is the last handle of
    /// its server: this one then goes on with the Lua state of that, and with the scripts compiled there.
    pub fn in_place_of(old: Self, clock: impl Into<ServerClock>) -> Self {
        match Arc::try_unwrap(old.state) {
            Ok(state) => Self { state: Arc::new(Mutex::new(state.into_inner().renewed(clock.into()))) },
            Err(_) => Self::with_clock(clock),
        }
    }

    /// Runs a script at once, past all faults.
    ///
    /// # Errors
    ///
    /// The server's error reply. The writes of the script before it stay.
    #[doc(hidden)]
    pub fn execute(&self, call: &Call) -> Result<Reply, ServerError> {
        self.with(|state| state.apply(call, None))
    }

    /// Runs a script at once, past all faults but one: it is refused something in its middle. Also says whether it came so far.
    #[doc(hidden)]
    pub fn execute_refused(
        &self,
        call: &Call,
        inside: RefuseAt,
        error: ServerError,
    ) -> (Result<Reply, ServerError>, RefusalEffect) {
        self.with(|state| state.apply_refused(call, None, inside, error))
    }

    /// From now on scripts may use none of these commands, as those of a user who lacks the right to them; an empty list allows all again.
    #[doc(hidden)]
    pub fn forbid(&self, commands: &[&'static str]) {
        self.with(|state| state.engine.keyspace().refusals.forbid(commands));
    }

    /// Runs Lua that is no script of leasehold, compiling it anew at each call: for tests of the engine itself.
    ///
    /// # Errors
    ///
    /// The server's error reply. The writes of the script before it stay.
    #[doc(hidden)]
    pub fn eval(&self, source: &str, keys: &[Bytes], args: &[Bytes]) -> Result<Reply, ServerError> {
        self.with(|state| state.turn(|engine| engine.eval(source, keys, args)))
    }

    /// Runs one command, such as `["GET", "name"]`: for inspection, and to set a scene.
    ///
    /// # Errors
    ///
    /// The server's error reply.
    pub fn command(&self, words: &[&[u8]]) -> Result<Reply, ServerError> {
        self.with(|state| state.turn(|engine| engine.command(words)))
    }

    /// Every key that has not expired, in order.
    pub fn keys(&self) -> Vec<Bytes> {
        self.with(|state| state.turn(|engine| engine.keys()))
    }

    /// How many subscriptions there are, over all links and channels.
    pub fn subscriptions(&self) -> usize {
        self.with(|state| state.engine.channels().total())
    }

    /// How many links are subscribed to a channel.
    pub fn subscribers(&self, channel: &[u8]) -> usize {
        let channel = Bytes::copy_from_slice(channel);
        self.with(|state| state.engine.channels().count(&channel))
    }

    /// Channel and text of every message of `PUBLISH` that reached a link since the last call of this; the first call gives none. It
    /// is for tests: a link itself learns where a message came, and not what it said.
    #[doc(hidden)]
    pub fn take_messages(&self) -> Vec<(Bytes, Bytes)> {
        self.with(|state| state.engine.channels().take_log())
    }

    /// How often a script, such as `lock/acquire`, has been run.
    pub fn calls(&self, script: &str) -> u64 {
        self.with(|state| state.engine.calls(script))
    }

    /// The server's wall time, in milliseconds since the epoch.
    pub fn wall_millis(&self) -> i64 {
        self.with(|state| state.engine.wall_micros().div_euclid(1_000))
    }

    /// Moves the server's wall clock, as a correction by NTP would. Leases end by this clock.
    pub fn step_clock(&self, millis: i64) {
        self.with(|state| state.engine.stepped_micros += millis * 1_000);
    }

    /// The server dies and comes back with no data. Every link sees its connections reset.
    pub fn restart_empty(&self) {
        self.with(State::restart_empty);
    }

    /// Whether memory is full: commands that could need more are refused, as under `maxmemory`. Deleting is allowed, and a script
    /// that has begun to write may finish.
    #[doc(hidden)]
    pub fn deny_growth(&self, deny: bool) {
        self.with(|state| state.engine.keyspace().deny_growth = deny);
    }

    /// How many replicas acknowledge what is written. At first there are none. There is no copy of anything behind it: a call that
    /// wants more replicas than these is told so at once, and not after the time that it gives them.
    pub fn set_replicas(&self, acknowledging: u32) {
        self.with(|state| state.engine.replicas = acknowledging);
    }

    /// The `maxmemory-policy` that links made from now on report. At first it is `noeviction`.
    pub fn set_eviction_policy(&self, policy: &str) {
        self.with(|state| state.eviction_policy = policy.into());
    }

    /// Whether links made from now on listen to sharded channels, which `SPUBLISH` reaches and `PUBLISH` does not.
    pub fn set_sharded_notices(&self, sharded: bool) {
        self.with(|state| state.mode = if sharded { PubSubMode::Sharded } else { PubSubMode::Plain });
    }

    /// Cuts off all links, those made later included, or lets them connect again. See [`EmbeddedLink::set_down`](crate::EmbeddedLink::set_down).
    pub fn set_down(&self, down: bool) {
        self.with(|state| {
            state.down = down;
            let links: Vec<_> = state.links.keys().copied().collect();
            links.into_iter().for_each(|link| if down { state.set_down(link) } else { state.set_up(link) });
        });
    }

    /// Makes replies take time, as on a network: a call takes half of `round_trip` to arrive, where its script runs, and its reply takes the
    /// other half to come back. Notices take half of it; subscriptions are confirmed after all of it. At first it is zero, and everything is
    /// answered at once. A change is for what is sent from then on, by whichever link.
    ///
    /// The time is that of the server's clock: under a clock that is moved by hand nothing arrives until the clock is moved, and under
    /// tokio's paused one the round trips of an hour take no time. Calls by one connection arrive in the order in which they were sent,
    /// although the future that sent them is dropped. A connection that is lost takes with it what is on its way, there and back; one that
    /// is closed does not.
    ///
    /// A question to the server itself, such as [`EmbeddedServer::command`], takes no time.
    ///
    /// # Panics
    ///
    /// The server's clock was made by [`ServerClock::from_fn`] and has no [timer](ServerClock::with_timer), or it is the machine's and the
    /// operating system has no thread to give.
    pub fn set_round_trip(&self, round_trip: Duration) {
        let can_wake = round_trip.is_zero() || self.with(|state| state.engine.clock.clone()).has_timers();
        assert!(can_wake, "replies take time only on a clock with timers");
        self.with(|state| state.transit.set_round_trip(round_trip));
    }

    /// Makes every operation of the links that exist wait before and after it takes effect. See [`EmbeddedLink::stepped`](crate::EmbeddedLink::stepped).
    #[doc(hidden)]
    pub fn stepped(&self, stepped: bool) {
        self.with(|state| state.links.values_mut().for_each(|connections| connections.stepped = stepped));
    }

    /// Lets a fault wait for a call of any link. A fault of the link's own goes first.
    pub fn inject(&self, fault: Fault, target: FaultTarget) {
        self.with(|state| state.faults.add(fault, target));
    }

    /// Takes back all faults that still wait for a call, those of links included.
    pub fn clear_faults(&self) {
        self.with(|state| {
            state.faults.clear();
            state.links.values_mut().for_each(|connections| connections.faults.clear());
        });
    }

    /// How many links are open.
    pub fn links(&self) -> usize {
        self.with(|state| state.links.values().filter(|connections| connections.state != LinkState::Closed).count())
    }

    /// Reads the state. Delivers nothing and wakes no task, so the caller may hold a lock.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&State) -> R) -> R {
        f(&self.state.lock())
    }

    /// Runs `f` under the lock, and wakes whom it woke when the lock is open again.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        let (result, wakers) = self.locked(f);
        wakers.into_iter().for_each(Waker::wake);
        result
    }

    /// Runs `f` under the lock, when what is due has been delivered; gives whom that woke, to be woken without it.
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
