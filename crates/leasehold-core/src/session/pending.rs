//! The calls that the lifeline has under way, and what each of them is for.

use crate::owner::HoldNumber;
use crate::session::CallId;
use crate::session::ids::LockId;
use crate::session::renewals::Batch;
use std::collections::BTreeMap;

/// The purpose of a call by the lifeline.
#[derive(Debug)]
pub(super) enum Purpose {
    /// It renews holds.
    Renewal(Batch),
    /// It lowers the count of a hold.
    Lowering(HoldNumber),
    /// It asks the server for a hold that was granted without it.
    Restoration(HoldNumber),
    /// It tells the server that the waiters of a fair lock live.
    Beat(LockId),
    /// It writes the client's record.
    Record,
}

/// The calls under way whose answers mean something, by their ids.
#[derive(Debug, Default)]
pub(super) struct Pending {
    calls: BTreeMap<CallId, Purpose>,
    lowerings: usize,
    renewals: usize,
    durable_renewals: usize,
}

impl Pending {
    /// Notes what a call is for that is about to be sent.
    pub(super) fn insert(&mut self, id: CallId, purpose: Purpose) {
        if let Some(count) = self.count(&purpose) {
            *count += 1;
        }
        self.calls.insert(id, purpose);
    }

    /// Takes out what an answered call was for; `None` where its answer means nothing.
    pub(super) fn take(&mut self, id: CallId) -> Option<Purpose> {
        let purpose = self.calls.remove(&id)?;
        if let Some(count) = self.count(&purpose) {
            *count -= 1;
        }
        Some(purpose)
    }

    /// How many lowerings are under way.
    pub(super) const fn lowerings(&self) -> usize {
        self.lowerings
    }

    /// How many renewals are under way: of those that wait for replicas, or of the others.
    pub(super) const fn renewals(&self, durable: bool) -> usize {
        if durable { self.durable_renewals } else { self.renewals }
    }

    /// The count in which a call is one, if it is counted.
    const fn count(&mut self, purpose: &Purpose) -> Option<&mut usize> {
        match purpose {
            Purpose::Renewal(batch) if batch.is_durable() => Some(&mut self.durable_renewals),
            Purpose::Renewal(_) => Some(&mut self.renewals),
            Purpose::Lowering(_) => Some(&mut self.lowerings),
            Purpose::Restoration(_) | Purpose::Beat(_) | Purpose::Record => None,
        }
    }
}
