//! What a loss does, and which holds a grant proves lost.
//!
//! Several flows find that a hold is lost, and all of them call [`Parts::lose`], which calls `Hold::lose`:
//!
//! | found by | reason |
//! |---|---|
//! | the deadline: the hold's timer (`hold_is_due`), a guard that goes (`take_guard`, `detach`), a re-entry (`check_entry`), or a reply that comes after it (`renew`, `reenter`, `restore`) | that of the deadline |
//! | a renewal (`renew`), a re-entry (`reenter`) or a release (`release_reply`) whose reply says that the hold is gone | `Removed` |
//! | a renewal or a re-entry whose reply has another count | `CountMismatch` |
//! | a grant to another hold that this one would exclude (`lose_what_a_grant_excludes`) | `Removed` |
//! | a refusal of what was granted without the server (`restore`) | `NotRestored` |
//! | the end of the client (`shut_down`) | `ShutDown` |
//!
//! A guard that sees the deadline pass marks its `HoldCell` and stops its work at once; the session loses the hold when its timer comes. A
//! release that finds its hold gone tells its caller so by itself: there is no guard left that could be told. A guard of several locks or
//! servers counts the ended cells of its members (`Cells::ended` in `crates/leasehold/src/loss.rs`).

use crate::command::{Kind, WaitPolicy};
use crate::error::{AcquireError, LossReason, ReleaseError};
use crate::owner::HoldNumber;
use crate::session::hold::Hold;
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::time::Instant;
use bytes::Bytes;

impl Parts {
    /// Loses a hold: its guards are told, and nothing renews it any more.
    pub(super) fn lose(&mut self, now: Instant, number: HoldNumber, reason: LossReason) {
        let Some(hold) = self.holds.known_mut(number) else { return };
        if !hold.lose(reason, self.out.woken()) {
            return;
        }
        let waiting = hold.take_waiting();
        self.out.tell(hold.lost(now, self.locks[hold.lock()].name().clone(), reason));
        for ticket in waiting {
            self.fail_acquire(now, ticket, AcquireError::Lost(reason));
            self.finish_release(ticket, Err(ReleaseError::Lost(reason)));
        }
    }

    /// Loses a hold because of its deadline, which a guard may have seen pass already.
    pub(super) fn lose_by_deadline(&mut self, now: Instant, number: HoldNumber) {
        let Some(hold) = self.holds.known(number) else { return };
        let reason = hold.cell().reason_of_deadline();
        self.lose(now, number, reason);
    }

    /// Loses a hold whose deadline has passed, although the session has not said so yet.
    pub(super) fn lose_if_passed(&mut self, now: Instant, number: HoldNumber) {
        if self.holds.get(number).is_some_and(|hold| hold.is_live() && hold.has_passed(now)) {
            self.lose_by_deadline(now, number);
        }
    }

    /// A grant proves that the server has no other hold that it excludes. Such a hold of this client is lost, unless the server may have
    /// granted or renewed it later than the grant: then its last reply came after the grant was asked for.
    ///
    /// A reader excludes writers alone, but not the one `beside` whom it was let in.
    pub(super) fn lose_what_a_grant_excludes(
        &mut self,
        now: Instant,
        number: HoldNumber,
        sent_at: Instant,
        beside: Option<&Bytes>,
    ) {
        let Some(lock) = self.holds.get(number).filter(|hold| hold.is_live()).map(|hold| hold.lock()) else { return };
        let is_reader = self.locks[lock].kind() == Kind::Read;
        if !is_reader && !matches!(self.locks[lock].wait_policy(), WaitPolicy::Exclusive | WaitPolicy::ServerQueue) {
            return;
        }
        if self.locks.same_name(lock).map(|at| self.locks[at].held()).sum::<usize>() < 2 {
            return;
        }
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        let is_excluded = |other: &HoldNumber, hold: &Hold| {
            let certain = !hold.is_degraded() && hold.is_disproved_by(sent_at);
            let conflicts =
                !is_reader || (self.locks[hold.lock()].kind() == Kind::Write && beside != Some(&hold.field()));
            *other != number && certain && conflicts && same.contains(&hold.lock())
        };
        let lost: Vec<HoldNumber> =
            self.holds.iter().filter(|(other, hold)| is_excluded(other, hold)).map(|(other, _)| other).collect();
        for other in lost {
            self.lose(now, other, LossReason::Removed);
            self.reconcile(now, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::command::Kind;
    use crate::error::LossReason;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::steps::Step;
    use crate::session::{AcquireRequest, Event, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    #[test]
    fn loss_that_is_found_late_tells_of_the_time_to_the_deadline() {
        let (now, lease) = (Instant::from_nanos(1_000_000_000), Duration::from_secs(3));
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let name = LockName::new("", "stock").expect("a name");
        let ticket = session.acquire(now, AcquireRequest::new(name, Kind::Lock, lease));
        let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else { panic!("it asks") };
        let reply = Reply::Array([1, 3_000, 0].map(Reply::Int).to_vec());
        session.handle_called(now, flight, Ok(reply));
        let Step::Done(Ok(Some(granted))) = session.step_acquire(now, ticket, Waker::noop()) else {
            panic!("it is granted")
        };
        let deadline = granted.cell.deadline();
        // The process was paused for longer than the lease.
        session.handle_timeout(now + lease * 3);
        let lost = std::iter::from_fn(|| session.poll_event()).find_map(|event| match event {
            Event::Lost { reason, held, .. } => Some((reason, held)),
            _ => None,
        });
        assert_eq!(lost, Some((LossReason::NotRenewed, deadline.since(now))));
    }
}
