//! Commands that arrive around the end of a key.

use crate::report::stats::{Coverage, FaultKind};
use crate::world::{World, ms};
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::time::Duration;

impl World {
    /// Perhaps lets a command arrive in the last moment of one of its keys, at its end, or just after it.
    pub(crate) fn worst_instant(&mut self, client: usize, at: Instant, call: &Call) -> Instant {
        if !self.chance(self.faults.rates.worst_instant) {
            return at;
        }
        let wall = self.server.wall_millis();
        let into = Duration::from_nanos(self.now.as_nanos() % 1_000_000);
        for key in call.keys().to_vec() {
            let Ok(Reply::Int(left @ 0..)) = self.server.command(&[b"PTTL", &key]) else { continue };
            // The key is there until the end of its last millisecond.
            let last = self.now - into + ms(left.unsigned_abs());
            let end = last + ms(1);
            let aimed = match self.rng.u8(..4) {
                0 => last - Duration::from_nanos(1),
                1 => last,
                2 => end - Duration::from_nanos(1),
                _ => end,
            };
            if aimed >= at && end.since(at) < ms(1_300) {
                self.stats.fault(FaultKind::WorstInstant);
                self.note_fault_of(client, aimed);
                self.server.ends.insert(key, wall + left);
                return aimed;
            }
        }
        at
    }

    /// Notes when a command comes so near to the end of a key.
    pub(crate) fn note_expiry(&mut self, call: &Call) {
        if self.faults.rates.worst_instant <= 0.0 {
            return;
        }
        let wall = self.server.wall_millis();
        for key in call.keys().to_vec() {
            let left = self.server.command(&[b"PTTL", &key]);
            let after = self.server.ends.get(&key).is_some_and(|end| end + 1 == wall);
            match left {
                Ok(Reply::Int(1)) => self.stats.reach(Coverage::BeforeExpiry),
                Ok(Reply::Int(0)) => self.stats.reach(Coverage::AtExpiry),
                Ok(Reply::Int(-2)) if after => self.stats.reach(Coverage::AfterExpiry),
                _ => {}
            }
        }
    }
}
