//! Extensions: a caller asks for a longer lease, once, by a renewal of its hold alone.
//!
//! The scripts never shorten a lease, so an extension and the renewals of a hold may run in any order. An extension is not repeated: its
//! caller reads the outcome, and may ask again.

use crate::call::Call;
use crate::command::{Renewal, Renewed};
use crate::error::{AcquireError, HoldEnd, LossReason};
use crate::link::{LinkError, ServerError};
use crate::owner::HoldNumber;
use crate::session::calls::{Batch, CallResult, Purpose};
use crate::session::hold::Hold;
use crate::session::request::RequestKind;
use crate::session::{Session, Ticket};
use crate::settings::Settings;
use crate::time::Instant;
use std::task::{Poll, Waker};
use std::time::Duration;

impl Session {
    /// Sets the lease of a hold to at least `lease` from now, capped by its `max_hold`. Later renewals keep their own lease.
    ///
    /// The call goes on even if the caller does not wait for its outcome.
    pub fn extend(&mut self, now: Instant, number: HoldNumber, lease: Duration) -> Ticket {
        let ticket = Ticket::new(self.new_number());
        self.requests.insert(ticket, RequestKind::Extension { outcome: None });
        self.lose_if_passed(now, number);
        let outcome = match self.lost_as(number) {
            Some(reason) => Some(Err(AcquireError::Lost(reason))),
            None if self.holds[number].state.is_degraded() => {
                self.holds[number].extend_locally(now, lease);
                self.set_hold_timer(number);
                Some(Ok(()))
            }
            None => self.send_extension(now, number, ticket, lease),
        };
        if let Some(outcome) = outcome {
            self.set_result(ticket, outcome_of_extension, outcome);
        }
        ticket
    }

    /// Polls an extension. The ticket is invalid once this is ready.
    pub fn poll_extension(&mut self, ticket: Ticket, waker: &Waker) -> Poll<Result<(), AcquireError>> {
        self.poll_result(ticket, waker, outcome_of_extension).map(|outcome| outcome.unwrap_or(Ok(())))
    }

    /// Drops the future of an extension. A call in flight still counts.
    pub fn abandon_extension(&mut self, ticket: Ticket) {
        self.remove_request(ticket);
    }

    /// The lease that the renewals of a hold ask for, or its fixed lease; zero for a hold that is gone.
    pub fn lease_of(&self, number: HoldNumber) -> Duration {
        self.holds.get(number).map_or(Duration::ZERO, |hold| hold.lease)
    }

    /// The reason why a guard's hold cannot be extended.
    fn lost_as(&self, number: HoldNumber) -> Option<LossReason> {
        match self.holds.get(number).map(|hold| hold.state.end()) {
            Some(None) => None,
            Some(Some(HoldEnd::Lost(reason))) => Some(reason),
            // A guard's hold exists until the guard ends, unless the session ends first.
            Some(Some(HoldEnd::Released | HoldEnd::Detached)) | None => Some(LossReason::ShutDown),
        }
    }

    /// Sends the call, or returns the outcome of a kind without leases.
    fn send_extension(
        &mut self,
        now: Instant,
        number: HoldNumber,
        ticket: Ticket,
        lease: Duration,
    ) -> Option<Result<(), AcquireError>> {
        let hold = &mut self.holds[number];
        let lock = &self.locks[hold.lock];
        let protocol = lock.protocol();
        let Some(script) = protocol.renewal() else { return Some(Ok(())) };
        let lease = hold.limit_extension(now, lease);
        hold.count.begin_renewal();
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        protocol.renew(&mut renewal, &lock.name, lock.keys(), &hold.cell.key(), lease);
        let replicas = hold.replicas();
        let call = Call::new(script, renewal.keys, renewal.args).with_replicas(replicas);
        let batch = Batch { sent_at: now, holds: vec![number], replicas };
        self.send_for_request(now, call, Purpose::Extension(Box::new(Extension { ticket, number, lease, batch })));
        None
    }

    pub(super) fn handle_extended(&mut self, now: Instant, extension: &Extension, result: CallResult) {
        let Extension { ticket, number, lease, ref batch } = *extension;
        // The server may have applied the extension just now.
        if let Some(hold) = self.holds.get_mut(number) {
            hold.clean_up.until = hold.clean_up.until.max(now + lease);
        }
        let decode = |reply| batch.decode(&reply).map_err(|error| LinkError::Unknown(error.to_string()));
        let outcome = match result.and_then(decode) {
            Ok((outcomes, acknowledged)) => {
                let outcome = outcomes.first().copied().unwrap_or(Renewed::Gone);
                let done = self.hold_renewed(now, batch.sent_at, number, outcome, acknowledged);
                match (self.lost_as(number), batch.replicas) {
                    (Some(reason), _) => Err(AcquireError::Lost(reason)),
                    (None, _) if done => Ok(()),
                    (None, Some(replicas)) if outcome != Renewed::Refused => Err(AcquireError::NotReplicated {
                        acknowledged: acknowledged.unwrap_or_default(),
                        wanted: replicas.at_least,
                    }),
                    (None, _) => Err(AcquireError::Refused(ServerError::new(REFUSED))),
                }
            }
            Err(error) => {
                if let Some(hold) = self.holds.get_mut(number) {
                    hold.end_renewal(false);
                }
                self.extend_clean_up(now, number);
                self.reconcile(now, number);
                Err(match error {
                    LinkError::NotSent(why) => AcquireError::Unreachable(why),
                    LinkError::Unknown(why) => AcquireError::OutcomeUnknown(why),
                    LinkError::Refused(refusal) => AcquireError::Refused(refusal),
                })
            }
        };
        self.set_result(ticket, outcome_of_extension, outcome);
    }

    /// Ends an extension without a reply, because the client ends and the guard is lost.
    pub(super) fn end_extension(&mut self, ticket: Ticket) {
        self.set_result(ticket, outcome_of_extension, Err(AcquireError::Lost(LossReason::ShutDown)));
    }
}

const fn outcome_of_extension(request: &mut RequestKind) -> Option<&mut Option<Result<(), AcquireError>>> {
    match request {
        RequestKind::Extension { outcome } => Some(outcome),
        _ => None,
    }
}

/// The error of a server that refuses a command for the lock's key without an error of the script.
const REFUSED: &str = "NOPERM the server refuses to read or to renew the key of the lock";

/// An extension in flight.
#[derive(Debug)]
pub(super) struct Extension {
    ticket: Ticket,
    number: HoldNumber,
    lease: Duration,
    batch: Batch,
}

/// The lease of an extension.
impl Hold {
    /// The lease, capped by the rest of `max_hold`.
    fn limit_extension(&self, now: Instant, lease: Duration) -> Duration {
        let most = self.deadline.latest.since(now).saturating_add(Settings::margin(lease));
        lease.min(most).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests;
