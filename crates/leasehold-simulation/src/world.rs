//! The world: one clock, one server, its clients, and what is about to happen.

pub(crate) mod arrivals;
mod beliefs;
pub(crate) mod client;
mod connections;
pub(crate) mod draws;
pub(crate) mod events;
pub(crate) mod history;
pub(crate) mod jvms;
pub(crate) mod network;
pub(crate) mod parts;
mod requests;
pub(crate) mod server;
pub(crate) mod stats;
pub(crate) mod store;

use crate::terms::Plan;
use crate::world::client::{Client, Guard};
use crate::world::draws::Draws;
use crate::world::events::{EventQueue, WorldEvent};
use crate::world::history::{Doubts, Fact, LastFaults, Observer};
use crate::world::jvms::Jvms;
use crate::world::network::Network;
use crate::world::parts::Parts;
use crate::world::server::Server;
use crate::world::stats::Stats;
use crate::world::store::Registers;
use leasehold_core::owner::ClientId;
use leasehold_core::session::Session;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use leasehold_embedded::EmbeddedServer;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use uuid::Uuid;

pub(crate) use crate::terms::{ms, name, settings};

/// Adds a line to the history of the world, where one is kept.
macro_rules! trace {
    ($world:expr, $($arg:tt)*) => {
        if $world.tracing { eprintln!("{:>12.3} ms  {}", $world.now.as_nanos() as f64 / 1e6, format_args!($($arg)*)); }
    };
}
pub(crate) use trace;

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
    pub(crate) doubts: Doubts,
    last_faults: LastFaults,
    pub(crate) observer: Rc<RefCell<dyn Observer>>,
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
    /// A world whose servers are new, and go on with the Lua states of those that an earlier world had.
    pub(crate) fn new(seed: u64, engines: &mut Engines, observer: Rc<RefCell<dyn Observer>>) -> Self {
        Self {
            now: Instant::from_nanos(0),
            rng: Draws::with_seed(seed),
            server: Server::new(engines.server.take()),
            net: Network::new(!seed),
            clients: Vec::new(),
            jvms: Jvms::default(),
            guards: Vec::new(),
            finished: Vec::new(),
            events: EventQueue::default(),
            plan: Plan::default(),
            registers: Registers::with_engine(engines.reference.take()),
            doubts: Doubts::default(),
            last_faults: LastFaults::default(),
            observer,
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
        self.events.add(at.max(self.now), what.into());
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
        self.tell(Fact::Stepped);
        #[cfg(test)]
        if let Some(rule) = self.parts.rule {
            rule(self);
        }
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
