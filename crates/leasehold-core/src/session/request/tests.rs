use super::*;

mod request_acquire_ending {
    use super::*;
    use crate::command::Kind;
    use crate::error::AcquireError;
    use crate::name::LockName;
    use crate::session::AcquireRequest;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);
    const SOON: Instant = Instant::from_nanos(2_000_000_000);
    const LATER: Instant = Instant::from_nanos(3_000_000_000);

    fn acquire(patience: Patience) -> Acquire {
        let name = LockName::new("", "stock").expect("a name");
        let request = AcquireRequest { patience, ..AcquireRequest::new(name, Kind::Lock, Duration::from_secs(4)) };
        Acquire::new(NOW, LockId::new(0), Box::new(request))
    }

    fn holds() -> [HoldNumber; 2] {
        let first = HoldNumber::FIRST;
        [first, first.next()]
    }

    #[test]
    fn first_outcome_is_the_one_that_is_told() {
        let mut acquire = acquire(Patience::Forever);
        assert!(acquire.end(Ok(None)) && !acquire.end(Err(AcquireError::Closed)));
        assert!(acquire.has_ended() && !acquire.is_open());
        assert!(matches!(acquire.take_outcome(), Some(Ok(None))) && acquire.take_outcome().is_none());
    }

    #[test]
    fn caller_is_told_when_the_last_hold_is_taken_back() {
        let mut acquire = acquire(Patience::Forever);
        let [one, other] = holds();
        acquire.withdraw(Err(AcquireError::WaitElapsed), vec![one, other], SOON);
        assert!(acquire.rests() && !acquire.has_ended() && acquire.note_withdrawn(one).is_none());
        assert!(acquire.note_withdrawn(one).is_none(), "the other one is still there");
        assert!(matches!(acquire.note_withdrawn(other), Some(Err(AcquireError::WaitElapsed))));
        assert!(acquire.stop_withdrawing().is_none() && acquire.take_outcome().is_none());
    }

    #[test]
    fn request_asks_once_more_when_awaited_holds_are_gone() {
        let mut acquire = acquire(Patience::Try);
        let [one, other] = holds();
        acquire.last_retry = LastRetry::Overlapping;
        assert!(acquire.may_await_cleanup());
        acquire.await_cleanup(vec![one, other], SOON);
        assert!(acquire.rests() && acquire.is_final_attempt);
        assert!(!acquire.note_cleaned_up(one) && acquire.note_cleaned_up(other));
        acquire.last_retry = LastRetry::Done;
        assert!(!acquire.rests() && !acquire.may_await_cleanup(), "it asks once more, and once only");
    }

    #[test]
    fn timer_means_what_the_request_waits_for() {
        type Prepare = fn(&mut Acquire);
        let rows: [(Prepare, Instant, Due, Due); 4] = [
            (|_| {}, LATER, Due::Patience, Due::Patience),
            (|acquire| acquire.retry_at = Some(SOON), SOON, Due::Patience, Due::Patience),
            (|acquire| acquire.withdraw(Ok(None), vec![], SOON), SOON, Due::Later, Due::WithdrawalTooSlow),
            (|acquire| acquire.await_cleanup(vec![], SOON), SOON, Due::Later, Due::CleanUpTooSlow),
        ];
        for (prepare, timeout, before, at) in rows {
            let mut acquire = acquire(Patience::Until(LATER));
            prepare(&mut acquire);
            assert_eq!(acquire.timeout(NOW, LATER), timeout, "{acquire:?}");
            assert_eq!((acquire.due(NOW), acquire.due(SOON)), (before, at), "{acquire:?}");
            acquire.end(Ok(None));
            assert_eq!(acquire.due(SOON), Due::Nothing);
        }
    }
}
