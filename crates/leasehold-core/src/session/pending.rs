//! The calls in flight, and their purposes.

use crate::call::Replicas;
use crate::command::Renewed;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::session::ids::LockId;
use crate::session::{CallId, replicas};
use crate::time::Instant;
use std::collections::BTreeMap;

/// The purpose of a call.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A request changes the count of this hold.
    Request(HoldNumber),
    /// It renews holds.
    Renewal(Batch),
    /// The background lowers the count of a hold.
    Lowering(HoldNumber),
    /// It asks the server for a hold that was granted without it.
    Restoration(HoldNumber),
    /// It tells the server that the waiters of a fair lock live.
    Heartbeat(LockId),
    /// It writes the client's record.
    Record,
    /// The reply is ignored.
    Nothing,
}

/// One renewal on the way.
#[derive(Debug)]
pub(super) struct Batch {
    sent_at: Instant,
    holds: Vec<HoldNumber>,
    replicas: Option<Replicas>,
}

impl Batch {
    /// A renewal of these holds that is sent now, and that so many replicas must acknowledge.
    pub(super) const fn new(sent_at: Instant, holds: Vec<HoldNumber>, replicas: Option<Replicas>) -> Self {
        Self { sent_at, holds, replicas }
    }

    /// When it was sent.
    pub(super) const fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// The holds that it renews.
    pub(super) fn holds(&self) -> &[HoldNumber] {
        &self.holds
    }

    /// Whether it waits for replicas.
    pub(super) const fn is_durable(&self) -> bool {
        self.replicas.is_some()
    }

    /// The server's answer for each hold, and the number of replicas that acknowledged it, if they were asked.
    pub(super) fn decode(&self, reply: &Reply) -> Result<(Vec<Renewed>, Option<u32>), DecodeError> {
        let (reply, acknowledged) = match self.replicas {
            None => (reply, None),
            Some(_) => replicas::split(reply).map(|(reply, acknowledged)| (reply, Some(acknowledged)))?,
        };
        Ok((Renewed::decode(reply, self.holds.len())?, acknowledged))
    }

    /// The error text if too few replicas acknowledged the renewal.
    pub(super) fn shortfall(&self, acknowledged: Option<u32>) -> Option<String> {
        let wanted = self.replicas?.at_least;
        let count = acknowledged.unwrap_or_default();
        (count < wanted).then(|| format!("{count} replicas acknowledged it, and {wanted} were wanted"))
    }
}

/// The calls in flight, by id.
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

    /// Removes a call and returns its purpose; `None` if the session has answered it or given it up.
    pub(super) fn take(&mut self, id: CallId) -> Option<Purpose> {
        let purpose = self.calls.remove(&id)?;
        if let Some(count) = self.count(&purpose) {
            *count -= 1;
        }
        Some(purpose)
    }

    /// Whether no call is in flight.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the call is in flight.
    pub(super) fn contains(&self, id: CallId) -> bool {
        self.calls.contains_key(&id)
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
            Purpose::Request(_)
            | Purpose::Restoration(_)
            | Purpose::Heartbeat(_)
            | Purpose::Record
            | Purpose::Nothing => None,
        }
    }
}
