mod fair_queue {
    //! The contender of a queue asks behind the release of its own client.

    use crate::command::Kind;
    use crate::link::LinkEvent;
    use crate::name::LockName;
    use crate::owner::{ClientId, HoldNumber};
    use crate::reply::Reply;
    use crate::session::request::AcquireOutcome;
    use crate::session::tests::{Deed, Step};
    use crate::session::{AcquireRequest, CallId, Event, Granted, Session, Ticket};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    const LEASE: Duration = Duration::from_secs(30);
    const ID: ClientId = ClientId::new(uuid::Uuid::nil());

    /// A reply that grants the lock.
    const GRANTED: &[i64] = &[1, 30_000, 0];
    /// One of a waiter that is first in the queue of a held lock, and one of a waiter of a free lock of which another is the head.
    const FIRST: &[i64] = &[4, 30_000, 0, 0, 1, 0];
    const NOT_FIRST: &[i64] = &[4, -1, 0, 0, 0, 0];

    /// A session whose tasks want one fair lock. One has it, two wait.
    struct World {
        session: Session,
        now: Instant,
        holder: Granted,
        waiters: [Ticket; 2],
    }

    impl World {
        fn new() -> Self {
            let now = Instant::from_nanos(1_000_000_000);
            let mut session = Session::new(ID, Settings::default(), 1);
            let mut asks = |reply| {
                let request = AcquireRequest::new(LockName::new("", "stock").expect("a name"), Kind::Fair, LEASE);
                let ticket = session.acquire(now, request);
                let Step::Send(flight, _) = session.step_acquire(now, ticket, Waker::noop()) else {
                    panic!("everybody asks once")
                };
                session.handle_called(now, flight, reply_of(reply));
                let step = session.step_acquire(now, ticket, Waker::noop());
                (ticket, step)
            };
            let (_, Step::Done(Ok(Some(holder)))) = asks(GRANTED) else { panic!("it is granted") };
            let waiters = [(); 2].map(|()| asks(FIRST).0);
            let mut world = Self { session, now, holder, waiters };
            world.confirm();
            let Step::Send(flight, _) = world.poll(waiters[0]) else { panic!("it asks once more when it listens") };
            world.answer(waiters[0], flight, FIRST);
            world
        }

        fn confirm(&mut self) {
            while let Some(action) = self.session.poll_deed() {
                if let Deed::Subscribe { channel } = action {
                    self.session.handle_subscribed(self.now, &channel, Ok(()));
                }
            }
        }

        fn poll(&mut self, ticket: Ticket) -> Step<AcquireOutcome> {
            self.session.step_acquire(self.now, ticket, Waker::noop())
        }

        fn asks(&mut self, ticket: Ticket) -> Option<CallId> {
            match self.poll(ticket) {
                Step::Send(flight, call) => {
                    assert_eq!(call.script().name(), "fair/acquire");
                    Some(flight)
                }
                Step::Wait => None,
                step @ Step::Done(_) => panic!("it is not done: {step:?}"),
            }
        }

        fn answer(&mut self, _ticket: Ticket, flight: CallId, reply: &[i64]) {
            self.session.handle_called(self.now, flight, reply_of(reply));
        }

        fn granted(&mut self, ticket: Ticket, flight: CallId) -> Granted {
            self.answer(ticket, flight, GRANTED);
            let Step::Done(Ok(Some(granted))) = self.poll(ticket) else { panic!("it is granted") };
            granted
        }

        /// Sends a release.
        fn releases(&mut self, hold: HoldNumber) {
            let ticket = self.session.release(self.now, hold, true);
            let step = self.session.step_release(self.now, ticket, Waker::noop());
            assert!(matches!(step, Step::Send(..)), "{step:?}");
        }

        /// The server offers the free lock to a hold of this client.
        fn is_offered_to(&mut self, number: HoldNumber) {
            self.hears_of(&ID.field(number));
        }

        fn hears_of(&mut self, entry: &[u8]) {
            let channel = self.session.locks.iter().find_map(|(_, lock)| lock.channel()).expect("a channel");
            self.session.handle_event(self.now, LinkEvent::of_message(channel, entry));
        }

        fn number_of(&self, ticket: Ticket) -> HoldNumber {
            let acquire = self.session.requests.acquire(ticket).expect("it waits");
            acquire.hold.expect("it has a place")
        }

        fn pass(&mut self, time: Duration) -> Vec<Event> {
            self.now = self.now + time;
            self.session.handle_timeout(self.now);
            std::iter::from_fn(|| self.session.poll_event()).collect()
        }
    }

    fn reply_of(parts: &[i64]) -> Result<Reply, crate::link::LinkError> {
        Ok(Reply::Array(parts.iter().copied().map(Reply::Int).collect()))
    }

    #[test]
    fn contender_asks_behind_the_release_of_its_own_client() {
        let mut world = World::new();
        let [first, second] = world.waiters;
        assert_eq!(world.asks(first), None, "the lock is held");
        let number = world.number_of(first);
        world.releases(world.holder.hold);
        assert_eq!(world.asks(second), None, "it is not its turn");
        let flight = world.asks(first).expect("it asks before the notice comes");
        let granted = world.granted(first, flight);
        // The notice of the release comes after the grant: it offers what is taken.
        world.is_offered_to(number);
        assert_eq!(world.asks(second), None, "the notice tells it nothing");
        let next = world.number_of(second);
        world.is_offered_to(next);
        assert!(world.asks(second).is_some(), "an operator has released the lock");
        assert_eq!((granted.hold, world.session.granted_ahead()), (number, 1));
    }

    #[test]
    fn turn_that_nothing_was_offered_for_does_not_lapse() {
        let mut world = World::new();
        let [first, second] = world.waiters;
        let number = world.number_of(first);
        world.releases(world.holder.hold);
        // Its future is not polled for long, and the notice has not come.
        let told = world.pass(Settings::default().fair.offer_timeout);
        assert!(!told.iter().any(|event| matches!(event, Event::UnpolledTurn { .. })), "{told:?}");
        assert_eq!(world.number_of(first), number, "it keeps its place");
        // From the notice on its time counts as it always does.
        world.is_offered_to(number);
        let told = world.pass(Settings::default().fair.offer_timeout);
        assert!(told.iter().any(|event| matches!(event, Event::UnpolledTurn { .. })), "{told:?}");
        assert!(world.asks(second).is_some(), "the next one has its turn");
    }

    #[test]
    fn asking_ahead_is_left_out_where_others_are_next() {
        let mut world = World::new();
        let [first, second] = world.waiters;
        world.releases(world.holder.hold);
        let flight = world.asks(first).expect("it asks ahead");
        world.answer(first, flight, NOT_FIRST);
        assert_eq!(world.asks(first), None, "another client is next");
        let number = world.number_of(first);
        world.is_offered_to(number);
        let flight = world.asks(first).expect("it is its turn now");
        let granted = world.granted(first, flight);
        world.releases(granted.hold);
        assert_eq!(world.asks(second), None, "it waits for the notice of this release");
    }

    #[test]
    fn release_by_the_background_is_not_asked_behind() {
        let mut world = World::new();
        let [first, _] = world.waiters;
        let hold = world.holder.hold;
        world.session.drop_guard(world.now, hold, true);
        assert_eq!(world.asks(first), None, "two connections have no order");
    }

    #[test]
    fn task_that_an_offer_names_asks_and_not_the_first_one() {
        let mut world = World::new();
        let [first, second] = world.waiters;
        // The server has the places in another order than the client.
        let number = world.number_of(second);
        world.is_offered_to(number);
        assert_eq!(world.asks(first), None, "it would ask in vain");
        let flight = world.asks(second).expect("it is its turn");
        assert_eq!(world.granted(second, flight).hold, number);
    }

    #[test]
    fn offer_to_an_entry_that_is_not_known_has_the_contender_ask() {
        let other = ClientId::new(uuid::Uuid::max());
        let unknown = (0..999).fold(HoldNumber::FIRST, |number, _| number.next());
        for entry in [ID.field(unknown), other.field(HoldNumber::FIRST), b"no entry".to_vec().into()] {
            let mut world = World::new();
            let [first, _] = world.waiters;
            assert_eq!(world.asks(first), None, "the lock is held");
            world.hears_of(&entry);
            assert!(world.asks(first).is_some(), "{entry:?}: the lock may be free");
        }
    }

    #[test]
    fn offer_to_an_entry_that_asks_has_it_ask_once_more() {
        let mut world = World::new();
        let [first, _] = world.waiters;
        let number = world.number_of(first);
        world.is_offered_to(number);
        let flight = world.asks(first).expect("it is its turn");
        // Another holder acquired and released the lock in between: the second notice overtakes the reply.
        world.is_offered_to(number);
        world.answer(first, flight, FIRST);
        assert!(world.asks(first).is_some(), "the reply is older than the notice");
    }
}
