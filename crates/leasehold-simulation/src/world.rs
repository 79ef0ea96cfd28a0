//! The world: one clock, one server, its clients, and what is about to happen.

pub(crate) mod client;
mod client_session;
pub(crate) mod clock;
pub(crate) mod dispatch;
pub(crate) mod event;
pub(crate) mod network;

use crate::faults::last_faults::LastFaults;
use crate::faults::rates::{FaultRates, PlannedFault};
use crate::invariants::fair_order::FairOrder;
use crate::invariants::grants::{Grant, Tenure};
use crate::invariants::latches::Latches;
use crate::report::stats::{Coverage, Stats};
use crate::workload::reference_store::ReferenceStore;
use crate::workload::registers::Registers;
use crate::world::client::{Client, Guard, Outcome, PollPolicy, TaskKind};
use crate::world::event::{CallKey, WorldEvent};
use crate::world::network::Network;
use bytes::Bytes;
use leasehold_core::name::LockName;
use leasehold_core::owner::{ClientId, HoldNumber};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Session};
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedServer, Met, ServerClock, Snapshot};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use uuid::Uuid;

/// Adds a line to the history of the world, where one is kept.
macro_rules! trace {
    ($world:expr, $($arg:tt)*) => {
        if $world.telling { eprintln!("{:>12.3} ms  {}", $world.now.as_nanos() as f64 / 1e6, format_args!($($arg)*)); }
    };
}
pub(crate) use trace;

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// See the [module](self).
pub(crate) struct World {
    pub(crate) now: Instant,
    clock: Arc<AtomicU64>,
    pub(crate) server: EmbeddedServer,
    pub(crate) rng: fastrand::Rng,
    /// By which scripts are refused something in their middle. It is not that of the world, so that everything else in that is what it would
    /// be without.
    pub(crate) insides: fastrand::Rng,
    pub(crate) clients: Vec<Client>,
    pub(crate) guards: Vec<Guard>,
    pub(crate) queue: BTreeMap<(Instant, u64), WorldEvent>,
    pub(crate) next_number: u64,
    pub(crate) net: Network,
    pub(crate) rates: FaultRates,
    /// Faults for calls to come, in order.
    pub(crate) faults: Vec<PlannedFault>,
    /// Tasks that are done since the last look.
    pub(crate) finished: Vec<(usize, usize)>,
    pub(crate) telling: bool,
    /// How often a count change of a hold was carried out on the server: by field, the releases that found it.
    pub(crate) released: FxHashMap<Bytes, Vec<u32>>,
    /// The server's grants to each hold.
    pub(crate) granted: FxHashMap<Bytes, Grant>,
    /// The senders of calls about each hold.
    pub(crate) senders: FxHashMap<Bytes, usize>,
    /// Holds of which a call was sent whose outcome is not known.
    pub(crate) doubtful: FxHashSet<Bytes>,
    /// Whether a grant beside another one is a fault.
    pub(crate) excludes: bool,
    /// The waiters for fair locks.
    pub(crate) queues: FairOrder,
    pub(crate) last_faults: LastFaults,
    pub(crate) plan: crate::workload::plan::Plan,
    pub(crate) stats: Stats,
    /// The server has lost data or time, so that what is promised of holds is not promised of those that it had.
    pub(crate) broken: bool,
    /// Something is left to time on the server: the hold of a client that crashed, or what a fault brought back.
    pub(crate) leftovers: bool,
    /// Fencing tokens were lost with other data.
    pub(crate) lost_tokens: bool,
    /// The server's data or time was put back.
    pub(crate) restored: bool,
    /// The server has lost what tells waiters of ours from those of a JVM.
    pub(crate) forgot_processes: bool,
    /// By how much the server's clock was put back, in all.
    pub(crate) put_back: Duration,
    /// The scripts that the server has in its cache, once it was flushed.
    pub(crate) known_scripts: FxHashSet<&'static str>,
    pub(crate) flushed: bool,
    /// Calls whose script the server did not know, and that come once more with its text.
    pub(crate) unknown_script: FxHashSet<CallKey>,
    /// Holds of which a release was refused because the server did not know its script, and was not sent again.
    pub(crate) refused_releases: FxHashSet<Bytes>,
    /// Holds of which a script was refused something in its middle.
    pub(crate) half_done: FxHashSet<Bytes>,
    /// Whether the last script that was to be refused something came as far.
    pub(crate) met: Met,
    /// When acquires were sent that have not arrived.
    pub(crate) sent: FxHashMap<CallKey, Instant>,
    /// Holds of which an acquire was on its way for longer than the lease that it asks for.
    pub(crate) outlasted: FxHashSet<Bytes>,
    /// Holds of which a caller was told that the server has nothing of them.
    pub(crate) told_of_nothing: FxHashSet<Bytes>,
    /// When keys end that a command was aimed at.
    pub(crate) ends: FxHashMap<Bytes, i64>,
    pub(crate) snapshot: Option<Snapshot>,
    /// The holder of each lock that excludes, on the server, and the one before if that was released.
    pub(crate) holders: FxHashMap<Bytes, Tenure>,
    /// The last fencing token of each lock.
    pub(crate) tokens: FxHashMap<Bytes, i64>,
    pub(crate) latches: Latches,
    pub(crate) store: Registers,
    pub(crate) shop: ReferenceStore,
    steps: u64,
}

/// Servers that are not used any more. A new one is made of each of them in less time than from nothing.
#[derive(Default)]
pub(crate) struct Engines {
    server: Option<EmbeddedServer>,
    shop: Option<EmbeddedServer>,
    /// Those of a world of groups.
    pub(crate) of_group: Vec<EmbeddedServer>,
}

impl World {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_engines(seed, &mut Engines::default())
    }

    /// A world whose servers are new, and go on with the Lua states of those that an earlier world had.
    pub(crate) fn with_engines(seed: u64, engines: &mut Engines) -> Self {
        let clock = Arc::new(AtomicU64::new(0));
        let shown = clock.clone();
        let server_clock = ServerClock::from_fn(move || Instant::from_nanos(shown.load(Ordering::Relaxed)));
        let server = match engines.server.take() {
            Some(old) => EmbeddedServer::in_place_of(old, server_clock),
            None => EmbeddedServer::with_clock(server_clock),
        };
        Self {
            now: Instant::from_nanos(0),
            clock,
            server,
            rng: fastrand::Rng::with_seed(seed),
            insides: fastrand::Rng::with_seed(!seed),
            clients: Vec::new(),
            guards: Vec::new(),
            queue: BTreeMap::new(),
            next_number: 0,
            net: Network::default(),
            rates: FaultRates::default(),
            faults: Vec::new(),
            finished: Vec::new(),
            telling: std::env::var_os("LEASEHOLD_TELL").is_some(),
            released: FxHashMap::default(),
            granted: FxHashMap::default(),
            senders: FxHashMap::default(),
            doubtful: FxHashSet::default(),
            excludes: true,
            queues: FairOrder::default(),
            last_faults: LastFaults::default(),
            plan: crate::workload::plan::Plan::default(),
            stats: Stats::default(),
            broken: false,
            leftovers: false,
            lost_tokens: false,
            restored: false,
            forgot_processes: false,
            put_back: Duration::ZERO,
            known_scripts: FxHashSet::default(),
            flushed: false,
            unknown_script: FxHashSet::default(),
            refused_releases: FxHashSet::default(),
            half_done: FxHashSet::default(),
            met: Met::Nothing,
            sent: FxHashMap::default(),
            outlasted: FxHashSet::default(),
            told_of_nothing: FxHashSet::default(),
            ends: FxHashMap::default(),
            snapshot: None,
            holders: FxHashMap::default(),
            tokens: FxHashMap::default(),
            latches: Latches::default(),
            store: Registers::default(),
            shop: ReferenceStore::with_engine(engines.shop.take()),
            steps: 0,
        }
    }

    /// The world has ended: what its servers have of use to another.
    pub(crate) fn give_engines(self, engines: &mut Engines) {
        engines.server = Some(self.server);
        engines.shop = self.shop.into_engine();
    }

    /// Adds a client, and gives its number.
    pub(crate) fn add_client(&mut self, settings: Settings) -> usize {
        let number = self.clients.len();
        let uuid = Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0000 | number as u128);
        self.stats.clients += 1;
        let session = Session::new(ClientId::new(uuid), settings, self.rng.u64(..));
        self.clients.push(Client::new(session, self.server.link()));
        self.net.add_client();
        number
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn at(&mut self, at: Instant, what: WorldEvent) {
        let number = self.number();
        self.queue.insert((at.max(self.now), number), what);
    }

    pub(crate) fn after(&mut self, pause: Duration, what: WorldEvent) {
        self.at(self.now + pause, what);
    }

    /// When a client that runs is the first to see that enough time has passed for it.
    fn first_timeout(&self) -> Option<Instant> {
        let running = self.clients.iter().filter(|client| client.runs());
        running.filter_map(|client| Some(client.clock.when(client.session.poll_timeout()?))).min()
    }

    /// Lets the next thing happen, unless it lies after `until`.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        let queued = self.queue.first_key_value().map(|((at, _), _)| *at);
        let timeout = self.first_timeout();
        let next = [queued, timeout].into_iter().flatten().min().map(|at| at.max(self.now));
        let Some(at) = next.filter(|at| *at <= until) else { return false };
        self.steps = if at == self.now { self.steps + 1 } else { 0 };
        assert!(self.steps < 100_000, "the world stands still at {at:?}");
        self.now = at;
        self.clock.store(at.as_nanos(), Ordering::Relaxed);
        self.stats.steps += 1;
        // Before its timeout no client has anything to do with time.
        if timeout.is_some_and(|timeout| timeout <= at) {
            for client in 0..self.clients.len() {
                if self.clients[client].runs() {
                    self.let_time_pass(client);
                }
            }
        }
        if self.queue.first_key_value().is_some_and(|((due, _), _)| *due <= at) {
            let Some(((_, number), what)) = self.queue.pop_first() else { return false };
            self.happen_unless_paused(number, what);
        }
        self.check();
        true
    }

    pub(crate) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.now = until;
        self.clock.store(until.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn run(&mut self, pause: Duration) {
        self.run_until(self.now + pause);
    }

    /// The count that the server has of a hold.
    pub(crate) fn count_of(&self, name: &LockName, field: &Bytes) -> u32 {
        match self.server.command(&[b"HGET", name.key(), field]) {
            Ok(Reply::Bulk(text)) => std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(0),
            _ => 0,
        }
    }

    /// Starts an acquire whose future is polled as `polls` says; the first poll is at once.
    pub(crate) fn acquire_polled(&mut self, client: usize, wish: AcquireRequest, polls: PollPolicy) -> usize {
        self.stats.operations += 1;
        let now = self.local(client);
        let ticket = self.clients[client].session.acquire(now, wish.clone());
        trace!(
            self,
            "client {client} acquires {} as {ticket:?} {:?} {polls:?} {:?}", wish.name, wish.patience, wish.owner
        );
        let task = self.clients[client].add_task(now, ticket, TaskKind::Acquire(Box::new(wish)), polls);
        self.poll(client, task);
        task
    }

    /// Starts the release of a guard.
    pub(crate) fn release_polled(&mut self, guard: usize, polls: PollPolicy) -> usize {
        let Guard { client, hold, renewed, ref cell, .. } = self.guards[guard];
        self.stats.operations += 1;
        let now = self.clients[client].clock.shows(self.now);
        let held = cell.ended(now).is_none();
        let deadline = cell.deadline();
        self.guards[guard].alive = false;
        let last = self.guards_of(client, hold) == 0;
        let ticket = self.clients[client].session.release(now, hold, renewed);
        trace!(self, "client {client} releases {hold:?} as {ticket:?} {polls:?}");
        let kind = TaskKind::Release { guard, held, last, deadline };
        let task = self.clients[client].add_task(now, ticket, kind, polls);
        self.poll(client, task);
        task
    }

    pub(crate) fn drop_guard(&mut self, guard: usize) {
        let Guard { client, hold, renewed, .. } = self.guards[guard];
        trace!(self, "client {client} drops a guard of {hold:?}");
        self.guards[guard].alive = false;
        self.stats.operations += 1;
        let now = self.local(client);
        self.clients[client].session.drop_guard(now, hold, renewed);
        self.look_after(client);
    }

    pub(crate) fn detach(&mut self, guard: usize) {
        let Guard { client, hold, renewed, .. } = self.guards[guard];
        trace!(self, "client {client} detaches a guard of {hold:?}");
        self.guards[guard].alive = false;
        self.guards[guard].detached = true;
        self.stats.operations += 1;
        let now = self.local(client);
        self.clients[client].session.detach(now, hold, renewed);
        self.look_after(client);
    }

    /// How many guards of a hold there are.
    pub(crate) fn guards_of(&self, client: usize, hold: HoldNumber) -> usize {
        self.guards.iter().filter(|guard| guard.client == client && guard.hold == hold && guard.alive).count()
    }

    /// How many guards of a hold were detached.
    pub(crate) fn detached_of(&self, client: usize, hold: HoldNumber) -> usize {
        self.guards.iter().filter(|guard| guard.client == client && guard.hold == hold && guard.detached).count()
    }

    /// The future of a task is dropped.
    pub(crate) fn abandon(&mut self, client: usize, task: usize) {
        let state = &mut self.clients[client].tasks[task];
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(Outcome::Dropped);
        state.flight = None;
        let ticket = state.ticket;
        let acquires = matches!(state.kind, TaskKind::Acquire(_));
        trace!(self, "client {client} drops the future of {ticket:?}");
        let now = self.local(client);
        let session = &mut self.clients[client].session;
        if acquires {
            session.abandon_acquire(now, ticket);
        } else {
            session.abandon_release(now, ticket);
        }
        self.finished.push((client, task));
        self.look_after(client);
    }

    /// The checks of the world after every step.
    pub(crate) fn check(&mut self) {
        self.check_capacity();
        // Hardly any step has one.
        let mut ends = Vec::new();
        for (index, guard) in self.guards.iter_mut().enumerate() {
            let client = &self.clients[guard.client];
            if client.dead || client.stands_since.is_some() {
                continue;
            }
            guard.check_deadline(guard.epoch_of_data != self.net.restarts || client.clock_is_wrong);
            let Some(end) = guard.cell.would_end(client.clock.shows(self.now)) else {
                assert!(!guard.passed, "{:?} of client {} is held again after it had ended", guard.hold, guard.client);
                continue;
            };
            // A client that does not run is told when it runs again.
            let is_seen = !guard.over && client.runs();
            let told = guard.ended.is_raised();
            assert!(!is_seen || told, "nobody was told in time that {:?} of client {} ended", guard.hold, guard.client);
            guard.passed = true;
            if is_seen {
                guard.over = true;
                ends.push((index, end));
            }
        }
        for (guard, end) in ends {
            self.note_end(guard, end);
        }
    }

    /// Wants the server to have of every live hold what its guards stand for, where a client has nothing in flight and nothing has gone
    /// wrong for it for so long.
    pub(crate) fn check_counts(&mut self, fault_free_for: Duration) {
        let mut compared = false;
        for guard in self.guards.iter().filter(|guard| guard.alive && self.believes(guard)) {
            let client = &self.clients[guard.client];
            if client.paused_until.is_some()
                || client.clock_is_wrong
                || !self.has_been_fault_free(guard.client, fault_free_for)
            {
                continue;
            }
            let flying = client.tasks.iter().any(|task| task.outcome.is_none() && task.flight.is_some());
            if flying || !self.net.is_idle(guard.client) || guard.epoch_of_data != self.net.restarts {
                continue;
            }
            let field = &guard.field;
            let guards = self.guards_of(guard.client, guard.hold) + self.detached_of(guard.client, guard.hold);
            if let Some(count) = self.count_on_server(guard) {
                assert_eq!(count as usize, guards, "the server's count of {field:?}");
            }
            assert_eq!(guard.cell.count() as usize, guards, "the local count of {field:?}");
            compared |= self.last_fault_of(guard.client) > Instant::default();
        }
        if compared {
            self.stats.reach(Coverage::CountsCompared);
        }
    }

    /// Tells what each side believes at the end of a history.
    pub(crate) fn tell_beliefs(&self) {
        trace!(self, "what each side believes:");
        for guard in self.guards.iter().filter(|guard| guard.alive) {
            trace!(
                self,
                "client {}{}: {:?} of {} {:?} until {:?} by its clock, which shows {:?}: {}; the server counts {:?}",
                guard.client,
                if self.clients[guard.client].runs() { "" } else { " (paused)" },
                guard.hold,
                guard.name,
                guard.kind,
                guard.cell.deadline(),
                self.local(guard.client),
                guard
                    .cell
                    .would_end(self.local(guard.client))
                    .map_or_else(|| "held".to_owned(), |end| format!("{end:?}")),
                self.count_on_server(guard)
            );
        }
        for key in self.server.keys() {
            let say = |words: &[&[u8]]| self.server.command(words).ok();
            let left = say(&[b"PTTL", &key]);
            let value = [
                say(&[b"GET", &key]),
                say(&[b"HGETALL", &key]),
                say(&[b"LRANGE", &key, b"0", b"-1"]),
                say(&[b"ZRANGE", &key, b"0", b"-1"]),
            ];
            trace!(self, "the server has {key:?} for {left:?}: {:?}", value.into_iter().flatten().next());
        }
    }

    /// Wants nothing to be left of any client, here and on the server.
    pub(crate) fn check_nothing_left(&self) {
        for (number, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            let census = client.session.stats();
            assert_eq!(census, leasehold_core::session::ClientStats::default(), "of client {number}");
            assert_eq!(client.session.poll_timeout(), None, "client {number} waits for time to pass");
            assert!(client.session.is_quiet());
            assert!(!client.session.has_clean_up());
        }
        self.check_left("at the end");
    }
}

/// Settings with short times.
pub(crate) fn settings() -> Settings {
    Settings {
        lease: ms(3_000),
        recheck: ms(3_000),
        command_timeout: ms(200),
        unreachable_after: ms(2_000),
        ..Settings::default()
    }
}

pub(crate) fn name(name: &str) -> LockName {
    LockName::new("", name).expect("the name is valid")
}
