//! The faults of a world that come at a time of their own: of connections, of processes, and of the server.

pub(crate) mod plan;
mod server;

use crate::world::client::Outcome;
use crate::world::draws::hash;
use crate::world::events::Act;
use crate::world::history::Promises;
use crate::world::network::Role;
use crate::world::stats::FaultKind;
use crate::world::{World, trace};
use leasehold_core::time::Instant;
use std::time::Duration;

/// A fault that is about to happen.
#[derive(Debug)]
pub(crate) enum FaultEvent {
    ResetNotices {
        client: usize,
    },
    Freeze {
        client: usize,
        role: Role,
        pause: Duration,
    },
    Unreachable {
        client: usize,
        yes: bool,
    },
    RestartEmpty,
    DenyGrowth {
        deny: bool,
    },
    /// The process of a client ends, whatever it is doing.
    Crash {
        client: usize,
    },
    /// A client does nothing at all for a while.
    Pause {
        client: usize,
        pause: Duration,
        /// Its clock goes on meanwhile.
        counts: bool,
    },
    Resume {
        client: usize,
    },
    /// From now on the clock of a client is too fast by so many millionths; and it jumps.
    Clock {
        client: usize,
        ppm: i64,
        jump: Duration,
    },
    /// The server's clock is stepped.
    StepServer {
        millis: i64,
    },
    /// The server restarts and has its data.
    Restart,
    /// A replica will have heard of the server's present content.
    Snapshot,
    /// That replica takes over.
    Failover,
    /// The replica takes over on whose acknowledgements the clients rely.
    TakeOver,
    /// A key that has a time to live goes away, or any key.
    Evict {
        all: bool,
    },
    /// An operator ends the hold of another.
    ForceRelease,
    FlushScripts,
}

impl FaultEvent {
    /// Whether it ends a fault that was planned before.
    const fn is_end(&self) -> bool {
        matches!(self, Self::Unreachable { yes: false, .. } | Self::DenyGrowth { deny: false } | Self::Failover)
    }
}

impl Act for FaultEvent {
    fn within(&self, _world: &World) -> Option<usize> {
        None
    }

    fn draws_for(&self, _world: &World, number: u64) -> u64 {
        hash(("fault", number))
    }

    fn happen(self: Box<Self>, world: &mut World) {
        match *self {
            Self::ResetNotices { client } => world.lose_notice_connection(client),
            Self::Freeze { client, role, pause } => {
                world.stats.fault(FaultKind::Freeze);
                world.freeze(client, role, pause);
            }
            Self::Unreachable { client, yes } => world.set_unreachable(client, yes),
            Self::RestartEmpty => world.restart_empty(),
            Self::DenyGrowth { deny } => world.deny_growth(deny),
            Self::Crash { client } => world.crash(client),
            Self::Pause { client, pause, counts } => world.pause(client, pause, counts),
            Self::Resume { client } => world.resume(client),
            Self::Clock { client, ppm, jump } => world.change_clock(client, ppm, jump),
            Self::StepServer { millis } => world.step_server(millis),
            Self::Restart => world.restart(),
            Self::Snapshot => world.take_snapshot(),
            Self::Failover => world.fail_over(),
            Self::TakeOver => world.take_over(),
            Self::Evict { all } => world.evict(all),
            Self::ForceRelease => world.force_release(),
            Self::FlushScripts => world.flush_scripts(),
        }
    }
}

/// By how many millionths the rate of a client's clock may be wrong for the promises to hold: the margin is 1 %.
pub(crate) const MARGIN_PPM: i64 = 9_000;

impl World {
    /// The process of a client ends. Its messages arrive, and its holds on the server end with their lease.
    pub(crate) fn crash(&mut self, client: usize) {
        if self.clients[client].dead || self.clients.iter().filter(|client| !client.dead).count() < 2 {
            return;
        }
        trace!(self, "client {client} crashes");
        self.stats.fault(FaultKind::Crash);
        self.note_fault_of(client, self.now);
        self.doubts.leftovers = true;
        let state = &mut self.clients[client];
        state.dead = true;
        if let Some(until) = state.paused_until.take() {
            self.forget_pause(client, until);
        }
        let state = &mut self.clients[client];
        for task in &mut state.tasks {
            task.outcome.get_or_insert(Outcome::Dropped);
            task.call = None;
        }
        for guard in self.guards.iter_mut().filter(|guard| guard.client == client) {
            guard.alive = false;
            guard.over = true;
        }
        self.net.waiting.retain(|_, waiting| waiting.client != client);
        self.net.settling.retain(|(other, _)| *other != client);
        self.reset_notices(client);
    }

    /// The events that waited for the end of a dead client's pause happen now, because the world may end before the pause.
    fn forget_pause(&mut self, client: usize, until: Instant) {
        let queue = &self.events.queue;
        let waiting = queue.iter().filter(|((at, _), what)| *at == until && what.within(self) == Some(client));
        for key in waiting.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(event) = self.events.queue.remove(&key) {
                self.events.put_off(self.now, key.1, event);
            }
        }
    }

    /// A client does nothing for a while, as in a stop of the world, under `SIGSTOP`, or while its machine sleeps. Its clock goes on, or
    /// stands still if it is of the sort that does not count suspends.
    pub(crate) fn pause(&mut self, client: usize, pause: Duration, counts: bool) {
        if !self.clients[client].runs() || self.plan.over {
            return;
        }
        trace!(self, "client {client} is paused for {pause:?}, and its clock goes on: {counts}");
        self.stats.fault(FaultKind::Pause);
        let until = self.now + pause;
        self.note_fault_of(client, until);
        self.clients[client].paused_until = Some(until);
        if !counts {
            self.clients[client].stands_since = Some(self.now);
            self.void(Promises::OfClient(client));
        }
        self.at(until, FaultEvent::Resume { client });
    }

    pub(crate) fn change_clock(&mut self, client: usize, ppm: i64, jump: Duration) {
        if !self.clients[client].runs() {
            return;
        }
        trace!(self, "client {client}: its clock jumps by {jump:?}, and is {ppm} millionths too fast from now on");
        let now = self.now;
        let state = &mut self.clients[client];
        if !jump.is_zero() {
            state.clock.jump(now, jump);
            state.clock_jumped = Some(now);
            self.stats.fault(FaultKind::ClockJump);
            self.note_fault_of(client, now);
        } else if ppm.abs() <= MARGIN_PPM {
            state.clock.set_rate(now, ppm);
            self.stats.fault(FaultKind::ClockRate);
        } else {
            state.clock.set_rate(now, ppm);
            state.clock_left_margin = true;
            // A clock that is too fast gives up early.
            state.clock_is_wrong |= ppm < 0;
            self.stats.fault(FaultKind::ClockOutside);
        }
        if !jump.is_zero() {
            self.leap(client);
        }
    }
}
