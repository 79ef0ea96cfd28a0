//! The faults of a client as a whole: it crashes, it is paused, its clock goes wrong.

use crate::faults::event::FaultEvent;
use crate::report::stats::{Coverage, FaultKind};
use crate::workload::event::UserEvent;
use crate::world::client::Outcome;
use crate::world::clock::Clock;
use crate::world::{World, ms, trace};
use std::time::Duration;

/// By how many millionths the rate of a client's clock may be wrong for the promises to hold: the margin is 1 %.
pub(crate) const MARGIN_PPM: i64 = 9_000;

impl World {
    /// A client that lives. There always is one: who crashes is followed by another.
    pub(crate) fn somebody(&mut self) -> usize {
        let living: Vec<_> = (0..self.clients.len()).filter(|client| !self.clients[*client].dead).collect();
        living[self.rng.usize(..living.len())]
    }

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
        state.paused_until = None;
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

    /// A new process begins, in the place of one that crashed.
    pub(crate) fn join(&mut self) {
        let client = self.add_client(self.plan.settings.clone());
        trace!(self, "client {client} begins");
        let owners = (0..2).map(|_| self.clients[client].session.new_owner()).collect();
        self.plan.owners.push(owners);
        self.clients[client].clock = Clock::default();
        let joined = self.plan.owners.len() - self.plan.clients - 1;
        for place in 0..self.rng.usize(1..4) {
            let pause = self.between(ms(0), ms(600));
            let number = self.parts.plan_operation_of_joined(joined, place);
            self.after(pause, UserEvent::Start { client, number });
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
            self.disown(client);
        }
        self.at(until, FaultEvent::Resume { client });
    }

    pub(crate) fn resume(&mut self, client: usize) {
        if self.clients[client].dead || self.clients[client].paused_until.is_none() {
            return;
        }
        trace!(self, "client {client} goes on");
        self.clients[client].paused_until = None;
        if let Some(since) = self.clients[client].stands_since.take() {
            self.clients[client].clock.stood_still(since, self.now);
            self.disown(client);
        }
        if self.leap(client) {
            self.stats.reach(Coverage::WokeLost);
        }
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

    /// A client finds that time has passed without it. Whether it has lost something by that.
    fn leap(&mut self, client: usize) -> bool {
        let now = self.local(client);
        self.clients[client].leapt = Some(now);
        let lost = self
            .guards
            .iter()
            .any(|guard| guard.client == client && guard.alive && !guard.over && guard.cell.would_end(now).is_some());
        self.let_time_pass(client);
        lost
    }
}
