use super::*;

mod release_reply {
    use crate::call::Call;
    use crate::command::Kind;
    use crate::link::{LinkError, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Session};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn release(session: &mut Session) -> Option<(CallId, Call)> {
        std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } => Some((id, call)),
            _ => None,
        })
    }

    #[test]
    fn late_copy_just_before_its_lease_ends_is_taken_back() {
        // With and without a repetition before that.
        for lease in [250, 4_000].map(Duration::from_millis) {
            let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
            let name = LockName::new("", "stock").expect("a name");
            let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, lease));
            let step = session.step_acquire(NOW, ticket, Waker::noop());
            let Step::Send(id, _) = step else { panic!("{step:?}") };
            session.abandon_acquire(NOW, ticket);
            session.handle_called(NOW, id, Err(LinkError::Unknown("the connection was lost".to_owned())));
            let settles = std::iter::from_fn(|| session.poll_deed()).find_map(|action| match action {
                Deed::Settle { id, .. } => Some(id),
                _ => None,
            });
            session.handle_settled(NOW, settles.expect("a settlement"), Ok(Settled::Unproven));
            let (mut now, mut last) = (NOW, None);
            loop {
                while let Some((id, call)) = release(&mut session) {
                    assert_eq!(call.script().name(), "lock/release");
                    // The server has nothing of it yet.
                    session.handle_called(now, id, Ok(Reply::Int(-1)));
                    last = Some(now);
                }
                let Some(next) = session.poll_timeout() else { break };
                now = next;
                session.handle_timeout(now);
            }
            assert!(last >= Some(NOW + lease), "{last:?} is before the end of the lease of {lease:?}");
            assert_eq!(session.stats().cleaning_up, 0, "it ends");
        }
    }
}

mod hold_clean_up {
    //! What is to be done about a hold, in every state of its clean-up.

    use super::*;
    use crate::command::Kind;
    use crate::name::LockName;
    use crate::owner::{ClientId, HoldName, HoldNumber};
    use crate::session::AcquireRequest;
    use crate::session::hold::Change;

    const LEASE: Duration = Duration::from_secs(4);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
    }

    fn change(sent_at: Instant, by: Option<Ticket>, aim: CountChange) -> Box<Change> {
        let (before, resets, is_settling) = (0, 0, false);
        let (replicas, acknowledged) = (None, None);
        Box::new(Change { by, aim, before, resets, sent_at, lease: LEASE, is_settling, replicas, acknowledged })
    }

    /// A hold that was asked for at 0.
    fn asked_for() -> Hold {
        let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
        let request = AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, LEASE);
        let mut hold = Hold::new(at(0), LockId::new(0), Ticket::new(1), name, &request);
        hold.begin_change(change(at(0), Some(Ticket::new(1)), CountChange::RaiseTo(1)));
        hold.extend_clean_up(at(0));
        hold
    }

    /// The same, granted, with one guard.
    fn held() -> Hold {
        let mut hold = asked_for();
        let sent = hold.change.take().expect("it was asked for");
        hold.note_grant(None);
        hold.confirm_grant(at(1), sent.sent_at, LEASE, None);
        hold.raising = None;
        hold.grant(true);
        hold
    }

    #[test]
    fn next_step_follows_the_count_and_what_is_on_its_way() {
        type Prepare = fn(&mut Hold);
        let rows: [(Prepare, NextStep); 6] = [
            (|_| {}, NextStep::GoOn),
            // A caller sends the release by itself.
            (|hold| hold.count.end_guard(true, false), NextStep::Nothing),
            (
                |hold| {
                    hold.count.end_guard(true, false);
                    hold.clean_up.by_background = true;
                },
                NextStep::Lower,
            ),
            // It waits for room.
            (
                |hold| {
                    hold.count.end_guard(true, false);
                    hold.clean_up.by_background = true;
                    hold.clean_up.is_queued = true;
                },
                NextStep::Nothing,
            ),
            (|hold| hold.begin_change(change(at(2), None, CountChange::LowerTo(0))), NextStep::Nothing),
            (
                |hold| {
                    hold.count.end_guard(true, false);
                    hold.count.on_server = 0;
                },
                NextStep::Forget,
            ),
        ];
        for (row, (prepare, expected)) in rows.into_iter().enumerate() {
            let mut hold = held();
            prepare(&mut hold);
            assert_eq!(hold.next_step(at(3)), expected, "row {row}: {hold:?}");
        }
    }

    #[test]
    fn abandoned_hold_is_forgotten_when_its_lease_is_over() {
        let mut hold = held();
        hold.count.end_guard(true, false);
        hold.clean_up.by_background = true;
        assert_eq!(hold.next_step(at(3_999)), NextStep::Lower);
        assert_eq!(hold.next_step(at(4_000)), NextStep::Forget);
        hold.clean_up.until = hold.clean_up.until.max(at(5_000));
        assert_eq!(
            (hold.next_step(at(4_000)), hold.is_abandoned() && hold.has_run_out(at(5_000))),
            (NextStep::Lower, true)
        );
    }

    #[test]
    fn settled_acquire_is_tried_again_and_settled_entry_taken_back() {
        let mut hold = asked_for();
        assert_eq!(hold.note_settled(at(5), true), Some(Ticket::new(1)));
        let mut hold = held();
        let count = hold.begin_entry(Ticket::new(2));
        hold.begin_change(change(at(2), Some(Ticket::new(2)), CountChange::RaiseTo(count)));
        assert_eq!(hold.note_settled(at(5), false), None);
        assert!(hold.is_for_background() && hold.clean_up.is_unproven && hold.waiting().eq([Ticket::new(2)]));
    }

    #[test]
    fn failed_lowering_is_repeated_after_growing_pauses() {
        let mut hold = held();
        hold.count.end_guard(true, false);
        let mut last = at(3);
        let pauses: Vec<Duration> = (0..4)
            .map(|_| {
                hold.note_failed_lowering(last);
                let next = hold.lowering_at().expect("the background lowers it");
                let pause = next.since(last);
                last = next;
                pause
            })
            .collect();
        assert!(pauses.is_sorted() && pauses[0] < pauses[3], "{pauses:?}");
    }

    #[test]
    fn doubted_release_counts_as_done_if_sent_in_time() {
        for (sent_at, in_time) in [(at(2), true), (at(4_500), false)] {
            let mut hold = held();
            hold.count.end_guard(true, false);
            hold.begin_change(change(sent_at, None, CountChange::LowerTo(0)));
            hold.doubt_lowering();
            assert_eq!((hold.was_released_in_time(), hold.clean_up.is_perhaps_lowered), (in_time, true));
        }
    }

    #[test]
    fn release_is_repeated_once_more_when_late_copies_are_over() {
        let mut hold = held();
        hold.count.end_guard(true, false);
        hold.note_lowered(at(3), 0, false);
        hold.expect_late_copies(at(1_000));
        assert!(hold.clean_up.repeats != Repeats::No && !hold.is_given_up());
        assert_eq!(hold.next_step(at(999)), NextStep::Nothing);
        assert_eq!(hold.next_step(at(1_000)), NextStep::Lower);
        assert_eq!(hold.next_step(at(5_000)), NextStep::Lower, "the last repetition is owed");
        assert!(hold.owes_last_repeat(at(5_000)));
        hold.clean_up.repeats = Repeats::Over;
        assert_eq!(hold.next_step(at(5_000)), NextStep::Forget);
    }

    #[test]
    fn copies_are_awaited_for_a_lease_once_nothing_is_left() {
        for (left, ends) in [(0, at(100) + LEASE), (1, at(100) + LEASE * 8)] {
            let mut hold = held();
            hold.clean_up.until = at(100) + LEASE * 8;
            hold.note_lowered(at(100), left, false);
            assert_eq!(hold.clean_up.until, ends, "{left} are left");
        }
    }
}

mod lowerings {
    use super::*;

    fn lock(number: usize) -> LockId {
        LockId::new(number)
    }

    /// The lock of each hold is in its number: the place in the list.
    fn number(index: u64) -> HoldNumber {
        (0..index).fold(HoldNumber::FIRST, |number, _| number.next())
    }

    /// How many are taken before this one is.
    fn before(waiting: &mut ToLower, wanted: HoldNumber) -> usize {
        std::iter::from_fn(|| waiting.pop()).position(|taken| taken == wanted).expect("it is taken")
    }

    #[test]
    fn who_comes_late_does_not_wait_for_all_before() {
        for locks in [1, 1_000] {
            let mut waiting = ToLower::default();
            (0..1_000).for_each(|index| waiting.push(lock(index as usize % locks), number(index)));
            for _ in 0..5 {
                waiting.pop();
            }
            waiting.push(lock(locks), number(1_000));
            assert!(before(&mut waiting, number(1_000)) <= 2, "behind {locks}");
        }
    }

    #[test]
    fn who_came_early_does_not_wait_for_all_behind() {
        let mut waiting = ToLower::default();
        (0..10).for_each(|index| waiting.push(lock(index as usize), number(index)));
        // A new lock comes for each that is taken.
        let mut taken = Vec::new();
        for index in 10..100 {
            taken.extend(waiting.pop());
            waiting.push(lock(index as usize), number(index));
        }
        assert!((0..10).all(|index| taken.contains(&number(index))), "{taken:?}");
    }

    #[test]
    fn locks_take_turns_and_each_keeps_its_order() {
        let mut waiting = ToLower::default();
        (0..100).for_each(|index| waiting.push(lock(7), number(index)));
        (100..103).for_each(|index| waiting.push(lock(index as usize), number(index)));
        (103..106).for_each(|index| waiting.push(lock(103), number(index)));
        let taken: Vec<_> = std::iter::from_fn(|| waiting.pop()).collect();
        assert_eq!(taken.len(), 106);
        let at = |index| taken.iter().position(|taken| *taken == number(index)).expect("it is taken");
        assert!((100..106).all(|index| at(index) < 20), "the small are not behind the great");
        assert!((1..100).all(|index| at(index - 1) < at(index)), "the order of one lock");
    }
}
