//! The users of latches: one closes each of them, and all count them down.

use crate::report::stats::FaultKind;
use crate::workload::event::UserEvent;
use crate::workload::family::LockFamily;
use crate::world::client::TaskKind;
use crate::world::{World, ms, name, trace};
use leasehold_core::call::Call;
use leasehold_core::command::{Kind, latch};
use leasehold_core::reply::Reply;

impl World {
    /// Closes the latches of the world.
    pub(crate) fn close_latches(&mut self) {
        if self.plan.family != LockFamily::Latch {
            return;
        }
        for lock in self.plan.lock_names() {
            let count = 1 + self.rng.u32(..6);
            let operation = self.clients[0].session.new_operation();
            let call = latch::set(&lock, count, &operation, &self.plan.settings.publish);
            self.server.execute(&call).expect("a latch can be set");
            self.invariants.latches.set(lock.to_key(), count.into());
        }
    }

    /// A client counts a latch down; that is a call beside its session.
    pub(crate) fn start_count(&mut self, client: usize) {
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        if self.parts.leave_out_operation(client, lock.key()) {
            return;
        }
        self.stats.operations += 1;
        let operation = self.clients[client].session.new_operation();
        let call = latch::count_down(&lock, 1, &operation, &self.plan.settings.publish);
        trace!(self, "client {client} counts {lock} down");
        if self.chance(self.faults.rates.lose_request) {
            return self.stats.fault(FaultKind::LostRequest);
        }
        if self.chance(self.faults.rates.copy_late) {
            self.stats.fault(FaultKind::LateCopy);
            let pause = self.between(ms(10), ms(2_000));
            self.after(pause, UserEvent::CountDown { call: call.clone() });
        }
        let delay = self.delay(client);
        self.after(delay, UserEvent::CountDown { call });
    }

    /// A count arrives.
    pub(crate) fn count_down(&mut self, call: &Call) {
        let Ok(reply) = self.server.execute(call) else { return };
        self.deliver_notices();
        let keys = call.keys().to_vec();
        let (key, operation) = (&keys[0], &keys[1]);
        let expected = self.invariants.latches.count_down(key, operation);
        trace!(self, "{key:?} is counted down: {reply:?}");
        if !self.doubts.broken {
            assert_eq!(reply, Reply::Array(expected.map(Reply::Int).to_vec()), "the count of {key:?}");
        }
    }

    /// Opens latches that are still closed, so that no waiter waits for ever.
    pub(crate) fn open_latches(&mut self) {
        if self.plan.family != LockFamily::Latch {
            return;
        }
        for lock in self.plan.lock_names() {
            let operation = self.clients[0].session.new_operation();
            let call = latch::count_down(&lock, 1_000, &operation, &self.plan.settings.publish);
            self.server.execute(&call).expect("a latch can be opened");
            self.deliver_notices();
            self.invariants.latches.set(lock.to_key(), 0);
        }
    }

    pub(crate) fn is_latch(&self, client: usize, task: usize) -> bool {
        matches!(&self.clients[client].tasks[task].kind, TaskKind::Acquire(wish) if wish.kind == Kind::Latch)
    }
}
