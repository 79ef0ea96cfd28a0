use super::*;

mod lock_line {
    use super::*;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SOON: Instant = Instant::from_nanos(2_000_000_000);
    const LATER: Instant = Instant::from_nanos(3_000_000_000);

    /// A line whose contender is in this phase, and behind which another request waits.
    fn line(phase: Phase) -> (Line, Ticket, Ticket) {
        let (contender, other) = (Ticket::new(1), Ticket::new(2));
        let mut line = Line { contender: Some(contender), phase, ..Line::default() };
        line.queue.push(other, End::Back);
        (line, contender, other)
    }

    const PHASES: [Phase; 7] = [
        Phase::Ready(SOON),
        Phase::Asking,
        Phase::Subscribing,
        Phase::Sleeping(LATER),
        Phase::Pipelining(LATER),
        Phase::BackingOff(LATER),
        Phase::Gated,
    ];

    #[test]
    fn contender_leaving_opens_the_turn_only_where_it_was_its_turn() {
        for phase in PHASES {
            let (mut line, contender, other) = line(phase);
            let was_turn = matches!(phase, Phase::Ready(_) | Phase::Asking);
            assert_eq!(line.leave(NOW, contender), was_turn, "{phase:?}");
            assert!(line.contender.is_none() && line.phase != Phase::Asking, "{phase:?}");
            assert!(line.queue.iter().eq([other]), "{phase:?}");
        }
    }

    #[test]
    fn waiter_leaving_changes_nothing_for_the_contender() {
        for phase in PHASES {
            let (mut line, contender, other) = line(phase);
            assert!(!line.leave(NOW, other) && line.is_contender(contender) && line.phase == phase);
        }
    }

    #[test]
    fn last_waiter_leaving_empties_the_line() {
        let (mut line, contender, other) = line(Phase::Ready(SOON));
        assert!(line.leave(NOW, contender));
        assert_eq!((line.contender, line.len()), (None, 1), "its future is not polled");
        assert_eq!(line.timeout(), None, "an open turn does not lapse");
        assert!(!line.leave(NOW, other) && line.is_empty());
    }

    #[test]
    fn notice_wakes_a_sleeper_and_is_kept_for_an_attempt_under_way() {
        for phase in PHASES {
            let (mut line, ..) = line(phase);
            assert_eq!(line.note_notice(), matches!(phase, Phase::Sleeping(_) | Phase::Pipelining(_)), "{phase:?}");
            line.wait(true, SOON, LATER);
            let asks_again = phase == Phase::Asking;
            assert_eq!(line.phase, if asks_again { Phase::Ready(SOON) } else { Phase::Sleeping(LATER) }, "{phase:?}");
        }
    }

    #[test]
    fn confirmed_subscription_ends_a_wait_and_is_kept_for_an_attempt_under_way() {
        for phase in PHASES {
            let (mut line, ..) = line(phase);
            let waits = matches!(phase, Phase::Subscribing | Phase::Sleeping(_) | Phase::Pipelining(_));
            assert_eq!(line.note_confirmed(), waits, "{phase:?}");
            line.wait(true, SOON, LATER);
            let asks_again = phase == Phase::Asking;
            assert_eq!(line.phase, if asks_again { Phase::Ready(SOON) } else { Phase::Sleeping(LATER) }, "{phase:?}");
        }
    }

    #[test]
    fn attempt_forgets_the_notices_before_it() {
        let (mut line, ..) = line(Phase::Asking);
        assert!(!line.note_notice());
        line.begin_attempt();
        line.wait(true, SOON, LATER);
        assert_eq!(line.phase, Phase::Sleeping(LATER));
    }

    #[test]
    fn missed_notices_shorten_every_rest() {
        for phase in PHASES {
            let (mut line, ..) = line(phase);
            line.note_missed_notices(SOON);
            let expected = match phase {
                Phase::Sleeping(_) => Phase::Sleeping(SOON),
                Phase::Pipelining(_) => Phase::Pipelining(SOON),
                Phase::BackingOff(_) => Phase::BackingOff(SOON),
                other => other,
            };
            assert_eq!(line.phase, expected);
            line.note_missed_notices(SOON + Duration::from_secs(9));
            assert_eq!(line.phase, expected, "none is made longer");
        }
    }

    #[test]
    fn unconfirmed_subscription_is_waited_for_before_anything_else() {
        let (mut line, ..) = line(Phase::Asking);
        assert!(!line.note_notice());
        line.wait(false, SOON, LATER);
        assert_eq!(line.phase, Phase::Subscribing);
    }

    #[test]
    fn sleeper_asks_ahead_and_keeps_the_end_of_its_sleep() {
        for phase in PHASES {
            let (mut line, contender, _) = line(phase);
            let asks = line.pipeline();
            assert_eq!(asks, matches!(phase, Phase::Sleeping(_)), "{phase:?}");
            if asks {
                assert!(
                    line.is_turn_of(contender) && !line.is_ready(),
                    "a turn that nothing was offered for does not lapse"
                );
                assert_eq!(line.timeout(), Some(LATER));
            }
        }
    }

    #[test]
    fn contender_refused_ahead_waits_for_notices_longer() {
        let (mut line, ..) = line(Phase::Sleeping(LATER));
        for asks in [true, false, true, false, false, true] {
            assert_eq!(line.pipeline(), asks);
            if asks {
                line.begin_attempt();
                line.wait(true, SOON, LATER);
            }
        }
    }
}

mod lock_line_pipelining {
    use super::*;

    /// What becomes of so many releases, if the answer to each attempt is this.
    fn attempts(pipelining: &mut Pipelining, releases: u32, granted: bool) -> u32 {
        let mut attempts = 0;
        for _ in 0..releases {
            let asks = pipelining.note_release();
            pipelining.is_attempt = asks;
            attempts += u32::from(asks);
            if granted {
                assert_eq!(pipelining.granted(), asks);
            } else {
                pipelining.refused();
            }
        }
        attempts
    }

    #[test]
    fn asking_in_vain_becomes_rare_and_one_grant_brings_it_back() {
        let mut pipelining = Pipelining::default();
        assert_eq!(attempts(&mut pipelining, 100, true), 100);
        assert_eq!(attempts(&mut pipelining, 7, false), 3, "it leaves out one release, then two, then four");
        attempts(&mut pipelining, 1_000, false);
        assert!(attempts(&mut pipelining, 650, false) <= 10, "one release of 65");
        let (mut again, mut releases) = (0, 0);
        while again == 0 {
            again = attempts(&mut pipelining, 1, true);
            releases += 1;
        }
        assert!(releases <= 65, "it is tried again: {releases}");
        assert_eq!(attempts(&mut pipelining, 100, true), 100);
    }

    #[test]
    fn attempt_in_turn_tells_nothing_of_asking_ahead() {
        let mut pipelining = Pipelining::default();
        pipelining.refused();
        assert!(pipelining.note_release());
        pipelining.is_attempt = true;
        pipelining.refused();
        pipelining.is_attempt = false;
        assert!(!pipelining.granted());
        assert!(!pipelining.note_release(), "the grant was in turn");
    }
}

mod lock_wait_queue {
    use super::*;

    #[test]
    fn a_queue_behaves_as_a_list_without_repetitions() {
        let mut rng = fastrand::Rng::with_seed(1);
        let (mut queue, mut list) = (WaitQueue::default(), Vec::new());
        for _ in 0..10_000 {
            let ticket = Ticket::new(rng.u64(1..13));
            list.retain(|other| *other != ticket);
            match rng.u8(..3) {
                0 => {
                    queue.push(ticket, End::Back);
                    list.push(ticket);
                }
                1 => {
                    queue.push(ticket, End::Front);
                    list.insert(0, ticket);
                }
                _ => queue.remove(ticket),
            }
            assert!(queue.iter().eq(list.iter().copied()), "{queue:?} is not {list:?}");
            assert_eq!((queue.len(), queue.is_empty()), (list.len(), list.is_empty()));
            assert_eq!(queue.positions.len(), list.len(), "nothing is kept of a request that has left");
        }
    }
}

mod line {
    use super::*;
    use crate::command::Kind;
    use crate::link::{LinkError, ServerError};
    use crate::name::LockName;
    use crate::owner::{ClientId, OwnerId};
    use crate::reply::Reply;
    use crate::session::request::Stage;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Patience, Session};
    use crate::settings::Settings;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    /// Asks for a fair lock, and gives the call that takes a place in its queue.
    fn asks(session: &mut Session, owner: Option<OwnerId>) -> (Ticket, CallId) {
        let name = LockName::new("", "stock").expect("a name");
        let request = AcquireRequest { owner, ..AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4)) };
        let ticket = session.acquire(NOW, request);
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("everybody takes a place at once: {step:?}") };
        (ticket, flight)
    }

    fn reply(parts: &[i64]) -> Result<Reply, LinkError> {
        Ok(Reply::Array(parts.iter().copied().map(Reply::Int).collect()))
    }

    /// Every member of a queue waits.
    fn the_queue_has_waiters_only(session: &Session) {
        for (_, state) in session.locks.iter() {
            let waits = |ticket: Ticket| session.requests.waiter(ticket).is_some();
            assert!(state.line.queue.iter().all(waits), "{:?}", state.line);
        }
    }

    #[test]
    fn grant_out_of_turn_leaves_only_waiters_in_the_queue() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let [placed, held] = [&[4, 4_000, 0, 1, 1, 0][..], &[1, 4_000, 0]];
        let (contender, flight) = asks(&mut session, Some(owner));
        session.handle_called(NOW, flight, reply(placed));
        let (granted, flight) = asks(&mut session, Some(owner));
        asks(&mut session, None);
        let (other, of_other) = asks(&mut session, Some(owner));
        session.handle_called(NOW, of_other, reply(placed));
        asks(&mut session, None);
        session.handle_called(NOW, flight, reply(held));
        the_queue_has_waiters_only(&session);
        // Those who were to re-enter wait again.
        let Some(guard) = session.requests[granted].unread().cloned() else { panic!("it is granted") };
        session.drop_guard(NOW, guard.hold, guard.renewed);
        the_queue_has_waiters_only(&session);
        for ticket in [contender, other] {
            let _ = session.step_acquire(NOW, ticket, Waker::noop());
            the_queue_has_waiters_only(&session);
        }
    }

    #[test]
    fn who_is_refused_at_once_never_stood_in_the_line() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let [_, second, _] = [(); 3].map(|()| asks(&mut session, None).0);
        let name = LockName::new("", "stock").expect("a name");
        let request = AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4));
        let refused = session.acquire(NOW, AcquireRequest { patience: Patience::Try, ..request });
        // Its future is dropped before it has read that.
        session.abandon_acquire(NOW, refused);
        the_queue_has_waiters_only(&session);
        session.abandon_acquire(NOW, second);
        the_queue_has_waiters_only(&session);
    }

    #[test]
    fn a_re_entry_that_has_left_the_line_does_not_fail_with_it() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let owner = session.new_owner();
        let [_, waits] = [(); 2].map(|()| asks(&mut session, None).0);
        let (_granted, flight) = asks(&mut session, Some(owner));
        let (entering, _) = asks(&mut session, Some(owner));
        session.handle_called(NOW, flight, reply(&[1, 4_000, 0]));
        let lock = session.requests.acquire(entering).map(|acquire| acquire.lock).expect("it is there");
        assert!(session.requests.acquire(entering).is_some_and(|acquire| acquire.entering().is_some()));
        session.fail_line(NOW, lock, &AcquireError::Refused(ServerError::new("no")));
        assert!(session.requests.acquire(waits).is_some_and(|acquire| acquire.has_ended()));
        assert!(session.requests.acquire(entering).is_some_and(|acquire| !acquire.has_ended()));
    }

    #[test]
    fn call_under_way_when_the_line_fails_is_outcome_unknown() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let (contender, flight) = asks(&mut session, None);
        session.handle_called(NOW, flight, reply(&[4, 4_000, 0, 1, 1, 0]));
        let (waits, _) = asks(&mut session, None);
        let lock = session.requests.acquire(waits).map(|acquire| acquire.lock).expect("it is there");
        session.fail_line(NOW, lock, &AcquireError::Unreachable("no answer".to_owned()));
        let stage = &session.requests[waits].stage;
        assert!(matches!(stage, Stage::Ended(Err(AcquireError::OutcomeUnknown(_)))), "{stage:?}");
        let stage = &session.requests[contender].stage;
        assert!(matches!(stage, Stage::Ended(Err(AcquireError::Unreachable(_)))), "{stage:?}");
    }

    #[test]
    fn a_place_that_was_not_asked_for_is_none_in_the_line() {
        let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
        let (_contender, flight) = asks(&mut session, None);
        let loading = ServerError::new("LOADING the data");
        session.handle_called(NOW, flight, Err(LinkError::Refused(loading)));
        let name = LockName::new("", "stock").expect("a name");
        let request = AcquireRequest::new(name, Kind::Fair, Duration::from_secs(4));
        let ticket = session.acquire(NOW, AcquireRequest { patience: Patience::Try, ..request });
        let mut step = session.step_acquire(NOW, ticket, Waker::noop());
        // It is done after the first. Were it not, the second would be a new one, behind all others.
        for placed in [[4, 4_000, 0, 1, 1, 0]; 2] {
            let Step::Send(flight, _) = step else { break };
            session.handle_called(NOW, flight, reply(&placed));
            the_queue_has_waiters_only(&session);
            step = session.step_acquire(NOW, ticket, Waker::noop());
        }
        // It is told so when the server has given up the place.
        let gives_back = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "fair/release" => Some(id),
            _ => None,
        });
        session.handle_called(NOW, gives_back.expect("a withdrawal"), Ok(Reply::Int(-1)));
        let step = session.step_acquire(NOW, ticket, Waker::noop());
        assert!(matches!(step, Step::Done(Ok(None))), "{step:?}");
    }
}
