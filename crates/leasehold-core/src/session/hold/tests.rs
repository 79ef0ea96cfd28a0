use super::*;

mod hold_state {
    use super::*;
    use crate::error::LossReason;

    const LOST: HoldEnd = HoldEnd::Lost(LossReason::Removed);

    #[test]
    fn place_is_taken_and_left_once() {
        let mut state = HoldState::default();
        assert!(state.take_place() && !state.take_place() && state.is_queued() && !state.is_granted());
        assert!(state.leave_place() && !state.leave_place() && !state.is_queued());
    }

    #[test]
    fn first_end_counts_and_keeps_who_counted() {
        for by in [CountedBy::Server, CountedBy::Restored, CountedBy::ClientAlone, CountedBy::PassedThrough] {
            let mut state = HoldState::Queued;
            state.grant(by);
            let degraded = matches!(by, CountedBy::ClientAlone | CountedBy::PassedThrough);
            let by_client = by != CountedBy::Server;
            assert_eq!(state == HoldState::Held(CountedBy::ClientAlone), by == CountedBy::ClientAlone);
            assert_eq!((state.is_degraded(), state.is_counted_by_client()), (degraded, by_client));
            assert_eq!(state.end(), None);
            assert!(state.finish(LOST) && !state.finish(HoldEnd::Released));
            assert_eq!((state.is_granted(), state.end()), (true, Some(LOST)));
            assert_eq!((state.is_degraded(), state.is_counted_by_client()), (degraded, by_client));
        }
    }

    #[test]
    fn restored_hold_is_still_counted_by_its_client() {
        let mut state = HoldState::default();
        state.grant(CountedBy::ClientAlone);
        state.restore();
        assert!(!state.is_degraded() && state.is_counted_by_client());
    }
}

mod hold_count {
    use super::*;

    /// A hold with this many guards, all of which the server has.
    fn held(guards: u32) -> Count {
        let mut count = Count::default();
        for guard in 1..=guards {
            count.begin_change(guard);
            count.add_guard(true);
        }
        count
    }

    #[test]
    fn count_on_server_stays_high_until_a_lower_one_is_known() {
        let mut count = held(2);
        assert!(!count.is_high() && count.has_guards() && count.is_renewed());
        count.remove_guard(true);
        assert!(count.is_high(), "the server has two, and one is wanted");
        assert_eq!(count.begin_change(1), 2);
        assert!(count.is_high(), "the call may be lost");
        count.on_server = 1;
        assert!(!count.is_high());
    }

    #[test]
    fn a_detached_guard_is_wanted_and_renews_nothing() {
        let mut count = held(2);
        count.detach_guard(true);
        assert_eq!((count.wanted, count.renewing, count.has_guards()), (2, 1, true));
        count.remove_guard(true);
        assert_eq!((count.wanted, count.renewing, count.has_guards()), (1, 0, false));
    }

    #[test]
    fn renewal_may_tell_of_every_count_the_server_had() {
        let mut count = held(2);
        count.begin_renewal();
        count.begin_change(3);
        count.remove_guard(true);
        let range = count.end_renewal().expect("it was under way");
        assert!((1..=3).all(|told| range.has(told)) && !range.has(0) && !range.has(4), "{range:?}");
        assert_eq!(count.end_renewal(), None, "none is under way any more");
        // A change after its end is none that it may tell of; one between two that overlap counts for both.
        count.begin_renewal();
        count.begin_renewal();
        count.begin_change(5);
        let both = [count.end_renewal(), count.end_renewal()];
        assert!(both.iter().flatten().all(|range| range.has(5)) && both.iter().flatten().count() == 2);
        count.begin_renewal();
        count.on_server = 1;
        assert!(count.end_renewal().is_some_and(|range| range.has(5)));
        count.begin_renewal();
        assert!(count.end_renewal().is_some_and(|range| !range.has(5)));
    }
}

mod hold_deadline {
    use super::*;
    use crate::owner::{ClientId, HoldName, HoldNumber};

    const LEASE: Duration = Duration::from_secs(30);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
    }

    /// A hold that was granted by a call that was sent at 0 and answered at 10 ms.
    fn granted() -> (Deadline, HoldCell) {
        let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
        let cell = HoldCell::new(name, 1, at(0), Instant::FAR_FUTURE);
        let mut deadline = Deadline::until(Instant::FAR_FUTURE);
        assert!(deadline.extend(&cell, at(0), LEASE));
        deadline.last_reply_at = at(10);
        (deadline, cell)
    }

    #[test]
    fn deadline_is_reckoned_from_the_send_less_a_margin() {
        let (_, cell) = granted();
        assert_eq!(cell.deadline(), at(0) + LEASE - Settings::margin(LEASE));
    }

    #[test]
    fn replies_hold_contradict_or_come_too_late() {
        // When the command was sent, when its reply is read, how many milliseconds were left, and what that means.
        let rows = [
            (10_000, 10_005, 30_000, Observed::Holds),
            // A slow reply takes nothing away: the deadline stands as long as the rest allows for it.
            (10_000, 14_000, 30_000, Observed::Holds),
            (10_000, 10_005, 20_000, Observed::Holds),
            // The server has less than was promised.
            (10_000, 10_005, 5_000, Observed::Contradicted),
            (10_000, 14_000, 4_500, Observed::Contradicted),
            // By the time that it is read, that has passed, too.
            (10_000, 16_000, 5_000, Observed::Passed),
            // It was under way together with the grant, and may have been executed before it.
            (5, 20, 5_000, Observed::Holds),
            (10_000, 29_700, 1, Observed::Passed),
        ];
        for (sent_at, read_at, left, expected) in rows {
            let (mut deadline, cell) = granted();
            let observed = deadline.observe_reply(&cell, at(read_at), at(sent_at), Duration::from_millis(left));
            assert_eq!(observed, expected, "sent at {sent_at}, read at {read_at}, {left} left");
        }
    }

    #[test]
    fn renewal_sent_before_a_contradiction_extends_nothing() {
        let (mut deadline, cell) = granted();
        let observed = deadline.observe_reply(&cell, at(10_005), at(10_000), Duration::from_secs(5));
        assert_eq!(observed, Observed::Contradicted);
        let earlier = cell.deadline();
        assert!(deadline.extend(&cell, at(10_001), LEASE));
        assert_eq!(cell.deadline(), earlier, "it may have been executed before the clock was stepped");
        assert!(deadline.extend(&cell, at(10_006), LEASE));
        assert!(cell.deadline() > earlier);
    }

    #[test]
    fn a_deadline_that_was_seen_to_pass_is_not_extended() {
        let (deadline, cell) = granted();
        assert!(cell.ended(at(40_000)).is_some(), "a guard looks");
        assert!(!deadline.extend(&cell, at(20_000), LEASE));
    }

    #[test]
    fn a_command_is_newer_than_the_last_reply_or_not() {
        let (deadline, _) = granted();
        assert!(deadline.is_older_than(at(11)) && !deadline.is_older_than(at(10)));
    }
}
