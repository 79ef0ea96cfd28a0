mod loss {
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
