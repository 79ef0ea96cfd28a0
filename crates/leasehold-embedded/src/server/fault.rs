//! Faults between a client and its server.

use crate::engine::refusal::RefuseAt;
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;

/// A fault of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Loses the request with its connection: not applied, outcome unknown. Resets the connection.
    LoseRequest,
    /// Loses the reply with its connection: applied, outcome unknown. Resets the connection.
    LoseReply,
    /// Replies with an error.
    Refuse(ServerError),
    /// Refuses a command within the script. Earlier writes of the script persist. A script that ends before the refusal
    /// succeeds.
    #[doc(hidden)]
    RefuseInside(RefuseAt, ServerError),
    /// Holds the request in a proxy. [`release_held`](crate::EmbeddedLink::release_held) applies the request, even
    /// without its caller and connection, unless a settlement comes first.
    Hold,
    /// Applies the request without a reply. The future waits until its connection is reset or settled.
    Swallow,
    /// Disconnects the link before the call is sent.
    LinkDown,
    /// Applies the request twice, like a driver that resends. The caller receives the second reply.
    Duplicate,
}

/// Selects the calls for a fault.
#[derive(Clone, Debug)]
pub struct FaultTarget {
    script: Option<&'static str>,
    durable: bool,
    skip: u32,
    /// Number of calls; `None` for all.
    hits: Option<u32>,
}

impl FaultTarget {
    /// Selects the next call.
    pub const fn next() -> Self {
        Self { script: None, durable: false, skip: 0, hits: Some(1) }
    }

    /// Selects all calls, until the faults are cleared.
    pub const fn always() -> Self {
        Self { script: None, durable: false, skip: 0, hits: None }
    }

    /// Selects only calls of this script, such as `lock/acquire`.
    #[must_use]
    pub const fn script(mut self, name: &'static str) -> Self {
        self.script = Some(name);
        self
    }

    /// Selects only durable calls.
    #[must_use]
    pub const fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// Skips this many matching calls.
    #[must_use]
    pub const fn after(mut self, calls: u32) -> Self {
        self.skip = calls;
        self
    }

    /// Selects this many calls.
    #[must_use]
    pub const fn times(mut self, calls: u32) -> Self {
        self.hits = Some(calls);
        self
    }

    fn is_for(&self, call: &Call) -> bool {
        self.script.is_none_or(|name| name == call.script().name()) && (!self.durable || call.replicas().is_some())
    }
}

/// Planned faults.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<(Fault, FaultTarget)>);

impl Faults {
    pub(crate) fn add(&mut self, fault: Fault, target: FaultTarget) {
        self.0.push((fault, target));
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Takes the first fault that matches this call. Only faults up to that fault count the call.
    pub(crate) fn take(&mut self, call: &Call) -> Option<Fault> {
        for at in 0..self.0.len() {
            let (fault, target) = &mut self.0[at];
            if !target.is_for(call) || target.hits == Some(0) {
                continue;
            }
            if target.skip > 0 {
                target.skip -= 1;
                continue;
            }
            let fault = fault.clone();
            if let Some(hits) = &mut target.hits {
                *hits -= 1;
                if *hits == 0 {
                    self.0.remove(at);
                }
            }
            return Some(fault);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_core::call::Replicas;
    use leasehold_core::script::{ACQUIRE, RELEASE};
    use std::time::Duration;

    #[test]
    fn a_fault_hits_what_it_is_aimed_at() {
        let call = |script| Call::of(script);
        let (acquire, release) = (call(&ACQUIRE), call(&RELEASE));
        let durable = call(&RELEASE).with_replicas(Some(Replicas { at_least: 1, within: Duration::from_millis(1) }));
        let mut faults = Faults::default();
        faults.add(Fault::Hold, FaultTarget::next().script("lock/acquire").after(1));
        faults.add(Fault::Duplicate, FaultTarget::next().script("lock/release").durable().times(2));
        assert_eq!(faults.take(&acquire), None, "the first call passes");
        assert_eq!(faults.take(&acquire), Some(Fault::Hold));
        assert_eq!(faults.take(&acquire), None);
        assert_eq!(faults.take(&release), None);
        assert_eq!(faults.take(&durable), Some(Fault::Duplicate));
        assert_eq!(faults.take(&durable), Some(Fault::Duplicate));
        assert!(faults.0.is_empty());
        faults.add(Fault::LoseReply, FaultTarget::always());
        assert!((0..10).all(|_| faults.take(&acquire) == Some(Fault::LoseReply)));
    }
}
