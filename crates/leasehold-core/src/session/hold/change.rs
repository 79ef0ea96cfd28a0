//! A change of a hold's count in flight.

use crate::call::Replicas;
use crate::error::AcquireError;
use crate::session::hold::Hold;
use crate::session::{CallId, Ticket};
use crate::time::Instant;
use std::time::Duration;

/// A change of a hold's count that awaits its outcome.
#[derive(Debug)]
pub(crate) struct Change {
    id: CallId,
    /// The request that sent it; `None` for the background.
    by: Option<Ticket>,
    aim: CountChange,
    /// The most that the server may have had before.
    before: u32,
    /// Resets before it was sent.
    resets: u64,
    /// Start of the lease for the deadline.
    sent_at: Instant,
    /// The lease that it asks for, if it asks for one.
    lease: Duration,
    /// No reply will come: it is being made sure that no copy can be applied any more.
    is_settling: bool,
    /// The replicas that must acknowledge it.
    replicas: Option<Replicas>,
    /// How many did, once it is answered.
    acknowledged: Option<u32>,
}

/// What a change is to do with the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CountChange {
    RaiseTo(u32),
    LowerTo(u32),
}

impl CountChange {
    /// The count that the server has afterwards.
    const fn target(self) -> u32 {
        match self {
            Self::RaiseTo(count) | Self::LowerTo(count) => count,
        }
    }
}

impl Change {
    /// Creates a change sent at `now`. `by` is the request; `None` for the background.
    pub(crate) const fn new(now: Instant, id: CallId, by: Option<Ticket>, aim: CountChange, resets: u64) -> Self {
        Self {
            id,
            by,
            aim,
            before: 0,
            resets,
            sent_at: now,
            lease: Duration::ZERO,
            is_settling: false,
            replicas: None,
            acknowledged: None,
        }
    }

    /// It asks for this lease.
    pub(crate) const fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// These replicas must acknowledge it.
    pub(crate) const fn with_replicas(mut self, replicas: Option<Replicas>) -> Self {
        self.replicas = replicas;
        self
    }

    /// The request that sent it; `None` for the background.
    pub(crate) const fn by(&self) -> Option<Ticket> {
        self.by
    }

    /// What it is to do.
    pub(crate) const fn aim(&self) -> CountChange {
        self.aim
    }

    /// Resets of connections before it was sent.
    pub(crate) const fn resets(&self) -> u64 {
        self.resets
    }

    /// When it was sent.
    pub(crate) const fn sent_at(&self) -> Instant {
        self.sent_at
    }

    /// The lease that it asks for, if it asks for one.
    pub(super) const fn lease(&self) -> Duration {
        self.lease
    }

    /// The replicas that must acknowledge it.
    pub(crate) const fn replicas(&self) -> Option<Replicas> {
        self.replicas
    }

    /// How many did, once it is answered.
    pub(crate) const fn acknowledged(&self) -> Option<u32> {
        self.acknowledged
    }

    /// The error that an acquire ends with which too few replicas acknowledged.
    pub(crate) fn shortfall(&self) -> Option<AcquireError> {
        let wanted = self.replicas?.at_least;
        let acknowledged = self.acknowledged.unwrap_or_default();
        (acknowledged < wanted).then_some(AcquireError::NotReplicated { acknowledged, wanted })
    }
}

impl Hold {
    /// Notes a change that is sent now.
    pub(crate) fn begin_change(&mut self, change: Change) {
        let before = self.count.begin_change(change.aim.target());
        let lease = change.lease.min(self.deadline.latest().since(change.sent_at));
        self.change = Some(Box::new(Change { before, lease, ..change }));
    }

    /// The change that is on its way.
    pub(crate) fn change(&self) -> Option<&Change> {
        self.change.as_deref()
    }

    /// Whether a change is on its way, or being settled.
    pub(crate) const fn has_change(&self) -> bool {
        self.change.is_some()
    }

    /// Whether a reply to this call may still come.
    pub(crate) fn is_flying(&self, id: CallId) -> bool {
        self.change.as_ref().is_some_and(|change| change.id == id && !change.is_settling)
    }

    /// Whether a reply to a call of this request may still come.
    pub(crate) fn is_flying_by(&self, ticket: Ticket) -> bool {
        self.change.as_ref().is_some_and(|change| change.by == Some(ticket) && !change.is_settling)
    }

    /// Whether something is on its way that raises the count.
    pub(crate) fn is_being_raised(&self) -> bool {
        self.change.as_ref().is_some_and(|change| matches!(change.aim, CountChange::RaiseTo(_)))
    }

    /// The replicas that have what the change brought about.
    pub(crate) fn note_replicas(&mut self, acknowledged: u32) {
        if let Some(change) = &mut self.change {
            change.acknowledged = Some(acknowledged);
        }
    }

    /// Marks the change as settling, unless it already is. Returns whether its call waits for replicas.
    pub(crate) fn begin_settling(&mut self) -> Option<bool> {
        let change = self.change.as_mut().filter(|change| !change.is_settling)?;
        change.is_settling = true;
        let durable = change.replicas.is_some();
        self.doubt_lowering();
        Some(durable)
    }

    /// Removes and returns the change.
    pub(crate) fn end_change(&mut self) -> Option<Change> {
        self.change.take().map(|change| *change)
    }

    /// Restores the count after a re-entry that the server did not apply.
    pub(crate) fn undo_entry(&mut self, change: &Change) {
        if let CountChange::RaiseTo(target) = change.aim {
            self.count.set_on_server(target - 1);
            self.raising = None;
        }
    }

    /// Restores the count after a change that the server did not apply.
    pub(crate) const fn undo_change(&mut self, change: &Change) {
        self.count.set_on_server(change.before);
    }

    /// The request that re-enters raises the count by one. Gives the count that it asks for.
    pub(crate) fn begin_entry(&mut self, ticket: Ticket) -> u32 {
        self.stop_waiting(ticket);
        self.raising = Some(ticket);
        self.count.wanted() + 1
    }

    /// Whether a request that re-enters has to wait: another change is on its way, or is to be sent first.
    pub(crate) fn is_in_the_way_of(&self, ticket: Ticket) -> bool {
        self.change.is_some() || (self.count.is_high() && self.raising != Some(ticket))
    }
}
