//! Latches of a world: what is left of their counts, by a model of them beside the server.

use crate::report::stats::{Coverage, FaultKind};
use crate::workload::family::LockFamily;
use crate::world::client::TaskKind;
use crate::world::event::WorldEvent;
use crate::world::{World, ms, name, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::{Kind, latch};
use leasehold_core::reply::Reply;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Latches {
    left: FxHashMap<Bytes, i64>,
    /// Counts that have been carried out.
    counted: FxHashSet<Bytes>,
}

impl World {
    /// Closes the latches of the world.
    pub(crate) fn close_latches(&mut self) {
        if self.plan.family != LockFamily::Latch {
            return;
        }
        for lock in 0..self.plan.locks {
            let count = 1 + self.rng.u32(..6);
            let lock = name(&format!("lock{lock}"));
            let operation = self.clients[0].session.new_operation();
            let call = latch::set(&lock, count, &operation, &self.plan.settings.publish);
            self.server.execute(&call).expect("a latch can be set");
            self.latches.left.insert(lock.key().clone(), count.into());
        }
    }

    /// A client counts a latch down; that is a call beside its session.
    pub(crate) fn start_count(&mut self, client: usize) {
        self.stats.operations += 1;
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        let operation = self.clients[client].session.new_operation();
        let call = latch::count_down(&lock, 1, &operation, &self.plan.settings.publish);
        trace!(self, "client {client} counts {lock} down");
        if self.chance(self.rates.lose_request) {
            return self.stats.fault(FaultKind::LostRequest);
        }
        if self.chance(self.rates.copy_late) {
            self.stats.fault(FaultKind::LateCopy);
            let pause = self.between(ms(10), ms(2_000));
            self.after(pause, WorldEvent::CountDown { call: call.clone() });
        }
        let delay = self.delay(client);
        self.after(delay, WorldEvent::CountDown { call });
    }

    /// A count arrives: it changes what is left, unless it is a copy, or the latch is open.
    pub(crate) fn count_down(&mut self, call: &Call) {
        let Ok(reply) = self.server.execute(call) else { return };
        self.deliver_notices();
        let (key, operation) = (&call.keys()[0], &call.keys()[1]);
        let left = self.latches.left.entry(key.clone()).or_default();
        let code = if self.latches.counted.contains(operation) {
            2
        } else if *left == 0 {
            0
        } else {
            *left -= 1;
            self.latches.counted.insert(operation.clone());
            1
        };
        trace!(self, "{key:?} is counted down: {reply:?}");
        if !self.broken {
            let expected = Reply::Array(vec![Reply::Int(code), Reply::Int(self.latches.left[key])]);
            assert_eq!(reply, expected, "the count of {key:?}");
        }
    }

    /// Opens latches that are still closed, so that no waiter waits for ever.
    pub(crate) fn open_latches(&mut self) {
        if self.plan.family != LockFamily::Latch {
            return;
        }
        for lock in 0..self.plan.locks {
            let lock = name(&format!("lock{lock}"));
            let operation = self.clients[0].session.new_operation();
            let call = latch::count_down(&lock, 1_000, &operation, &self.plan.settings.publish);
            self.server.execute(&call).expect("a latch can be opened");
            self.deliver_notices();
            self.latches.left.insert(lock.key().clone(), 0);
        }
    }

    pub(crate) fn is_latch(&self, client: usize, task: usize) -> bool {
        matches!(&self.clients[client].tasks[task].kind, TaskKind::Acquire(wish) if wish.kind == Kind::Latch)
    }

    /// No caller goes through a latch that is closed.
    pub(crate) fn check_open(&mut self, client: usize, task: usize) {
        let state = &self.clients[client].tasks[task];
        let TaskKind::Acquire(wish) = &state.kind else { return };
        let left = self.latches.left.get(wish.name.key()).copied().unwrap_or_default();
        assert!(self.broken || left == 0, "client {client} went through {} with {left} left", wish.name);
        let now = self.local(client);
        if now.since(state.started) > Duration::from_millis(50) {
            self.stats.reach(Coverage::LatchOpened);
        }
    }
}
