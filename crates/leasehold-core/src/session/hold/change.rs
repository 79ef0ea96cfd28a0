//! A change of a hold's count that is on its way to the server.

use crate::call::Replicas;
use crate::error::AcquireError;
use crate::link::{Epoch, Plane};
use crate::session::{FlightId, Ticket};
use crate::time::Instant;
use std::time::Duration;

/// A change of a hold's count that has been sent, and whose outcome is not known.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) flight: FlightId,
    /// The caller whose future sent it; `None` for the lifeline.
    pub(crate) by: Option<Ticket>,
    pub(crate) aim: Aim,
    /// The most that the server may have had before.
    pub(crate) before: u32,
    pub(crate) plane: Plane,
    pub(crate) epoch: Epoch,
    /// When it was sent first: a deadline is reckoned from here.
    pub(crate) sent_at: Instant,
    /// When it was sent last: a server may say that it did not apply a call, which is then sent once more.
    pub(crate) last_sent: Instant,
    /// The lease that it asks for, if it asks for one.
    pub(crate) lease: Duration,
    /// No reply will come: it is being made sure that no copy can be applied any more.
    pub(crate) settling: bool,
    /// The replicas that must acknowledge it.
    pub(crate) replicas: Option<Replicas>,
    /// How many did, once it is answered.
    pub(crate) acknowledged: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    Raise(u32),
    Lower(u32),
}

impl Change {
    /// The error that an acquire ends with which too few replicas acknowledged.
    pub(crate) fn shortfall(&self) -> Option<AcquireError> {
        let wanted = self.replicas?.at_least;
        let acknowledged = self.acknowledged.unwrap_or_default();
        (acknowledged < wanted).then_some(AcquireError::NotReplicated { acknowledged, wanted })
    }
}
