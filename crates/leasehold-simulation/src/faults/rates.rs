//! The faults in the world: those for single calls, and how likely each is.

use crate::report::stats::FaultKind;
use crate::workload::family::hold_of;
use crate::world::{World, ms};
use leasehold_core::call::Call;
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
pub(crate) struct FaultRates {
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

impl Default for FaultRates {
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
        if let Some(index) =
            self.faults.planned.iter().position(|fault| fault.client == client && fault.script == script)
        {
            return Some(self.faults.planned.remove(index).kind);
        }
        let rates = self.faults.rates.clone();
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
        if rates.inside > 0.0 && self.faults.insides.f64() < rates.inside {
            // Few scripts use more than a dozen names of commands; what they come to last is the most interesting.
            return Some(CallFault::Inside(RefuseAt::Command(self.faults.insides.u32(1..=12))));
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
}
