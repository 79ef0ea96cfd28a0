//! The users of a random world: what they ask for, how they poll, and how they give back.

use crate::report::mask::Part;
use crate::report::stats::FaultKind;
use crate::workload::event::UserEvent;
use crate::workload::family::LockFamily;
use crate::workload::plan::LEASE;
use crate::world::client::PollPolicy;
use crate::world::parts::ENTRY;
use crate::world::{World, ms, name};
use leasehold_core::session::{AcquireRequest, Patience};
use std::time::Duration;

impl World {
    fn some_polls(&mut self) -> PollPolicy {
        let roll = self.rng.f64();
        if roll < self.plan.never {
            self.stats.fault(FaultKind::Unpolled);
            PollPolicy::Never
        } else if roll < self.plan.never + self.plan.late {
            self.stats.fault(FaultKind::LatePoll);
            let most = ms([5, 60, 300][self.rng.usize(..3)]);
            PollPolicy::Late(self.between(ms(0), most))
        } else {
            PollPolicy::AtOnce
        }
    }

    fn perhaps_dropped(&mut self, client: usize, task: usize) {
        if self.rng.f64() < self.plan.dropped {
            self.stats.fault(FaultKind::Dropped);
            if self.rng.u8(..4) == 0 {
                self.clients[client].tasks[task].drop_at_reply = true;
                return;
            }
            let most = [ms(1), ms(30), ms(1_000)][self.rng.usize(..3)];
            let pause = self.between(Duration::ZERO, most);
            self.after(pause, UserEvent::Abandon { client, task });
        }
    }

    /// A user wants a lock.
    pub(crate) fn start_one(&mut self, client: usize, number: u32) {
        if self.plan.over {
            return;
        }
        self.parts.acting = number;
        if self.plan.family == LockFamily::Latch && self.rng.bool() {
            return self.start_count(client);
        }
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        let renewed = self.rng.u8(..3) > 0;
        let lease = if renewed { LEASE } else { self.between(ms(100), LEASE) };
        let patience = match self.rng.u8(..10) {
            0 | 1 => Patience::Try,
            2..=4 => Patience::Until(self.local(client) + self.between(ms(0), ms(1_500))),
            _ => Patience::Forever,
        };
        let owner = (self.rng.u8(..3) == 0).then(|| self.plan.owners[client][self.rng.usize(..2)]);
        let max_hold = (self.rng.u8(..10) == 0).then(|| self.between(ms(50), ms(1_500)));
        // No random draw of its own, so the rest of the world does not change.
        let waits_out_outage = patience != Patience::Try && number.is_multiple_of(2);
        let wish = AcquireRequest { waits_out_outage, ..self.some_wish(lock, lease) };
        let wish = self.without_lease(AcquireRequest { owner, lease, renewed, max_hold, patience, ..wish });
        let wish = self.perhaps_without_the_server(wish);
        let wish = self.with_some_lease(client, wish);
        let wish = self.durably(wish);
        let wish = self.lingering(wish);
        self.start(client, wish);
    }

    /// A grant of a bare semaphore has no lease, and is not re-entered.
    fn without_lease(&self, wish: AcquireRequest) -> AcquireRequest {
        match self.plan.family {
            LockFamily::Semaphore => {}
            LockFamily::Latch => return AcquireRequest { owner: None, renewed: false, max_hold: None, ..wish },
            _ => return wish,
        }
        AcquireRequest { lease: Duration::from_secs(10 * 365 * 86_400), renewed: false, max_hold: None, ..wish }
    }

    fn start(&mut self, client: usize, wish: AcquireRequest) {
        if self.parts.leave_out_operation(client, wish.name.key()) {
            return;
        }
        // A user that polls later than its lease lasts never gets in.
        let least = wish.max_hold.unwrap_or(wish.lease).min(wish.lease);
        let polls = match self.some_polls() {
            PollPolicy::Late(pause) => PollPolicy::Late(pause.min(least / 3)),
            polls => polls,
        };
        let task = self.acquire_polled(client, wish, polls);
        self.perhaps_dropped(client, task);
    }

    /// A user has held a guard for long enough.
    pub(crate) fn give_up(&mut self, guard: usize, how: u8) {
        let state = &self.guards[guard];
        if !state.alive {
            return;
        }
        let (client, number) = (state.client, state.number);
        let gives_back = !matches!(how, 8 | 9 | 11);
        if !self.plan.over && gives_back && self.parts.leave_out(Part::GiveBack(number)) {
            return;
        }
        match how {
            9 if !self.plan.over => {
                // It is kept until the end.
            }
            // Permits of a bare semaphore that are detached are given up for good.
            10 if !self.plan.over && self.plan.family != LockFamily::Semaphore => self.detach(guard),
            6 | 7 => self.drop_guard(guard),
            8 | 11 if !self.plan.over => {
                // The same owner comes again, for a shorter or longer time.
                let lock = state.name.clone();
                self.parts.acting = number + ENTRY;
                let owner = Some(self.plan.owners[client][self.rng.usize(..2)]);
                let lease = self.between(ms(100), LEASE);
                let renewed = self.rng.bool();
                let patience = Patience::Forever;
                let wish = self.some_wish(lock, lease);
                let wish = self.without_lease(AcquireRequest { owner, renewed, patience, ..wish });
                let wish = self.perhaps_without_the_server(wish);
                let wish = self.with_some_lease(client, wish);
                let wish = self.durably(wish);
                let wish = self.lingering(wish);
                self.start(client, wish);
                let pause = self.plan.hold.mul_f64(self.rng.f64());
                self.after(pause, UserEvent::GiveUp { guard, how: 0 });
            }
            _ => {
                let polls = if self.plan.over { PollPolicy::AtOnce } else { self.some_polls() };
                let task = self.release_polled(guard, polls);
                if !self.plan.over {
                    self.perhaps_dropped(client, task);
                }
            }
        }
    }
}
