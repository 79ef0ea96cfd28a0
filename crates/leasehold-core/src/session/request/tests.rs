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

    #[test]
    fn first_outcome_is_the_one_that_is_told() {
        let mut acquire = acquire(Patience::Forever);
        assert!(acquire.end(Ok(None)) && !acquire.end(Err(AcquireError::Closed)));
        assert!(acquire.has_ended() && !acquire.is_open());
        assert!(matches!(acquire.stage, Stage::Ended(Ok(None))) && acquire.take_granted().is_none());
    }

    fn awaiting(outcome: Option<AcquireOutcome>) -> Stage {
        Stage::Awaiting(Box::new(Awaited { holds: Vec::new(), until: SOON, outcome }))
    }

    #[test]
    fn timer_means_what_the_request_waits_for() {
        type Prepare = fn(&mut Acquire);
        let rows: [(Prepare, Instant, bool); 4] = [
            (|_| {}, LATER, true),
            (|acquire| acquire.retry_at = Some(SOON), SOON, true),
            (|acquire| acquire.stage = awaiting(Some(Ok(None))), SOON, false),
            (|acquire| acquire.stage = awaiting(None), SOON, true),
        ];
        for (prepare, timeout, is_open) in rows {
            let mut acquire = acquire(Patience::Until(LATER));
            prepare(&mut acquire);
            assert_eq!((acquire.timeout(NOW, LATER), acquire.is_open()), (timeout, is_open), "{acquire:?}");
        }
    }

    #[test]
    fn other_half_that_refused_is_not_asked_again() {
        let mut acquire = acquire(Patience::Forever);
        let [first, second] = [Bytes::from_static(b"1"), Bytes::from_static(b"2")];
        assert!(!acquire.refuse_beside(), "it asks beside nothing");
        acquire.stand_beside(Some(first.clone()));
        assert!(acquire.beside() == Some(&first) && acquire.refuse_beside());
        acquire.stand_beside(None);
        assert!(acquire.beside().is_none() && acquire.was_refused_beside(&first) && !acquire.refuse_beside());
        acquire.stand_beside(Some(second.clone()));
        assert!(acquire.beside() == Some(&second) && !acquire.was_refused_beside(&second));
    }
}
