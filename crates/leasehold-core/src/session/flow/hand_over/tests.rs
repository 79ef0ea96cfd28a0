//! The rules of handing a hold on, each by itself.

use crate::call::Replicas;
use crate::command::Kind;
use crate::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use crate::link::LinkEvent;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::Reply;
use crate::session::lock::line::Phase;
use crate::session::request::acquire::AcquireOutcome;
use crate::session::steps::{Deed, Step};
use crate::session::{AcquireRequest, CallId, Fallback, Granted, Patience, Session, Ticket};
use crate::settings::{HandOver, Settings};
use crate::time::Instant;
use bytes::Bytes;
use std::task::Waker;
use std::time::Duration;

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const LEASE: Duration = Duration::from_secs(30);
pub(super) const LIMITS: HandOver = HandOver { most: 2, within: Duration::from_secs(25) };
pub(super) const MS: Duration = Duration::from_millis(1);

/// A session whose tasks share one lock.
pub(super) struct World {
    pub(super) session: Session,
    pub(super) now: Instant,
}

impl World {
    pub(super) fn new(hand_over: Option<HandOver>) -> Self {
        let settings = Settings { hand_over, ..Settings::default() };
        Self { session: Session::new(ClientId::new(uuid::Uuid::nil()), settings, 1), now: NOW }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.session.handle_timeout(self.now);
    }

    pub(super) fn poll(&mut self, ticket: Ticket) -> Step<AcquireOutcome> {
        self.session.step_acquire(self.now, ticket, Waker::noop())
    }

    /// Begins to acquire, and polls once.
    fn begin(&mut self, wish: AcquireRequest) -> (Ticket, Step<AcquireOutcome>) {
        let ticket = self.session.acquire(self.now, wish);
        let step = self.poll(ticket);
        (ticket, step)
    }

    pub(super) fn reply(&mut self, (_ticket, flight): (Ticket, CallId), reply: [i64; 3]) {
        let reply = Reply::Array(reply.map(Reply::Int).to_vec());
        self.session.handle_called(self.now, flight, Ok(reply));
    }

    /// Acquires, and is granted the lock by the server.
    pub(super) fn holds(&mut self, wish: AcquireRequest) -> Granted {
        let left = i64::try_from(wish.lease.as_millis()).expect("a lease");
        let (ticket, step) = self.begin(wish);
        let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
        self.reply((ticket, flight), [1, left, 0]);
        self.read(ticket)
    }

    /// Waits in the line. The first waiter listens, as the server has confirmed.
    pub(super) fn waits(&mut self, wish: AcquireRequest) -> Ticket {
        let (ticket, step) = self.begin(wish);
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

    fn confirm(&mut self) {
        while let Some(action) = self.session.poll_deed() {
            match action {
                Deed::Subscribe { channel } => self.session.handle_subscribed(self.now, &channel, Ok(())),
                Deed::Unsubscribe { channel } => self.session.handle_unsubscribed(self.now, &channel, Ok(())),
                _ => {}
            }
        }
    }

    /// A notice of a release comes.
    pub(super) fn is_told(&mut self) {
        self.session.handle_event(self.now, LinkEvent::Notice { channel: wish().name.channel() });
    }

    fn contender_asks(&mut self) {
        let contender = self.session.parts.locks.iter().find_map(|(_, lock)| lock.line().contender());
        self.is_told();
        assert!(matches!(self.poll(contender.expect("one contends")), Step::Send(..)));
    }

    fn out_of_reach(&mut self) {
        let (server, why) = ("one".to_owned(), "refused".to_owned());
        self.session.handle_event(self.now, LinkEvent::OutOfReach { server, why, lost_for: MS, slots: None });
    }

    pub(super) fn limit(&mut self, within: Option<Duration>) {
        self.session.parts.settings.hand_over = within.map(|within| HandOver { within, ..LIMITS });
    }

    pub(super) fn read(&mut self, ticket: Ticket) -> Granted {
        match self.poll(ticket) {
            Step::Done(Ok(Some(granted))) => granted,
            step => panic!("it is granted: {step:?}"),
        }
    }

    /// Releases a guard. Says whether the server is told, and how it ended if it is not.
    pub(super) fn releases(&mut self, guard: &Granted) -> Option<Result<(), ReleaseError>> {
        let ticket = self.session.release(self.now, guard.hold, guard.renewed);
        match self.session.step_release(self.now, ticket, Waker::noop()) {
            Step::Done(outcome) => Some(outcome),
            Step::Send(..) | Step::Wait => None,
        }
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
        let mut locks = self.session.parts.locks.iter();
        locks.next().map(|(_, lock)| lock.line().phase()).expect("a lock")
    }
}

fn of(kind: Kind) -> AcquireRequest {
    AcquireRequest::new(LockName::new("", "stock").expect("a name"), kind, LEASE)
}

pub(super) fn wish() -> AcquireRequest {
    of(Kind::Lock)
}

#[test]
fn hold_goes_on_without_a_word_to_the_server() {
    let mut world = World::new(Some(LIMITS));
    let first = world.holds(wish());
    let second = world.waits(AcquireRequest { max_hold: Some(LEASE * 2), ..wish() });
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
    let first = world.holds(wish());
    let second = world.waits(wish());
    world.listens(second);
    world.releases(&first);
    let next = world.read(second);
    assert_ne!(next.hold, first.hold);
    world.session.drop_guard(world.now, first.hold, true);
    world.session.detach(world.now, first.hold, true);
    assert_eq!(world.releases(&first), Some(Err(ReleaseError::Lost(LossReason::ShutDown))));
    // A re-entry by the old guard is a request like any other, for a hold of its own.
    let (late, step) = world.begin(AcquireRequest { reenter: Some(first.hold), ..wish() });
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
    let first = world.holds(wish());
    let waiters = [(); 3].map(|()| world.waits(wish()));
    world.listens(waiters[0]);
    world.session.drop_guard(world.now, first.hold, first.renewed);
    world.session.abandon_acquire(world.now, waiters[0]);
    assert!(world.read(waiters[1]).handed_on && matches!(world.poll(waiters[2]), Step::Wait));
    assert_eq!((world.calls().len(), world.session.hand_overs()), (0, 2));
}

/// An obstacle to handing a hold on: its name, a change of the holder's wish and of the waiter's, and an event before the release.
type Row = (&'static str, fn(&mut AcquireRequest), fn(&mut AcquireRequest), fn(&mut World));

const ROWS: &[Row] = &[
    ("a fixed lease is held", |held| held.renewed = false, |_| (), |_| ()),
    ("a fixed lease is wished for", |_| (), |wish| wish.renewed = false, |_| ()),
    ("another lease is wished for", |_| (), |wish| wish.lease = LEASE / 2, |_| ()),
    ("a shorter time to be held", |_| (), |wish| wish.max_hold = Some(LEASE - MS), |_| ()),
    ("replicas are wished for", |_| (), |wish| wish.replicas = Some(Replicas { at_least: 1, within: MS }), |_| ()),
    ("a name is wished for", |_| (), |wish| wish.field = Some(Bytes::from_static(b"mine")), |_| ()),
    ("the lock is local", |_| (), |wish| wish.fallback = Fallback::Local, |_| ()),
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
        let mut wishes = [wish(), wish()];
        held(&mut wishes[0]);
        wished(&mut wishes[1]);
        let [held, wished] = wishes;
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
    let first = world.holds(AcquireRequest { owner, ..wish() });
    let second = world.waits(wish());
    world.listens(second);
    let entry = world.holds(AcquireRequest { owner, ..wish() });
    assert_eq!(entry.hold, first.hold);
    assert_eq!((world.releases(&entry), world.session.hand_overs()), (None, 0));
    assert!(matches!(world.poll(second), Step::Wait) && first.cell.ended(world.now).is_none());
}

#[test]
fn grant_that_is_not_read_in_time_goes_on() {
    let mut world = World::new(Some(LIMITS));
    let guard = world.holds(wish());
    let [unpolled, next, last] = [(); 3].map(|()| world.waits(wish()));
    world.listens(unpolled);
    world.releases(&guard);
    world.pass(world.session.settings().turn);
    assert!(world.read(next).handed_on && world.session.hand_overs() == 2);
    assert!(matches!(world.poll(unpolled), Step::Wait), "it waits again");
    assert!(matches!(world.poll(last), Step::Wait));
    // It is the first of those who are polled.
    let queue: Vec<Ticket> = world.session.parts.locks.iter().flat_map(|(_, lock)| lock.line().members()).collect();
    assert_eq!(queue, [last, unpolled]);
    // A grant that none but the unpolled waiter wants is released.
    let mut world = World::new(Some(LIMITS));
    let guard = world.holds(wish());
    let unpolled = world.waits(wish());
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
        let guard = world.holds(wish());
        let unpolled = world.waits(AcquireRequest { patience, ..wish() });
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
        let guard = world.holds(wish());
        let second = world.waits(wish());
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
    let first = world.holds(AcquireRequest { owner: one, ..wish() });
    let second = world.waits(AcquireRequest { owner: other, ..wish() });
    world.listens(second);
    let entry = world.waits(AcquireRequest { owner: other, ..wish() });
    world.releases(&first);
    let (late, step) = world.begin(AcquireRequest { owner: one, ..wish() });
    assert!(matches!(step, Step::Wait), "another owner has it: {step:?}");
    let Step::Send(flight, call) = world.poll(entry) else { panic!("it enters what its owner has") };
    assert_eq!((call.args()[0].clone(), &call.args()[1][..]), (first.cell.field(), b"2".as_slice()));
    world.reply((entry, flight), [1, 30_000, 0]);
    let (next, entered) = (world.read(second), world.read(entry));
    assert_eq!((next.hold, next.cell.count(), entered.handed_on), (entered.hold, 2, false));
    assert!(matches!(world.poll(late), Step::Wait));
}

#[test]
fn grant_not_read_is_entered_by_its_owner_later() {
    let mut world = World::new(Some(LIMITS));
    let owner = Some(world.session.new_owner());
    let first = world.holds(wish());
    let unpolled = world.waits(AcquireRequest { owner, ..wish() });
    world.listens(unpolled);
    let entry = world.waits(AcquireRequest { owner, ..wish() });
    world.releases(&first);
    let Step::Send(flight, _) = world.poll(entry) else { panic!("it enters what its owner has") };
    world.reply((entry, flight), [1, 30_000, 0]);
    let entered = world.read(entry);
    world.pass(world.session.settings().turn);
    assert_eq!((world.calls(), entered.cell.ended(world.now)), (vec!["lock/release"], None));
    let number = world.session.parts.requests.acquire(unpolled).and_then(|acquire| acquire.entering());
    assert_eq!(number, Some(entered.hold), "it does not wait for its own owner");
}

#[test]
fn first_waiter_of_a_held_lock_asks_once_it_listens() {
    let mut world = World::new(Some(LIMITS));
    world.holds(wish());
    let (second, step) = world.begin(wish());
    assert!(matches!(step, Step::Wait), "the lock is busy: {step:?}");
    world.confirm();
    assert!(matches!(world.poll(second), Step::Send(..)), "a release may have been missed");
    // A try is told by the server.
    let mut world = World::new(Some(LIMITS));
    world.holds(wish());
    let (_, step) = world.begin(AcquireRequest { patience: Patience::Try, ..wish() });
    assert!(matches!(step, Step::Send(..)), "{step:?}");
}

#[test]
fn request_whose_grant_ended_unread_stands_right_behind_the_contender() {
    let mut world = World::new(Some(LIMITS));
    let guard = world.holds(wish());
    let [unread, contender, last] = [(); 3].map(|()| world.waits(wish()));
    world.listens(unread);
    world.releases(&guard);
    world.now = world.now + LEASE;
    assert!(matches!(world.poll(unread), Step::Wait), "another one contends by now");
    let queue: Vec<Ticket> = world.session.parts.locks.iter().flat_map(|(_, lock)| lock.line().members()).collect();
    assert_eq!(queue, [contender, unread, last]);
}
