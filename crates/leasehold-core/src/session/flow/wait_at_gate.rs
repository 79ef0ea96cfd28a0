//! Requests that find the gate of a lock shut: they wait for another task of their client, and leave the server out of it.
//!
//! A request looks at the gate before it asks the server, before it goes on without it, and when a call that went out before the gate was shut
//! is granted.

use crate::owner::HoldNumber;
use crate::session::flow::restore::RESTORE;
use crate::session::hold::Hold;
use crate::session::ids::LockId;
use crate::session::lock::line::Phase;
use crate::session::parts::Parts;
use crate::session::request::acquire::LocalPlace;
use crate::session::{Patience, Ticket};
use crate::time::Instant;

impl Parts {
    /// Another task of this client has the lock: it is waited for here, and the server is left out of it.
    pub(super) fn stand_at_gate(&mut self, now: Instant, ticket: Ticket) {
        let Some(acquire) = self.requests.known_acquire_mut(ticket) else { return };
        acquire.failures_mut().forget_failures();
        let (lock, owner, in_line) = (acquire.lock(), acquire.wish().owner, acquire.place() == LocalPlace::Line);
        let ended = acquire.has_ended() || acquire.is_taking_back();
        if in_line {
            self.close_gate(lock);
        }
        if ended {
            return;
        }
        if let Some(number) = owner.and_then(|owner| self.owners.hold(lock, owner)) {
            self.enter_instead(now, ticket, lock, number);
            return;
        }
        let Some(acquire) = self.requests.known_acquire(ticket) else { return };
        if let Some(beside) = self.own_other_half(acquire) {
            self.stand_beside(now, ticket, beside);
            return;
        }
        if !in_line
            || acquire.wish().patience == Patience::Try
            || acquire.is_final_attempt()
            || acquire.end_of_wish(self.settings.command_timeout) <= now
        {
            self.end_busy(now, ticket);
        } else {
            self.begin_to_wait(now, ticket);
        }
    }

    /// The requests of the line wait for a task of this client, and not for the server. A contender whose command is under way learns of it
    /// from the reply.
    fn close_gate(&mut self, lock: LockId) {
        self.locks[lock].forget_failures();
        let line = self.locks[lock].line();
        let asks = line.contender().is_some_and(|contender| self.is_under_way(contender));
        if !asks && !line.is_empty() {
            self.locks[lock].line_mut().gate();
        }
        self.set_lock_timer(lock);
    }

    /// The server has been out of reach for too long for those who wait for a lock. Where a task of this client has the lock, they wait for
    /// that one. Says whether they do.
    pub(super) fn waits_at_gate(&mut self, now: Instant, lock: LockId) -> bool {
        if !self.is_gated(lock) {
            return false;
        }
        self.close_gate(lock);
        if self.locks[lock].line().phase() == Phase::Gated
            && let Some(contender) = self.locks[lock].line().contender()
        {
            self.stand_at_gate(now, contender);
        }
        true
    }

    /// Whether a hold that the server grants is one that a task of this client has without the server, and keeps for itself.
    pub(super) fn is_held_without_server(&self, number: HoldNumber) -> bool {
        let Some(lock) = self.holds.get(number).map(|hold| hold.lock()) else { return false };
        self.is_gated(lock) && self.keepers(lock).next().is_some()
    }

    /// The server has granted what a task of this client has without it: the grant is given back, and the request waits for that task.
    pub(super) fn give_grant_back(&mut self, now: Instant, ticket: Ticket, number: HoldNumber) {
        if let Some(hold) = self.holds.known_mut(number) {
            hold.end_raising();
            hold.leave_to_background();
        }
        let Some(lock) = self.holds.get(number).map(|hold| hold.lock()) else { return };
        // The server is asked for their holds when it no longer has this one.
        let keepers: Vec<HoldNumber> = self.keepers(lock).collect();
        for keeper in keepers {
            if let Some(hold) = self.holds.known_mut(keeper)
                && hold.renew_at().is_some()
            {
                hold.restore_at(now + RESTORE);
                self.set_hold_timer(keeper);
            }
        }
        self.reconcile(now, number);
        if let Some(acquire) = self.requests.acquire_mut(ticket) {
            acquire.forget_hold();
        }
        self.stand_at_gate(now, ticket);
    }

    /// The holds that shut the gate of a lock, and are not on the server yet.
    fn keepers(&self, lock: LockId) -> impl Iterator<Item = HoldNumber> {
        let keeps = move |hold: &Hold| hold.is_restorable() && self.excluders(lock).any(|at| at == hold.lock());
        self.holds.iter().filter(move |(_, hold)| keeps(hold)).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, LinkEvent};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::request::acquire::AcquireOutcome;
    use crate::session::steps::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Fallback, Granted, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const NONE: [&str; 0] = [];
    /// Shorter than a command may take.
    const UNREACHABLE: Duration = Duration::from_millis(400);

    fn session() -> Session {
        let settings = Settings { unreachable_after: UNREACHABLE, ..Settings::default() };
        Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1)
    }

    fn wish(kind: Kind, fallback: Fallback) -> AcquireRequest {
        let name = LockName::new("", "stock").expect("a name");
        AcquireRequest { fallback, ..AcquireRequest::new(name, kind, Duration::from_secs(30)) }
    }

    fn poll(session: &mut Session, now: Instant, ticket: Ticket) -> Step<AcquireOutcome> {
        session.step_acquire(now, ticket, Waker::noop())
    }

    fn asks(session: &mut Session, now: Instant, wish: AcquireRequest) -> (Ticket, CallId) {
        let ticket = session.acquire(now, wish);
        let Step::Send(flight, _) = poll(session, now, ticket) else { panic!("it asks") };
        (ticket, flight)
    }

    fn granted() -> Result<Reply, LinkError> {
        Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec()))
    }

    /// Answers to every attempt of a request that it was not sent, until it makes no more for now.
    fn fails(session: &mut Session, now: Instant, ticket: Ticket, flight: CallId) -> Step<AcquireOutcome> {
        let mut flight = flight;
        loop {
            session.handle_called(now, flight, Err(LinkError::NotSent("not connected".to_owned())));
            match poll(session, now, ticket) {
                Step::Send(again, _) => flight = again,
                step => return step,
            }
        }
    }

    /// Has a request fail until it is granted without the server, at the instant at which that is allowed.
    fn falls_back(session: &mut Session, ticket: Ticket, flight: CallId) -> Granted {
        assert!(is_waiting(&fails(session, NOW, ticket, flight)), "it makes a pause");
        session.handle_timeout(NOW + UNREACHABLE);
        let Step::Done(Ok(Some(granted))) = poll(session, NOW + UNREACHABLE, ticket) else {
            panic!("it is granted without the server")
        };
        granted
    }

    fn is_waiting(step: &Step<AcquireOutcome>) -> bool {
        matches!(step, Step::Wait)
    }

    fn is_busy(step: &Step<AcquireOutcome>) -> bool {
        matches!(step, Step::Done(Ok(None)))
    }

    fn scripts(session: &mut Session) -> Vec<&'static str> {
        let actions = std::iter::from_fn(|| session.poll_deed());
        let scripts = actions.filter_map(|action| match action {
            Deed::Call { call, .. } => Some(call.script().name()),
            _ => None,
        });
        scripts.collect()
    }

    #[test]
    fn hold_that_passes_through_is_never_asked_for() {
        for renewed in [false, true] {
            let mut session = session();
            let wish = AcquireRequest { renewed, ..wish(Kind::Lock, Fallback::PassThrough) };
            let (ticket, flight) = asks(&mut session, NOW, wish);
            let guard = falls_back(&mut session, ticket, flight);
            let mut now = NOW + UNREACHABLE;
            session.handle_event(now, LinkEvent::CallsReset);
            session.parts.look_again(now, "stock");
            for _ in 0..10 {
                now = now + Duration::from_millis(100);
                session.handle_timeout(now);
            }
            assert_eq!(scripts(&mut session), NONE, "renewed: {renewed}");
            assert_eq!(guard.cell.ended(now), None);
        }
    }

    #[test]
    fn try_beside_the_line_does_not_fall_back_to_a_held_lock() {
        let mut session = session();
        let try_it = || AcquireRequest { patience: Patience::Try, ..wish(Kind::Lock, Fallback::Local) };
        let (first, flight) = asks(&mut session, NOW, wish(Kind::Lock, Fallback::Local));
        fails(&mut session, NOW, first, flight);
        let soon = NOW + UNREACHABLE / 2;
        let [second, third] = [(); 2].map(|()| {
            let (ticket, flight) = asks(&mut session, soon, try_it());
            assert!(is_waiting(&fails(&mut session, soon, ticket, flight)), "it makes a pause");
            ticket
        });
        let Step::Send(asked, _) = poll(&mut session, soon + UNREACHABLE / 4, second) else { panic!("it asks again") };
        let now = NOW + UNREACHABLE;
        session.handle_timeout(now);
        assert!(
            matches!(poll(&mut session, now, first), Step::Done(Ok(Some(_)))),
            "it has the lock without the server"
        );
        assert!(is_busy(&fails(&mut session, now, second, asked)), "another task has it");
        assert!(is_busy(&poll(&mut session, now, third)), "it finds the gate shut");
    }

    #[test]
    fn grant_of_what_a_task_has_without_the_server_is_given_back() {
        for patience in [Patience::Try, Patience::Forever] {
            let mut session = session();
            let (first, flight) = asks(&mut session, NOW, wish(Kind::Read, Fallback::Local));
            let (second, asked) =
                asks(&mut session, NOW, AcquireRequest { patience, ..wish(Kind::Write, Fallback::Fail) });
            let guard = falls_back(&mut session, first, flight);
            let now = NOW + UNREACHABLE;
            session.handle_called(now, asked, granted());
            assert!(is_waiting(&poll(&mut session, now, second)), "another task has it");
            let release = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
                Deed::Call { id, call } if call.script().name() == "write/release" => Some(id),
                _ => None,
            });
            session.handle_timeout(now + RESTORE / 2);
            assert_eq!(scripts(&mut session), NONE, "the server may still have the other one");
            session.handle_called(now, release.expect("it is given back"), Ok(Reply::Int(1)));
            let step = poll(&mut session, now, second);
            assert!(if patience == Patience::Try { is_busy(&step) } else { is_waiting(&step) });
            session.handle_timeout(now + RESTORE);
            assert_eq!((scripts(&mut session), guard.cell.ended(now)), (vec!["read/acquire"], None));
        }
    }

    #[test]
    fn request_at_the_gate_enters_what_its_own_owner_has() {
        let mut session = session();
        let owner = Some(session.new_owner());
        let of_owner = |patience| AcquireRequest { owner, patience, ..wish(Kind::Lock, Fallback::Local) };
        let (first, flight) = asks(&mut session, NOW, of_owner(Patience::Forever));
        fails(&mut session, NOW, first, flight);
        let soon = NOW + UNREACHABLE / 2;
        let (second, asked) = asks(&mut session, soon, of_owner(Patience::Try));
        fails(&mut session, soon, second, asked);
        session.handle_timeout(soon);
        let Step::Send(under_way, _) = poll(&mut session, soon, first) else { panic!("it asks again") };
        let now = NOW + UNREACHABLE;
        let Step::Send(asked, _) = poll(&mut session, now, second) else { panic!("it asks again") };
        let Step::Done(Ok(Some(guard))) = fails(&mut session, now, second, asked) else { panic!("it falls back") };
        let Step::Done(Ok(Some(entered))) = fails(&mut session, now, first, under_way) else {
            panic!("it does not wait for its own owner")
        };
        assert_eq!((entered.hold, guard.cell.count()), (guard.hold, 2));
    }

    #[test]
    fn halves_of_one_client_do_not_both_fall_back() {
        for (one, other) in [(Kind::Read, Kind::Write), (Kind::Write, Kind::Read)] {
            let mut session = session();
            let (first, first_flight) = asks(&mut session, NOW, wish(one, Fallback::Local));
            let (second, second_flight) = asks(&mut session, NOW, wish(other, Fallback::Local));
            fails(&mut session, NOW, second, second_flight);
            let guard = falls_back(&mut session, first, first_flight);
            let mut now = NOW + UNREACHABLE;
            for _ in 0..20 {
                session.handle_timeout(now);
                assert!(is_waiting(&poll(&mut session, now, second)), "{other:?} waits for {one:?}");
                now = now + Duration::from_millis(100);
            }
            session.drop_guard(now, guard.hold, guard.renewed);
            assert!(matches!(poll(&mut session, now, second), Step::Send(..)), "its turn has come");
        }
    }
}
