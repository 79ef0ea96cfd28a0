//! Holds that replicas must acknowledge: what their answers mean, and how an acquire that fell short is taken back.
//!
//! The server answers such a call twice over: what the script did, and how many replicas have it. The first without enough of the
//! second is a state of the primary alone, which a failover may undo. It never moves a deadline, and an acquire that ends so is
//! taken back before its caller is told.

use super::Session;
use super::hold::Change;
use super::request::{Request, Ticket, Undoing};
use crate::call::Replicas;
use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::reply::{DecodeError, Reply};
use crate::time::Instant;

/// The script's reply, and how many replicas acknowledged it.
pub(super) fn split(reply: &Reply) -> Result<(&Reply, u32), DecodeError> {
    let [script, acknowledged] = reply.array()? else {
        return Err(DecodeError::new("an array of two", reply));
    };
    let count = u32::try_from(acknowledged.int()?);
    Ok((script, count.map_err(|_| DecodeError::new("a number of replicas", acknowledged))?))
}

/// What satisfies both conditions, those that there are.
pub(super) fn both(one: Option<Replicas>, other: Option<Replicas>) -> Option<Replicas> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}

impl Change {
    /// The error that an acquire ends with which too few replicas acknowledged.
    pub(super) fn shortfall(&self) -> Option<AcquireError> {
        let wanted = self.replicas?.at_least;
        let acknowledged = self.acknowledged.unwrap_or_default();
        (acknowledged < wanted).then_some(AcquireError::NotReplicated { acknowledged, wanted })
    }
}

impl Session {
    /// The replicas that must acknowledge a hold.
    pub(super) fn replicas_of(&self, number: Option<HoldNumber>) -> Option<Replicas> {
        self.holds.get(&number?)?.replicas
    }

    /// The server has raised the count, and that does not count: it is lowered again, and then the caller is told why. The caller is
    /// told after the command timeout at the latest; the lifeline goes on lowering.
    pub(super) fn undo(&mut self, now: Instant, ticket: Ticket, number: HoldNumber, error: AcquireError) {
        let until = now + self.settings.command_timeout;
        if let Some(Request::Acquire(acquire)) = self.requests.get_mut(&ticket) {
            acquire.hold = None;
            acquire.undoing = Some(Undoing { error, until });
        }
        if let Some(hold) = self.holds.get_mut(&number) {
            hold.raising = None;
            hold.clean_up.by_lifeline = true;
            hold.waiting.push(ticket);
        }
        self.set_request_timer(now, ticket);
        self.attend(now, number);
    }

    /// What an acquire had begun is gone, or is left to the lifeline: its caller is told why it failed.
    pub(super) fn undone(&mut self, now: Instant, ticket: Ticket) {
        if let Some(undoing) = self.acquire_of_mut(ticket).and_then(|acquire| acquire.undoing.take()) {
            self.finish_acquire(now, ticket, Err(undoing.error));
        }
    }
}
