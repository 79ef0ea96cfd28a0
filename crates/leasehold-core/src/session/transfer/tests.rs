use super::*;
use crate::error::ReleaseError;
use crate::owner::ClientId;
use crate::reply::Reply;
use crate::session::request::AcquireOutcome;
use crate::session::tests::{Deed, Step};
use crate::session::{AcquireRequest, CallId, Granted};
use crate::settings::Settings;

mod linger;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const LEASE: Duration = Duration::from_secs(30);
const MS: Duration = Duration::from_millis(1);

/// A session whose tasks share one lock.
struct World {
    session: Session,
    now: Instant,
}

impl World {
    fn with(settings: Settings) -> Self {
        Self { session: Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1), now: NOW }
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.session.handle_timeout(self.now);
    }

    fn poll(&mut self, ticket: Ticket) -> Step<AcquireOutcome> {
        self.session.step_acquire(self.now, ticket, Waker::noop())
    }

    /// Begins to acquire, and polls once.
    fn begin(&mut self, request: AcquireRequest) -> (Ticket, Step<AcquireOutcome>) {
        let ticket = self.session.acquire(self.now, request);
        let step = self.poll(ticket);
        (ticket, step)
    }

    fn reply(&mut self, (_ticket, flight): (Ticket, CallId), reply: [i64; 3]) {
        let reply = Reply::Array(reply.map(Reply::Int).to_vec());
        self.session.handle_called(self.now, flight, Ok(reply));
    }

    /// Acquires, and is granted the lock by the server.
    fn holds(&mut self, request: AcquireRequest) -> Granted {
        let left = i64::try_from(request.lease.as_millis()).expect("a lease");
        let (ticket, step) = self.begin(request);
        let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
        self.reply((ticket, flight), [1, left, 0]);
        self.read(ticket)
    }

    fn confirm(&mut self) {
        while let Some(action) = self.session.poll_deed() {
            match action {
                Deed::Subscribe { channel } => self.session.handle_subscribed(self.now, &channel, Ok(())),
                Deed::Unsubscribe { channel } => self.session.handle_unsubscribed(self.now, &channel, Ok(())),
                _ => {}
            }
        }
    }

    fn read(&mut self, ticket: Ticket) -> Granted {
        match self.poll(ticket) {
            Step::Done(Ok(Some(granted))) => granted,
            step => panic!("it is granted: {step:?}"),
        }
    }

    /// Releases a guard. Says whether the server is told, and how it ended if it is not.
    fn releases(&mut self, guard: &Granted) -> Option<Result<(), ReleaseError>> {
        let ticket = self.session.release(self.now, guard.hold, guard.renewed);
        match self.session.step_release(self.now, ticket, Waker::noop()) {
            Step::Done(outcome) => Some(outcome),
            Step::Send(..) | Step::Wait => None,
        }
    }
}

mod hand_over {
    //! The rules of handing a hold on, each by itself.

    use super::*;
    use crate::call::Replicas;
    use crate::command::Kind;
    use crate::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
    use crate::link::LinkEvent;
    use crate::name::LockName;
    use crate::session::{Fallback, Patience};
    use crate::settings::{HandOver, Settings};

    pub(super) const LIMITS: HandOver = HandOver { most: 2, within: Duration::from_secs(25) };

    impl World {
        pub(super) fn new(hand_over: Option<HandOver>) -> Self {
            Self::with(Settings { hand_over, ..Settings::default() })
        }

        /// Waits in the line. The first waiter listens, as the server has confirmed.
        pub(super) fn waits(&mut self, request: AcquireRequest) -> Ticket {
            let (ticket, step) = self.begin(request);
            if let Step::Send(flight, _) = step {
                self.reply((ticket, flight), [0, 30_000, 0]);
                assert!(matches!(self.poll(ticket), Step::Wait));
            }
            ticket
        }

        /// The server confirms all subscriptions; the contender asks, and finds the lock busy.
        pub(super) fn listens(&mut self, contender: Ticket) {
            self.confirm();
            let Step::Send(flight, _) = self.poll(contender) else { panic!("it asks once more") };
            self.reply((contender, flight), [0, 30_000, 0]);
            assert!(matches!(self.poll(contender), Step::Wait));
        }

        /// A notice of a release comes.
        pub(super) fn is_told(&mut self) {
            self.session.handle_event(self.now, LinkEvent::Notice { channel: request().name.channel() });
        }

        fn contender_asks(&mut self) {
            let contender = self.session.locks.iter().find_map(|(_, lock)| lock.line.contender);
            self.is_told();
            assert!(matches!(self.poll(contender.expect("one contends")), Step::Send(..)));
        }

        fn out_of_reach(&mut self) {
            let (server, why) = ("one".to_owned(), "refused".to_owned());
            self.session.handle_event(self.now, LinkEvent::OutOfReach { server, why, lost_for: MS, slots: None });
        }

        pub(super) fn limit(&mut self, within: Option<Duration>) {
            self.session.settings.hand_over = within.map(|within| HandOver { within, ..LIMITS });
        }

        fn calls(&mut self) -> Vec<&'static str> {
            let actions = std::iter::from_fn(|| self.session.poll_deed());
            let calls = actions.filter_map(|action| match action {
                Deed::Call { call, .. } => Some(call.script().name()),
                _ => None,
            });
            calls.collect()
        }

        pub(super) fn phase(&self) -> Phase {
            let mut locks = self.session.locks.iter();
            locks.next().map(|(_, lock)| lock.line.phase).expect("a lock")
        }
    }

    fn of(kind: Kind) -> AcquireRequest {
        AcquireRequest::new(LockName::new("", "stock").expect("a name"), kind, LEASE)
    }

    pub(super) fn request() -> AcquireRequest {
        of(Kind::Lock)
    }

    #[test]
    fn hold_goes_on_without_a_word_to_the_server() {
        let mut world = World::new(Some(LIMITS));
        let first = world.holds(request());
        let second = world.waits(AcquireRequest { max_hold: Some(LEASE * 2), ..request() });
        world.listens(second);
        world.pass(MS);
        let deadline = first.cell.deadline();
        assert_eq!((world.releases(&first), world.calls().len()), (Some(Ok(())), 0));
        assert_eq!(first.cell.ended(world.now), Some(HoldEnd::Released));
        let next = world.read(second);
        assert!(next.handed_on && !first.handed_on && next.renewed && next.count == 1 && next.cell.count() == 1);
        assert_eq!((next.cell.field(), next.cell.deadline()), (first.cell.field(), deadline));
        assert_eq!((next.cell.acquired_at(), next.cell.ended(world.now)), (world.now, None));
        assert_eq!(world.session.hand_overs(), 1);
        // It is renewed, and lost, like any other.
        world.pass(LEASE / 3);
        assert_eq!(world.calls(), ["lock/renew"]);
        world.pass(LEASE);
        assert_eq!(next.cell.ended(world.now), Some(HoldEnd::Lost(LossReason::NotRenewed)));
    }

    #[test]
    fn hold_number_of_the_last_guard_names_nothing_any_more() {
        let mut world = World::new(Some(LIMITS));
        let first = world.holds(request());
        let second = world.waits(request());
        world.listens(second);
        world.releases(&first);
        let next = world.read(second);
        assert_ne!(next.hold, first.hold);
        world.session.drop_guard(world.now, first.hold, true);
        world.session.detach(world.now, first.hold, true);
        assert_eq!(world.releases(&first), Some(Err(ReleaseError::Lost(LossReason::ShutDown))));
        // A re-entry by the old guard is a request like any other, for a hold of its own.
        let (late, step) = world.begin(AcquireRequest { reenter: Some(first.hold), ..request() });
        let Step::Send(flight, call) = step else { panic!("it asks: {step:?}") };
        assert!(call.args()[0] != first.cell.field() && &call.args()[1][..] == b"1");
        world.reply((late, flight), [0, 30_000, 0]);
        assert!(matches!(world.poll(late), Step::Wait));
        assert_eq!((next.cell.ended(world.now), next.cell.count()), (None, 1));
        world.releases(&next);
        assert_eq!(world.read(late).cell.field(), first.cell.field());
    }

    #[test]
    fn dropped_guards_and_dropped_futures_hand_on_in_order() {
        let mut world = World::new(Some(LIMITS));
        let first = world.holds(request());
        let waiters = [(); 3].map(|()| world.waits(request()));
        world.listens(waiters[0]);
        world.session.drop_guard(world.now, first.hold, first.renewed);
        world.session.abandon_acquire(world.now, waiters[0]);
        assert!(world.read(waiters[1]).handed_on && matches!(world.poll(waiters[2]), Step::Wait));
        assert_eq!((world.calls().len(), world.session.hand_overs()), (0, 2));
    }

    /// An obstacle to handing a hold on: its name, a change of the holder's request and of the waiter's, and an event before the release.
    type Row = (&'static str, fn(&mut AcquireRequest), fn(&mut AcquireRequest), fn(&mut World));

    const ROWS: &[Row] = &[
        ("a fixed lease is held", |held| held.renewed = false, |_| (), |_| ()),
        ("a fixed lease is wished for", |_| (), |request| request.renewed = false, |_| ()),
        ("another lease is wished for", |_| (), |request| request.lease = LEASE / 2, |_| ()),
        ("a shorter time to be held", |_| (), |request| request.max_hold = Some(LEASE - MS), |_| ()),
        (
            "replicas are wished for",
            |_| (),
            |request| request.replicas = Some(Replicas { at_least: 1, within: MS }),
            |_| (),
        ),
        ("a name is wished for", |_| (), |request| request.field = Some(Box::new(Bytes::from_static(b"mine"))), |_| ()),
        ("the lock is local", |_| (), |request| request.fallback = Fallback::Local, |_| ()),
        ("the lease is old", |_| (), |_| (), |world| world.now = world.now + LEASE * 2 / 3),
        ("a renewal is on its way", |_| (), |_| (), |world| world.pass(LEASE / 3)),
        ("a renewal is due", |_| (), |_| (), |world| world.session.look_again(world.now, "stock")),
        ("the contender asks", |_| (), |_| (), World::contender_asks),
        ("the server is out of reach", |_| (), |_| (), World::out_of_reach),
        ("it was held for long enough", |_| (), |_| (), |world| world.limit(Some(Duration::ZERO))),
        ("it is off", |_| (), |_| (), |world| world.limit(None)),
    ];

    #[test]
    fn whatever_stands_in_the_way_leads_to_a_release() {
        for (what, held, wished, before) in ROWS {
            let mut world = World::new(Some(LIMITS));
            let mut requests = [request(), request()];
            held(&mut requests[0]);
            wished(&mut requests[1]);
            let [held, wished] = requests;
            let guard = world.holds(held);
            let waiter = world.waits(wished);
            if world.phase() == Phase::Subscribing {
                world.listens(waiter);
            }
            before(&mut world);
            assert_eq!((world.releases(&guard), world.session.hand_overs()), (None, 0), "{what}");
            assert!(!matches!(world.phase(), Phase::BackingOff(_)), "{what}: others have no head start to be given");
        }
    }

    #[test]
    fn only_the_reentrant_lock_is_handed_on() {
        for kind in Kind::ALL {
            assert_eq!(kind.protocol().may_be_handed_on(), kind == Kind::Lock, "{kind:?}");
        }
        let mut world = World::new(Some(LIMITS));
        let guard = world.holds(of(Kind::Spin));
        world.waits(of(Kind::Spin));
        assert_eq!((world.releases(&guard), world.session.hand_overs()), (None, 0));
    }

    #[test]
    fn hold_with_a_second_guard_is_kept() {
        let mut world = World::new(Some(LIMITS));
        let owner = Some(world.session.new_owner());
        let first = world.holds(AcquireRequest { owner, ..request() });
        let second = world.waits(request());
        world.listens(second);
        let entry = world.holds(AcquireRequest { owner, ..request() });
        assert_eq!(entry.hold, first.hold);
        assert_eq!((world.releases(&entry), world.session.hand_overs()), (None, 0));
        assert!(matches!(world.poll(second), Step::Wait) && first.cell.ended(world.now).is_none());
    }

    #[test]
    fn grant_that_is_not_read_in_time_goes_on() {
        let mut world = World::new(Some(LIMITS));
        let guard = world.holds(request());
        let [unpolled, next, last] = [(); 3].map(|()| world.waits(request()));
        world.listens(unpolled);
        world.releases(&guard);
        world.pass(world.session.settings().turn);
        assert!(world.read(next).handed_on && world.session.hand_overs() == 2);
        assert!(matches!(world.poll(unpolled), Step::Wait), "it waits again");
        assert!(matches!(world.poll(last), Step::Wait));
        // It is the first of those who are polled.
        let queue: Vec<Ticket> = world.session.locks.iter().flat_map(|(_, lock)| lock.line.members()).collect();
        assert_eq!(queue, [last, unpolled]);
        // A grant that none but the unpolled waiter wants is released.
        let mut world = World::new(Some(LIMITS));
        let guard = world.holds(request());
        let unpolled = world.waits(request());
        world.listens(unpolled);
        world.releases(&guard);
        world.pass(world.session.settings().turn);
        assert_eq!(world.calls(), ["lock/release"]);
        assert!(matches!(world.poll(unpolled), Step::Send(..)), "it asks when it is polled");
    }

    #[test]
    fn patience_that_ends_before_the_grant_is_read_ends_the_wait() {
        for (patience, busy) in [(Patience::Until(NOW + MS * 20), true), (Patience::Until(NOW + LEASE), false)] {
            let mut world = World::new(Some(LIMITS));
            let guard = world.holds(request());
            let unpolled = world.waits(AcquireRequest { patience, ..request() });
            world.listens(unpolled);
            world.releases(&guard);
            world.pass(world.session.settings().turn);
            let step = world.poll(unpolled);
            assert_eq!(matches!(step, Step::Done(Err(AcquireError::WaitElapsed))), busy, "{step:?}");
        }
    }

    #[test]
    fn hold_that_ends_before_it_is_read_is_none() {
        for closes in [false, true] {
            let mut world = World::new(Some(LIMITS));
            let guard = world.holds(request());
            let second = world.waits(request());
            world.listens(second);
            world.releases(&guard);
            if closes {
                world.session.close(world.now);
            } else {
                world.now = world.now + LEASE;
            }
            let step = world.poll(second);
            let closed = matches!(step, Step::Done(Err(AcquireError::Closed)));
            assert_eq!((closed, matches!(step, Step::Send(..))), (closes, !closes), "{step:?}");
        }
    }

    #[test]
    fn owner_of_the_next_guard_enters_and_that_of_the_last_waits() {
        let mut world = World::new(Some(LIMITS));
        let [one, other] = [(); 2].map(|()| Some(world.session.new_owner()));
        let first = world.holds(AcquireRequest { owner: one, ..request() });
        let second = world.waits(AcquireRequest { owner: other, ..request() });
        world.listens(second);
        let entry = world.waits(AcquireRequest { owner: other, ..request() });
        world.releases(&first);
        let (late, step) = world.begin(AcquireRequest { owner: one, ..request() });
        assert!(matches!(step, Step::Wait), "another owner has it: {step:?}");
        let Step::Send(flight, call) = world.poll(entry) else { panic!("it enters what its owner has") };
        assert_eq!((&call.args()[0], &call.args()[1]), (&first.cell.field()[..], b"2".as_slice()));
        world.reply((entry, flight), [1, 30_000, 0]);
        let (next, entered) = (world.read(second), world.read(entry));
        assert_eq!((next.hold, next.cell.count(), entered.handed_on), (entered.hold, 2, false));
        assert!(matches!(world.poll(late), Step::Wait));
    }

    #[test]
    fn grant_not_read_is_entered_by_its_owner_later() {
        let mut world = World::new(Some(LIMITS));
        let owner = Some(world.session.new_owner());
        let first = world.holds(request());
        let unpolled = world.waits(AcquireRequest { owner, ..request() });
        world.listens(unpolled);
        let entry = world.waits(AcquireRequest { owner, ..request() });
        world.releases(&first);
        let Step::Send(flight, _) = world.poll(entry) else { panic!("it enters what its owner has") };
        world.reply((entry, flight), [1, 30_000, 0]);
        let entered = world.read(entry);
        world.pass(world.session.settings().turn);
        assert_eq!((world.calls(), entered.cell.ended(world.now)), (vec!["lock/release"], None));
        let number = world.session.requests.acquire(unpolled).and_then(|acquire| acquire.entering());
        assert_eq!(number, Some(entered.hold), "it does not wait for its own owner");
    }

    #[test]
    fn first_waiter_of_a_held_lock_asks_once_it_listens() {
        let mut world = World::new(Some(LIMITS));
        world.holds(request());
        let (second, step) = world.begin(request());
        assert!(matches!(step, Step::Wait), "the lock is busy: {step:?}");
        world.confirm();
        assert!(matches!(world.poll(second), Step::Send(..)), "a release may have been missed");
        // A try is told by the server.
        let mut world = World::new(Some(LIMITS));
        world.holds(request());
        let (_, step) = world.begin(AcquireRequest { patience: Patience::Try, ..request() });
        assert!(matches!(step, Step::Send(..)), "{step:?}");
    }

    #[test]
    fn request_whose_grant_ended_unread_stands_right_behind_the_contender() {
        let mut world = World::new(Some(LIMITS));
        let guard = world.holds(request());
        let [unread, contender, last] = [(); 3].map(|()| world.waits(request()));
        world.listens(unread);
        world.releases(&guard);
        world.now = world.now + LEASE;
        assert!(matches!(world.poll(unread), Step::Wait), "another one contends by now");
        let queue: Vec<Ticket> = world.session.locks.iter().flat_map(|(_, lock)| lock.line.members()).collect();
        assert_eq!(queue, [contender, unread, last]);
    }

    #[test]
    fn notice_of_an_own_release_wakes_the_next_before_the_reply() {
        let mut world = World::new(None);
        let guard = world.holds(request());
        let waiter = world.waits(request());
        world.listens(waiter);
        assert_eq!(world.releases(&guard), None, "the server gets the release");
        world.is_told();
        assert!(matches!(world.poll(waiter), Step::Send(..)), "the waiter asks before the reply to the release");
    }

    #[test]
    fn late_grant_of_a_dropped_future_is_released_and_nobody_has_it() {
        let mut world = World::new(Some(LIMITS));
        let (ticket, step) = world.begin(request());
        let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
        world.session.abandon_acquire(world.now, ticket);
        let (next, step) = world.begin(request());
        let Step::Send(busy, _) = step else { panic!("it asks: {step:?}") };
        world.reply((next, busy), [0, 30_000, 0]);
        world.listens(next);
        world.reply((ticket, flight), [1, 30_000, 0]);
        assert_eq!(world.calls(), ["lock/release"]);
        assert!(matches!(world.poll(next), Step::Wait), "the next waiter waits for that release");
    }

    #[test]
    fn hold_is_not_handed_on_while_its_renewal_is_in_flight() {
        let mut world = World::new(Some(LIMITS));
        let owner = Some(world.session.new_owner());
        let guard = world.holds(AcquireRequest { owner, ..request() });
        world.pass(LEASE / 3);
        assert_eq!(world.calls(), ["lock/renew"]);
        let (again, step) = world.begin(AcquireRequest { owner, ..request() });
        let Step::Send(flight, _) = step else { panic!("it re-enters: {step:?}") };
        world.reply((again, flight), [1, 30_000, 0]);
        let entered = world.read(again);
        let release = world.session.release(world.now, entered.hold, true);
        let Step::Send(flight, _) = world.session.step_release(world.now, release, Waker::noop()) else {
            panic!("sent")
        };
        world.session.handle_called(world.now, flight, Ok(Reply::Int(2)));
        let _ = world.session.step_release(world.now, release, Waker::noop());
        let hold = world.session.holds.get(guard.hold).expect("held");
        assert!(!hold.may_be_handed_on(world.now), "the reply to the renewal names this hold");
    }
}

mod hand_over_rivals {
    //! How often a lock is handed on before other clients are let in, and what they get then.

    use super::hand_over::{LIMITS, request};
    use super::*;

    #[test]
    fn others_get_a_head_start_after_the_last_of_the_grants() {
        let mut world = World::new(Some(LIMITS));
        let mut guard = world.holds(request());
        let waiters = [(); 4].map(|()| world.waits(request()));
        world.listens(waiters[0]);
        for waiter in &waiters[..2] {
            assert_eq!(world.releases(&guard), Some(Ok(())));
            guard = world.read(*waiter);
        }
        assert_eq!((world.releases(&guard), world.session.hand_overs()), (None, 2), "others are let in");
        world.is_told();
        world.pass(MS / 2);
        assert!(matches!(world.poll(waiters[2]), Step::Wait), "it leaves others the time to ask");
        world.pass(MS / 2);
        assert!(matches!(world.poll(waiters[2]), Step::Send(..)), "and asks then, notice or not");
    }

    /// A world in which the lock was handed on twice, released to the server with this reply, and granted to the next.
    fn released_with(reply: i64, listens: bool, change: impl FnOnce(&mut Settings)) -> (World, Granted) {
        let mut world = World::new(Some(LIMITS));
        change(&mut world.session.settings);
        let mut guard = world.holds(request());
        let waiters = [(); 3].map(|()| world.waits(request()));
        if listens {
            world.listens(waiters[0]);
        }
        for waiter in &waiters[..2] {
            world.releases(&guard);
            guard = world.read(*waiter);
        }
        let release = world.session.release(world.now, guard.hold, true);
        let Step::Send(flight, _) = world.session.step_release(world.now, release, Waker::noop()) else {
            panic!("it is released to the server")
        };
        world.session.handle_called(world.now, flight, Ok(Reply::Int(reply)));
        world.pass(MS * 2);
        let Step::Send(flight, _) = world.poll(waiters[2]) else { panic!("it asks") };
        world.reply((waiters[2], flight), [1, 30_000, 0]);
        let guard = world.read(waiters[2]);
        (world, guard)
    }

    /// Hands the lock on once, and releases it to the server then, with this reply. Says whether others get a head start, and gives the next grant.
    fn released_again(world: &mut World, guard: &Granted, reply: i64) -> (bool, Granted) {
        let waiters = [(); 2].map(|()| world.waits(request()));
        if world.phase() == Phase::Subscribing {
            world.listens(waiters[0]);
        }
        world.releases(guard);
        let guard = world.read(waiters[0]);
        world.limit(Some(Duration::ZERO));
        let release = world.session.release(world.now, guard.hold, true);
        let Step::Send(flight, _) = world.session.step_release(world.now, release, Waker::noop()) else {
            panic!("it is released to the server")
        };
        world.pass(MS / 5);
        assert!(matches!(world.poll(waiters[1]), Step::Wait), "the notice of the release comes first");
        world.pass(MS / 5);
        let mut step = world.poll(waiters[1]);
        let others_first = matches!(step, Step::Wait);
        world.session.handle_called(world.now, flight, Ok(Reply::Int(reply)));
        world.limit(Some(LIMITS.within));
        if others_first {
            world.pass(MS);
            step = world.poll(waiters[1]);
        }
        let Step::Send(flight, _) = step else { panic!("it asks, told or not") };
        world.reply((waiters[1], flight), [1, 30_000, 0]);
        let guard = world.read(waiters[1]);
        (others_first, guard)
    }

    #[test]
    fn others_get_no_head_start_where_none_listens() {
        let (mut world, guard) = released_with(6, true, |_| {});
        let (others_first, guard) = released_again(&mut world, &guard, 7);
        assert!(!others_first, "none listened");
        let (others_first, guard) = released_again(&mut world, &guard, 6);
        assert!(others_first, "others listened at the last release");
        assert!(!released_again(&mut world, &guard, 6).0, "none listened");
    }

    #[test]
    fn those_who_poll_get_a_head_start_now_and_then() {
        let (mut world, mut guard) = released_with(6, true, |_| {});
        let mut head_starts = Vec::new();
        for _ in 0..20 {
            let (others_first, next) = released_again(&mut world, &guard, 6);
            head_starts.push(others_first);
            guard = next;
        }
        let given: Vec<usize> = (0..20).filter(|at| head_starts[*at]).collect();
        assert_eq!(given, [8, 17], "after eight releases for which none listened");
    }

    /// How often the lock is handed on after that, of four times that are wished for.
    fn handed_on_after((mut world, mut guard): (World, Granted)) -> u64 {
        let before = world.session.hand_overs();
        for waiter in [(); 4].map(|()| world.waits(request())) {
            if world.releases(&guard).is_none() {
                break;
            }
            guard = world.read(waiter);
        }
        world.session.hand_overs() - before
    }

    #[test]
    fn lock_for_which_none_else_listens_is_kept_longer() {
        let told = |reply, listens| handed_on_after(released_with(reply, listens, |_| {}));
        assert_eq!(told(1, false), 4, "none listens");
        assert_eq!(told(6, true), 4, "only this client listens");
        assert_eq!(told(6, false), 2, "another client listens");
        assert_eq!(told(7, true), 2, "others listen as well");
    }

    #[test]
    fn node_of_a_cluster_knows_the_listeners_of_a_shard_only() {
        for (publish, handed_on) in [("PUBLISH", 2), ("SPUBLISH", 4)] {
            let released = released_with(1, false, |settings| {
                (settings.cluster, settings.publish) = (true, Bytes::from_static(publish.as_bytes()));
            });
            assert_eq!(handed_on_after(released), handed_on, "{publish}");
        }
    }
}

mod contended {
    use super::*;

    #[test]
    fn lock_is_remembered_for_a_while_and_many_are_forgotten() {
        let (now, key) = (Instant::from_nanos(1_000_000_000), b"stock");
        let mut contended = Contended::default();
        assert!(!contended.is_contended(now, key));
        contended.note(now, key);
        assert!(
            contended.is_contended(now + CONTENDED_FOR / 2, key) && !contended.is_contended(now + CONTENDED_FOR, key)
        );
        assert_eq!(contended.held_back_until(now, key), None);
        contended.entry(now, key).held_back_until = now + CONTENDED_FOR / 4;
        assert_eq!(contended.held_back_until(now, key), Some(now + CONTENDED_FOR / 4));
        assert!(
            contended.is_contended(now + CONTENDED_FOR / 2, key)
                && contended.held_back_until(now + CONTENDED_FOR / 4, key).is_none()
        );
        for other in 0..MOST_CONTENDED {
            contended.note(now, other.to_string().as_bytes());
        }
        assert!(contended.0.len() <= MOST_CONTENDED);
    }
}
