//! Restores holds that were granted without the server.

use crate::command::{AcquireArgs, Acquired};
use crate::error::LossReason;
use crate::link::LinkError;
use crate::owner::HoldNumber;
use crate::reply::Reply;
use crate::session::Event;
use crate::session::hold::Hold;
use crate::session::hold::change::{Change, CountChange};
use crate::session::ids::LockId;
use crate::session::parts::Parts;
use crate::time::Instant;
use std::time::Duration;

/// Maximum pause before a degraded hold is requested from the server again. The minimum is half of it.
pub(super) const RESTORE: Duration = Duration::from_millis(250);

impl Parts {
    /// Requests a degraded hold from the server.
    pub(super) fn restore(&mut self, now: Instant, number: HoldNumber) {
        let again = now + RESTORE / 2 + self.jitter(RESTORE / 2);
        let Some(hold) = self.holds.known_mut(number) else { return };
        hold.stop_renewals();
        let (lock, has_change) = (hold.lock(), hold.has_change());
        let leftovers = self.leftovers(lock);
        if has_change || !leftovers.is_empty() {
            for leftover in leftovers {
                self.take_leftover_from_waiter(now, leftover);
            }
            if let Some(hold) = self.holds.known_mut(number) {
                hold.restore_at(again);
            }
            return;
        }
        let Some(hold) = self.holds.known(number) else { return };
        let lock = &self.locks[lock];
        let call = lock.protocol().acquire(&AcquireArgs {
            name: lock.name(),
            keys: lock.keys(),
            hold: &hold.key(),
            beside: None,
            count: 1,
            // A fixed lease keeps its end.
            lease: hold.lease().min(hold.cell().deadline().since(now)).max(Duration::from_millis(1)),
            not_after: None,
            waits: false,
            placed: false,
            prefer_writers: None,
            settings: &self.settings,
        });
        let call = call.with_replicas(hold.replicas());
        self.send_change(now, number, None, CountChange::RaiseTo(1), call);
    }

    /// The holds that the server may still have and that are being rolled back: the release has no reply yet, or the acquire was
    /// abandoned. Then the server would report the lock as busy. A waiter's place is not a hold.
    fn leftovers(&self, lock: LockId) -> Vec<HoldNumber> {
        let same: Vec<LockId> = self.locks.same_name(lock).collect();
        let asks = |ticket| self.requests.acquire(ticket).is_some();
        let is_asked_for = |hold: &Hold| hold.change().and_then(Change::by).is_some_and(asks);
        let is_left =
            |hold: &Hold| hold.on_server() > 0 && hold.wanted() == 0 && !hold.is_queued() && !is_asked_for(hold);
        // Most holds are the only use of their lock, and a client may have thousands of holds.
        if same.iter().map(|lock| self.locks[*lock].refs()).sum::<usize>() <= 1 {
            return Vec::new();
        }
        let left = self.holds.iter().filter(|(_, hold)| same.contains(&hold.lock()) && is_left(hold));
        left.map(|(number, _)| number).collect()
    }

    /// Withdraws the hold of a waiting request whose earlier acquire may have been applied. The request waits for the degraded hold, which
    /// cannot be restored before the server has released the other.
    fn take_leftover_from_waiter(&mut self, now: Instant, number: HoldNumber) {
        let Some(ticket) = self.holds.get(number).filter(|hold| !hold.has_change()).and_then(Hold::raising) else {
            return;
        };
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
        }
        self.abandon_hold(now, ticket, number);
    }

    /// Handles the reply to a restoration.
    pub(super) fn handle_restored(&mut self, now: Instant, number: HoldNumber, result: Result<Reply, LinkError>) {
        let outcome = match result {
            Ok(reply) => self.raised(number, &reply).map_err(|error| LinkError::Unknown(error.to_string())),
            Err(error) => Err(error),
        };
        let again = now + RESTORE / 2 + self.jitter(RESTORE / 2);
        if let Some(hold) = self.holds.known_mut(number) {
            hold.restore_at(again);
        }
        if let Err(LinkError::Unknown(_)) = &outcome {
            self.begin_settling(number);
            self.set_hold_timer(number);
            return;
        }
        let Some(change) = self.end_change(number) else { return };
        self.lose_if_passed(now, number);
        let Some(hold) = self.holds.known_mut(number) else { return };
        match outcome {
            // Too few replicas: a failover could undo the hold. Retry, or release it with its guard.
            Ok(Acquired::Held { .. }) if hold.is_live() && change.shortfall().is_some() => hold.extend_clean_up(now),
            Ok(Acquired::Held { left, .. }) if hold.is_live() => {
                hold.restore(now, &change, left);
                if hold.has_passed(now) {
                    // The reply came after the deadline.
                    self.lose_by_deadline(now, number);
                    self.reconcile(now, number);
                    return;
                }
                let name = self.locks[hold.lock()].name().clone();
                self.out.tell(Event::Restored { name });
                self.outages.note_answer();
                self.schedule_renewal(now, number);
            }
            // The hold has no guard left. Lower its count like every excess count.
            Ok(Acquired::Held { .. }) => {
                hold.leave_to_background();
                hold.extend_clean_up(now);
            }
            Ok(_) => {
                hold.note_absent();
                self.outages.note_answer();
                self.lose(now, number, LossReason::NotRestored);
            }
            // A script that failed halfway may have granted the hold. Retry, or release it with its guard.
            Err(LinkError::Refused(refusal)) if !refusal.proves_nothing_done() => hold.extend_clean_up(now),
            // The server may have applied an earlier attempt without a reply.
            Err(_) => hold.undo_change(&change),
        }
        self.reconcile(now, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Replicas;
    use crate::command::Kind;
    use crate::error::HoldEnd;
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Fallback, Granted, Session};
    use crate::settings::Settings;
    use std::task::Waker;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const LEASE: Duration = Duration::from_secs(4);

    fn session() -> Session {
        let settings = Settings { unreachable_after: Duration::ZERO, ..Settings::default() };
        Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1)
    }

    fn wish(renewed: bool) -> AcquireRequest {
        let wish = AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, LEASE);
        AcquireRequest { fallback: Fallback::Local, renewed, ..wish }
    }

    /// Acquires without the server.
    fn granted(session: &mut Session, wish: AcquireRequest) -> Granted {
        let ticket = session.acquire(NOW, wish);
        loop {
            match session.step_acquire(NOW, ticket, Waker::noop()) {
                Step::Send(flight, _) => {
                    session.handle_called(NOW, flight, Err(LinkError::NotSent("not connected".to_owned())));
                }
                Step::Done(Ok(Some(guard))) => return guard,
                _ => panic!("it falls back"),
            }
        }
    }

    /// The call by which the server is asked for a hold.
    fn asked(session: &mut Session) -> Option<CallId> {
        std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, .. } => Some(id),
            _ => None,
        })
    }

    #[test]
    fn grant_that_comes_after_the_lease_loses_the_hold_at_once() {
        let mut session = session();
        let guard = granted(&mut session, wish(false));
        let later = NOW + LEASE.mul_f64(0.9);
        session.handle_timeout(later);
        let call = asked(&mut session).expect("the server is asked");
        // What is left of the lease is over, but for the margin that a deadline keeps from the server's.
        let answered = guard.cell.deadline() - Duration::from_nanos(1);
        let left = i64::try_from(guard.cell.deadline().since(later).as_millis()).expect("a lease");
        session.handle_called(answered, call, Ok(Reply::Array([1, left, 0].map(Reply::Int).to_vec())));
        assert!(matches!(guard.cell.ended(answered), Some(HoldEnd::Lost(_))));
        let told: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
        assert!(told.iter().any(|event| matches!(event, Event::Lost { .. })), "{told:?}");
    }

    #[test]
    fn restoration_counts_once_its_replicas_have_it() {
        let mut session = session();
        let replicas = Some(Replicas { at_least: 1, within: Duration::from_millis(10) });
        let guard = granted(&mut session, AcquireRequest { replicas, ..wish(true) });
        for (acknowledged, later) in [(0, NOW + RESTORE), (1, NOW + RESTORE * 3)] {
            session.handle_timeout(later);
            let asked = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
                Deed::Call { id, call } => Some((id, call.replicas())),
                _ => None,
            });
            let (call, asked) = asked.expect("the server is asked, and asked again");
            assert_eq!(asked, replicas);
            let script = Reply::Array([1, 4_000, 0].map(Reply::Int).to_vec());
            session.handle_called(later, call, Ok(Reply::Array(vec![script, Reply::Int(acknowledged)])));
            assert_eq!(guard.cell.is_degraded(), acknowledged == 0);
        }
        assert_eq!(guard.cell.acknowledged(), Some(1));
    }

    #[test]
    fn degraded_hold_lasts_as_long_as_a_renewing_guard_of_it() {
        for is_answered in [true, false] {
            let mut session = session();
            let owner = Some(session.new_owner());
            let fixed = granted(&mut session, AcquireRequest { owner, ..wish(false) });
            assert_eq!(fixed.cell.deadline(), NOW + LEASE);
            let renewing = granted(&mut session, AcquireRequest { owner, ..wish(true) });
            let later = NOW + LEASE * 10;
            session.handle_timeout(later);
            assert_eq!(fixed.cell.ended(later), None);
            let call = asked(&mut session).expect("the server is asked");
            let not_sent = || Err(LinkError::NotSent("not connected".to_owned()));
            if is_answered {
                session.handle_called(later, call, not_sent());
            }
            // A session checks after every call that something watches each deadline.
            session.release(later, renewing.hold, renewing.renewed);
            assert_eq!(fixed.cell.deadline(), later + LEASE, "what is left of a lease that was renewed until now");
            if !is_answered {
                session.handle_called(later, call, not_sent());
            }
            session.handle_timeout(later + RESTORE);
            assert!(asked(&mut session).is_some(), "the server is still asked");
        }
    }
}
