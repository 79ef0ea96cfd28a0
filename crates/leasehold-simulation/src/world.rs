//! The world: one clock, one server, its clients, and what is about to happen.

mod arrivals;
mod beliefs;
pub(crate) mod client;
mod client_session;
pub(crate) mod clock;
mod dispatch;
pub(crate) mod draws;
pub(crate) mod event;
pub(crate) mod event_queue;
pub(crate) mod message;
pub(crate) mod network;
pub(crate) mod parts;
pub(crate) mod replica;
mod requests;
pub(crate) mod server;
mod settlement;
pub(crate) mod subscriptions;

use crate::faults::{Doubts, Faults};
use crate::invariants::Invariants;
use crate::jvms::Jvms;
use crate::report::stats::Stats;
use crate::workload::plan::Plan;
use crate::workload::registers::Registers;
use crate::world::client::{Client, Guard};
use crate::world::draws::Draws;
use crate::world::event::WorldEvent;
use crate::world::event_queue::EventQueue;
use crate::world::network::Network;
use crate::world::parts::Parts;
use crate::world::server::Server;
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::session::Session;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use leasehold_embedded::EmbeddedServer;
use std::time::Duration;
use uuid::Uuid;

/// Adds a line to the history of the world, where one is kept.
macro_rules! trace {
    ($world:expr, $($arg:tt)*) => {
        if $world.tracing { eprintln!("{:>12.3} ms  {}", $world.now.as_nanos() as f64 / 1e6, format_args!($($arg)*)); }
    };
}
pub(crate) use trace;

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// See the [module](self).
pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) rng: Draws,
    pub(crate) server: Server,
    pub(crate) net: Network,
    pub(crate) clients: Vec<Client>,
    pub(crate) jvms: Jvms,
    pub(crate) guards: Vec<Guard>,
    /// Tasks that are done since the last look.
    pub(crate) finished: Vec<(usize, usize)>,
    pub(crate) events: EventQueue<WorldEvent>,
    pub(crate) plan: Plan,
    /// The store that holders of locks work on.
    pub(crate) registers: Registers,
    pub(crate) faults: Faults,
    pub(crate) doubts: Doubts,
    pub(crate) invariants: Invariants,
    pub(crate) stats: Stats,
    pub(crate) parts: Parts,
    pub(crate) tracing: bool,
}

/// Servers that are not used any more. A new one is made of each of them in less time than from nothing.
#[derive(Default)]
pub(crate) struct Engines {
    server: Option<EmbeddedServer>,
    reference: Option<EmbeddedServer>,
}

impl World {
    #[cfg(test)]
    pub(crate) fn new(seed: u64) -> Self {
        Self::with_engines(seed, &mut Engines::default())
    }

    /// A world whose servers are new, and go on with the Lua states of those that an earlier world had.
    pub(crate) fn with_engines(seed: u64, engines: &mut Engines) -> Self {
        Self {
            now: Instant::from_nanos(0),
            rng: Draws::with_seed(seed),
            server: Server::new(engines.server.take()),
            net: Network::default(),
            clients: Vec::new(),
            jvms: Jvms::default(),
            guards: Vec::new(),
            finished: Vec::new(),
            events: EventQueue::default(),
            plan: Plan::default(),
            registers: Registers::with_engine(engines.reference.take()),
            faults: Faults::new(!seed),
            doubts: Doubts::default(),
            invariants: Invariants::default(),
            stats: Stats::default(),
            parts: Parts::default(),
            tracing: std::env::var_os("LEASEHOLD_TELL").is_some(),
        }
    }

    /// The world has ended: what its servers have of use to another.
    pub(crate) fn give_engines(self, engines: &mut Engines) {
        engines.server = Some(self.server.into_engine());
        engines.reference = self.registers.reference.into_engine();
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

    pub(crate) fn at(&mut self, at: Instant, what: impl Into<WorldEvent>) {
        let what = what.into();
        self.parts.plan_fault(self.events.next_number + 1, &what);
        self.events.add(at.max(self.now), what);
    }

    pub(crate) fn after(&mut self, pause: Duration, what: impl Into<WorldEvent>) {
        self.at(self.now + pause, what);
    }

    /// When a client that runs is the first to see that enough time has passed for it.
    fn first_timeout(&self) -> Option<Instant> {
        let running = self.clients.iter().filter(|client| client.runs());
        running.filter_map(|client| Some(client.clock.when(client.session.poll_timeout()?))).min()
    }

    /// Lets the next thing happen, unless it lies after `until`.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        let timeout = self.first_timeout();
        let next = [self.events.next_at(), timeout].into_iter().flatten().min().map(|at| at.max(self.now));
        let Some(at) = next.filter(|at| *at <= until) else { return false };
        self.events.count_step(at == self.now);
        self.set_time(at);
        self.stats.steps += 1;
        // Before its timeout no client has anything to do with time.
        if timeout.is_some_and(|timeout| timeout <= at) {
            for client in 0..self.clients.len() {
                if self.clients[client].runs() {
                    self.let_time_pass(client);
                }
            }
        }
        if let Some((number, event)) = self.events.take_due(at) {
            self.apply_unless_paused(number, event);
        }
        self.check();
        true
    }

    fn set_time(&mut self, now: Instant) {
        self.now = now;
        self.server.set_time(now);
    }

    pub(crate) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.set_time(until);
    }

    pub(crate) fn run(&mut self, pause: Duration) {
        self.run_until(self.now + pause);
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
