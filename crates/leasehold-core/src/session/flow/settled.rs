//! The end of a settlement, and the replies to acquires.

use crate::command::Acquired;
use crate::link::{LinkError, Settled};
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::hold::change::Change;
use crate::session::hold::clean_up::AfterSettling;
use crate::session::parts::Parts;
use crate::session::settlements::Answered;
use crate::session::{CallId, Event, Ticket};
use crate::time::Instant;

impl Parts {
    /// Continues a hold after its change was settled. Only with `proven` is it certain that no copy can still be applied.
    pub(super) fn change_settled(&mut self, now: Instant, number: HoldNumber, proven: bool) {
        // The server may have applied the change until now.
        self.extend_clean_up(now, number);
        let Some(hold) = self.holds.known_mut(number) else { return };
        match hold.note_settled(now, proven) {
            AfterSettling::TryAgain(ticket) => self.retry_after_settlement(now, ticket),
            AfterSettling::TakeBack => {}
        }
        self.reconcile(now, number);
    }

    /// See [`Session::handle_settled`](crate::session::Session::handle_settled).
    pub(crate) fn handle_settled(&mut self, now: Instant, id: CallId, result: Result<Settled, LinkError>) {
        let spread = || self.rng.f64();
        match self.settlements.answered(now, id, result.is_ok(), spread) {
            Answered::Nothing => {}
            Answered::Done { scope: (_, durable), key, settled, late } => {
                for number in settled {
                    self.change_settled(now, number, result == Ok(Settled::Proven));
                }
                for number in late {
                    self.settle(key.clone(), durable, number);
                }
            }
            Answered::Failed(first) => {
                let lock = first.and_then(|number| self.holds.get(number)).map(|hold| hold.lock());
                if let (Some(lock), Err(error)) = (lock, result) {
                    let name = self.locks[lock].name().clone();
                    let lasting = error.is_lasting();
                    self.out.tell(Event::CleanUpFailed { name, why: error.to_string(), lasting });
                }
            }
        }
    }

    /// Processes the outcome of an acquire. Returns `None` for an unknown outcome, and settles the call. The request fails now if this was its last
    /// attempt.
    pub(super) fn end_raise(
        &mut self,
        now: Instant,
        ticket: Ticket,
        number: HoldNumber,
        result: Result<Reply, LinkError>,
    ) -> Option<(Change, Result<Acquired, LinkError>)> {
        let outcome = match result {
            Ok(reply) => self.raised(number, &reply).map_err(|error| LinkError::Unknown(error.to_string())),
            Err(error) => Err(error),
        };
        if let Err(LinkError::Unknown(why)) = &outcome {
            self.record_failure(now, ticket, why, true);
            self.begin_settling(number);
            if self.requests.acquire(ticket).is_some_and(|acquire| acquire.is_final_attempt()) {
                let error = self.failure_error(ticket);
                self.fail_acquire(now, ticket, error);
            }
            return None;
        }
        if outcome.is_ok() {
            self.outages.note_answer();
            // The clean-up must cover the change's lease too, so extend it before the change ends.
            self.extend_clean_up(now, number);
            return Some((self.end_change(number)?, outcome));
        }
        let change = self.end_change(number)?;
        self.extend_clean_up(now, number);
        Some((change, outcome))
    }
}
