use super::*;

mod hold_state {
    use super::*;

    #[test]
    fn place_is_taken_and_left_once() {
        let mut state = HoldState::default();
        assert!(state.take_place() && !state.take_place() && state.is_queued() && !state.is_granted());
        assert!(state.leave_place() && !state.leave_place() && !state.is_queued());
    }

    #[test]
    fn restored_hold_is_still_counted_by_its_client() {
        let states = [HoldState::Held, HoldState::Degraded, HoldState::Restored, HoldState::PassedThrough];
        assert_eq!(states.map(HoldState::is_degraded), [false, true, false, true]);
        assert_eq!(states.map(HoldState::is_counted_by_client), [false, true, true, true]);
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
        count.end_guard(true, false);
        assert!(count.is_high(), "the server has two, and one is wanted");
        assert_eq!(count.begin_change(1), 2);
        assert!(count.is_high(), "the call may be lost");
        count.on_server = 1;
        assert!(!count.is_high());
    }

    #[test]
    fn a_detached_guard_is_wanted_and_renews_nothing() {
        let mut count = held(2);
        count.end_guard(true, true);
        assert_eq!((count.wanted, count.renewing, count.has_guards()), (2, 1, true));
        count.end_guard(true, false);
        assert_eq!((count.wanted, count.renewing, count.has_guards()), (1, 0, false));
    }

    #[test]
    fn renewal_may_tell_of_every_count_the_server_had() {
        let mut count = held(2);
        count.begin_renewal();
        count.begin_change(3);
        count.end_guard(true, false);
        assert_eq!(count.end_renewal(), 1..=3);
        assert!(!count.is_being_renewed());
        // A change after its end is none that it may tell of; one between two that overlap counts for both.
        count.begin_renewal();
        count.begin_renewal();
        count.begin_change(5);
        assert!(count.end_renewal().contains(&5) && count.end_renewal().contains(&5));
        count.begin_renewal();
        count.on_server = 1;
        assert!(count.end_renewal().contains(&5));
        count.begin_renewal();
        assert!(!count.end_renewal().contains(&5));
    }
}

mod hold_deadline {
    use super::*;
    use crate::command::Kind;
    use crate::owner::{ClientId, HoldName, HoldNumber};

    const LEASE: Duration = Duration::from_secs(30);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(1_000_000_000) + Duration::from_millis(millis)
    }

    /// A hold that was granted by a call that was sent at 0 and answered at 10 ms.
    fn granted() -> Hold {
        let name = HoldName::new(ClientId::new(uuid::Uuid::nil()), HoldNumber::FIRST, None);
        let request = AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Lock, LEASE);
        let mut hold = Hold::new(at(0), LockId::new(0), Ticket::new(1), name, &request);
        hold.confirm_grant(at(10), at(0), LEASE, None);
        hold.grant(true);
        hold
    }

    #[test]
    fn deadline_is_reckoned_from_the_send_less_a_margin() {
        assert_eq!(granted().cell.deadline(), at(0) + LEASE - Settings::margin(LEASE));
    }

    #[test]
    fn replies_hold_contradict_or_come_too_late() {
        // When the command was sent, when its reply is read, how many milliseconds were left, and whether the hold lasts and the deadline
        // is contradicted.
        let rows = [
            (10_000, 10_005, 30_000, (true, false)),
            // A slow reply takes nothing away: the deadline stands as long as the rest allows for it.
            (10_000, 14_000, 30_000, (true, false)),
            (10_000, 10_005, 20_000, (true, false)),
            // The server has less than was promised.
            (10_000, 10_005, 5_000, (true, true)),
            (10_000, 14_000, 4_500, (true, true)),
            // By the time that it is read, that has passed, too.
            (10_000, 16_000, 5_000, (false, true)),
            // It was under way together with the grant, and may have been executed before it.
            (5, 20, 5_000, (true, false)),
            (10_000, 29_700, 1, (false, false)),
        ];
        for (sent_at, read_at, left, expected) in rows {
            let mut hold = granted();
            let known = hold.cell.deadline();
            hold.renew_at = Some(Instant::FAR_FUTURE);
            let lasts = hold.observe_reply(at(read_at), at(sent_at), Duration::from_millis(left), false);
            let contradicted = hold.cell.deadline() < known;
            assert_eq!((lasts, contradicted), expected, "sent at {sent_at}, read at {read_at}, {left} left");
            assert_eq!(hold.renew_at == Some(at(read_at)), contradicted, "the next renewal is due at once");
        }
    }

    #[test]
    fn renewal_sent_before_a_contradiction_extends_nothing() {
        let mut hold = granted();
        assert!(hold.observe_reply(at(10_005), at(10_000), Duration::from_secs(5), true));
        let earlier = hold.cell.deadline();
        assert!(earlier < at(0) + LEASE / 2);
        assert!(hold.observe_reply(at(10_006), at(10_001), LEASE, true));
        assert_eq!(hold.cell.deadline(), earlier, "it may have been executed before the clock was stepped");
        assert!(hold.observe_reply(at(10_007), at(10_006), LEASE, true));
        assert!(hold.cell.deadline() > earlier);
    }

    #[test]
    fn a_deadline_that_was_seen_to_pass_is_not_extended() {
        let mut hold = granted();
        assert!(hold.cell.ended(at(40_000)).is_some(), "a guard looks");
        assert!(!hold.observe_reply(at(20_001), at(20_000), LEASE, true));
    }

    #[test]
    fn first_end_counts() {
        let hold = granted();
        let lost = HoldEnd::Lost(LossReason::Removed);
        assert!(hold.cell.end(lost, &mut Vec::new()) && !hold.cell.end(HoldEnd::Released, &mut Vec::new()));
        assert_eq!((hold.end(), hold.is_live()), (Some(lost), false));
    }

    #[test]
    fn grant_disproves_a_hold_whose_last_reply_is_older() {
        let hold = granted();
        assert!(hold.is_disproved_by(at(11)) && !hold.is_disproved_by(at(10)));
    }
}
