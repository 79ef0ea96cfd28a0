//! The conditions of the network and the server: what may happen to a call on its way, and how likely each of that is.

use crate::world::message::hold_of;
use crate::world::stats::{Coverage, FaultKind};
use crate::world::{World, ms};
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use leasehold_embedded::RefuseAt;
use std::time::Duration;

/// A fault for one call.
#[derive(Clone, Debug)]
pub(crate) struct PlannedFault {
    pub(crate) client: usize,
    pub(crate) script: &'static str,
    pub(crate) kind: CallFault,
}

#[derive(Clone, Debug)]
pub(crate) enum CallFault {
    LoseRequest,
    LoseReply,
    Swallow,
    NotSent,
    Refuse(&'static str),
    /// The script is refused something in its middle.
    Inside(RefuseAt),
    #[cfg(test)]
    Delay(Duration),
    CopyAfter(Duration),
}

impl CallFault {
    pub(crate) const fn kind(&self) -> FaultKind {
        match self {
            Self::LoseRequest => FaultKind::LostRequest,
            Self::LoseReply => FaultKind::LostReply,
            Self::Swallow => FaultKind::Swallowed,
            Self::NotSent => FaultKind::NotSent,
            Self::Refuse(_) => FaultKind::Refused,
            Self::Inside(_) => FaultKind::RefusedInside,
            #[cfg(test)]
            Self::Delay(_) => FaultKind::Delay,
            Self::CopyAfter(_) => FaultKind::LateCopy,
        }
    }
}

/// How likely what is.
#[derive(Clone, Debug)]
pub(crate) struct CallRates {
    pub(crate) delay: (Duration, Duration),
    pub(crate) spike: f64,
    pub(crate) spike_of: Duration,
    pub(crate) lose_request: f64,
    pub(crate) lose_reply: f64,
    pub(crate) swallow: f64,
    pub(crate) not_sent: f64,
    pub(crate) refuse: f64,
    /// That a script is refused something in its middle.
    pub(crate) inside: f64,
    pub(crate) copy_now: f64,
    pub(crate) copy_late: f64,
    pub(crate) unproven: f64,
    pub(crate) settle_fails: f64,
    pub(crate) subscribe_fails: f64,
    pub(crate) lose_notice: f64,
    /// That a command arrives just before, at, or just after the end of one of its keys.
    pub(crate) worst_instant: f64,
}

impl Default for CallRates {
    fn default() -> Self {
        Self {
            delay: (Duration::from_micros(100), Duration::from_micros(300)),
            spike: 0.0,
            spike_of: Duration::ZERO,
            lose_request: 0.0,
            lose_reply: 0.0,
            swallow: 0.0,
            not_sent: 0.0,
            refuse: 0.0,
            inside: 0.0,
            copy_now: 0.0,
            copy_late: 0.0,
            unproven: 0.0,
            settle_fails: 0.0,
            subscribe_fails: 0.0,
            lose_notice: 0.0,
            worst_instant: 0.0,
        }
    }
}

impl World {
    /// The fault that this call meets.
    pub(crate) fn fault_for(&mut self, client: usize, call: &Call) -> Option<CallFault> {
        let script = call.script().name();
        if let Some(index) = self.net.planned.iter().position(|fault| fault.client == client && fault.script == script)
        {
            return Some(self.net.planned.remove(index).kind);
        }
        let rates = self.net.rates.clone();
        if self.chance(rates.lose_request) {
            return Some(CallFault::LoseRequest);
        }
        if self.chance(rates.lose_reply) {
            return Some(CallFault::LoseReply);
        }
        if self.chance(rates.swallow) {
            return Some(CallFault::Swallow);
        }
        if self.chance(rates.not_sent) {
            return Some(CallFault::NotSent);
        }
        if self.chance(rates.refuse) {
            let text = ["LOADING Redis is loading", "OOM command not allowed", "READONLY You can't write"];
            return Some(CallFault::Refuse(text[self.rng.usize(..3)]));
        }
        if rates.inside > 0.0 && self.net.insides.f64() < rates.inside {
            // Few scripts use more than a dozen names of commands; what they come to last is the most interesting.
            return Some(CallFault::Inside(RefuseAt::Command(self.net.insides.u32(1..=12))));
        }
        // Only what a copy may come of later: a changed count of a hold that goes on is settled before it changes again.
        let change = hold_of(call);
        let changes_count = change.is_some();
        let first_or_last = change.is_some_and(|(_, count)| count == u32::from(script.ends_with("/acquire")));
        if self.chance(rates.copy_late) && (!changes_count || first_or_last) {
            return Some(CallFault::CopyAfter(self.between(Duration::ZERO, ms(2_000))));
        }
        None
    }

    /// Perhaps lets a command arrive in the last moment of one of its keys, at its end, or just after it.
    pub(crate) fn worst_instant(&mut self, client: usize, at: Instant, call: &Call) -> Instant {
        if !self.chance(self.net.rates.worst_instant) {
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
        if self.net.rates.worst_instant <= 0.0 {
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
