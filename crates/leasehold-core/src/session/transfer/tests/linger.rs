//! The rules of lingering, each by itself.

use super::*;
use crate::call::Replicas;
use crate::command::Kind;
use crate::link::{LinkError, LinkEvent};
use crate::name::LockName;
use crate::owner::HoldNumber;
use crate::session::{Fallback, Patience};

const LONGEST: Duration = Duration::from_millis(50);

impl World {
    /// The client has had the lock before, and hears who wants it.
    fn warm() -> Self {
        let mut world = Self::cold();
        world.holds_and_releases(request());
        world
    }

    /// The client does not know the lock.
    fn cold() -> Self {
        Self::with(Settings::default())
    }

    /// Acquires, and releases to the server, which answers. Gives the field of the hold.
    fn holds_and_releases(&mut self, request: AcquireRequest) -> Bytes {
        let guard = self.holds_and_hears(request);
        let ticket = self.session.release(self.now, guard.hold, guard.renewed);
        let step = self.session.step_release(self.now, ticket, Waker::noop());
        let Step::Send(flight, _) = step else { panic!("it is released: {step:?}") };
        // The one connection that listens is this client's.
        self.session.handle_called(self.now, flight, Ok(Reply::Int(6)));
        assert!(matches!(self.session.step_release(self.now, ticket, Waker::noop()), Step::Done(Ok(()))));
        guard.cell.field()
    }

    /// The lock lingers, after one guard.
    fn lingering() -> (Self, Granted) {
        let mut world = Self::warm();
        let guard = world.holds_and_hears(request());
        assert!(world.keeps(&guard), "it is kept");
        (world, guard)
    }

    /// Acquires, and is granted the lock by the server. The server confirms all subscriptions.
    fn holds_and_hears(&mut self, request: AcquireRequest) -> Granted {
        let granted = self.holds(request);
        self.confirm();
        granted
    }

    /// Acquires. Gives the grant where the server is not asked.
    fn resumes(&mut self, request: AcquireRequest) -> Option<Granted> {
        match self.begin(request).1 {
            Step::Done(Ok(granted)) => granted,
            Step::Done(Err(error)) => panic!("{error:?}"),
            Step::Send(..) | Step::Wait => None,
        }
    }

    /// Releases a guard. Returns whether the server gets no release.
    fn keeps(&mut self, guard: &Granted) -> bool {
        let outcome = self.releases(guard);
        assert!(outcome.as_ref().is_none_or(Result::is_ok), "{outcome:?}");
        outcome.is_some()
    }

    fn hears(&mut self, event: LinkEvent) {
        self.session.handle_event(self.now, event);
    }

    /// The scripts of the calls since the last look, and the ends of subscriptions.
    fn actions(&mut self) -> Vec<&'static str> {
        let actions = std::iter::from_fn(|| self.session.poll_deed());
        let actions = actions.filter_map(|action| match action {
            Deed::Call { call, .. } => Some(call.script().name()),
            Deed::Unsubscribe { .. } => Some("unsubscribe"),
            _ => None,
        });
        actions.collect()
    }

    fn lingers(&self, number: HoldNumber) -> bool {
        self.session.lingers(number)
    }
}

fn request() -> AcquireRequest {
    let name = LockName::new("", "stock").expect("a name");
    AcquireRequest { linger: LingerTime::new(LONGEST), ..AcquireRequest::new(name, Kind::Lock, LEASE) }
}

fn wanted() -> LinkEvent {
    LinkEvent::Wanted { channel: request().name.channel().clone() }
}

#[test]
fn next_request_has_the_hold_under_another_number() {
    let (mut world, first) = World::lingering();
    assert!(world.lingers(first.hold) && world.actions().is_empty(), "the server is not told");
    world.pass(LONGEST - MS);
    let deadline = first.cell.deadline();
    let second = world.resumes(request()).expect("it costs no command");
    assert!(second.hold != first.hold && second.handed_on && second.cell.key().field() == first.cell.key().field());
    assert!(second.cell.key().field().ends_with(b"~"), "others can see that it may linger");
    assert_eq!((second.cell.deadline(), second.cell.acquired_at()), (deadline, world.now));
    assert_eq!((world.session.resumed(), world.actions()), (1, vec![]));
    // A try has it too, and so has a wait that is over at once.
    assert!(world.keeps(&second));
    let third = world.resumes(AcquireRequest { patience: Patience::Try, ..request() }).expect("a try");
    world.session.drop_guard(world.now, third.hold, third.renewed);
    assert!(world.lingers(third.hold), "a dropped guard leaves it as well");
}

#[test]
fn hold_is_released_when_its_time_is_over() {
    let (mut world, guard) = World::lingering();
    world.pass(LONGEST);
    assert_eq!(world.actions(), ["lock/release"], "it goes on to listen");
    assert!(!world.lingers(guard.hold) && world.resumes(request()).is_none());
}

#[test]
fn hold_has_the_mark_only_if_its_client_hears_who_wants_it_since_before() {
    let mut world = World::cold();
    let first = world.holds_and_hears(request());
    assert!(!first.cell.field().ends_with(b"~") && !world.keeps(&first), "a request may have been missed");
    assert!(World::warm().holds(request()).cell.field().ends_with(b"~"));
}

#[test]
fn subscription_outlives_a_hold_for_two_seconds() {
    let (mut world, guard) = World::lingering();
    world.pass(LONGEST);
    assert_eq!(world.actions(), ["lock/release"]);
    assert!(!world.lingers(guard.hold));
    let mut world = World::warm();
    world.pass(Duration::from_millis(1_900));
    assert_eq!(world.actions(), Vec::<&str>::new());
    world.pass(Duration::from_millis(100));
    assert_eq!(world.actions(), ["unsubscribe"]);
    // While a guard exists, and whatever it is of, the next hold is soon to come.
    let mut world = World::warm();
    let guard = world.holds_and_hears(request());
    world.pass(Duration::from_secs(5));
    assert!(!world.actions().contains(&"unsubscribe") && guard.cell.ended(world.now).is_none());
}

#[test]
fn messages_that_may_be_missed_while_there_is_a_guard_end_its_lingering() {
    let mut world = World::warm();
    let guard = world.holds_and_hears(request());
    world.hears(LinkEvent::NoticesReset);
    world.confirm();
    assert!(!world.keeps(&guard), "it hears again, and may have missed something");
}

#[test]
fn request_that_meets_what_lingered_here_asks_once_more() {
    for patience in [Patience::Until(NOW), Patience::Try] {
        let (mut world, _) = World::lingering();
        let (ticket, step) = world.begin(AcquireRequest { lease: LEASE * 2, patience, ..request() });
        let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
        let release = std::iter::from_fn(|| world.session.poll_deed()).find_map(|action| match action {
            Deed::Call { id, call } if call.script().name() == "lock/release" => Some(id),
            _ => None,
        });
        let busy = Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec());
        world.session.handle_called(world.now, flight, Ok(busy));
        let step = world.session.step_acquire(world.now, ticket, Waker::noop());
        assert!(matches!(step, Step::Wait), "its own release is under way: {step:?}");
        world.session.handle_called(world.now, release.expect("a release"), Ok(Reply::Int(6)));
        let step = world.session.step_acquire(world.now, ticket, Waker::noop());
        assert!(matches!(step, Step::Send(..)), "it asks once more: {step:?}");
        let key = request().name.key().to_vec();
        assert!(!world.session.contended.is_contended(world.now, &key), "no other client has wanted it");
    }
}

#[test]
fn hold_that_is_asked_for_before_its_grant_is_read_does_not_linger() {
    let mut world = World::warm();
    let (ticket, step) = world.begin(request());
    let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
    // The message comes by another connection than the reply, which it overtakes.
    world.hears(wanted());
    world.session.handle_called(world.now, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
    let Step::Done(Ok(Some(guard))) = world.session.step_acquire(world.now, ticket, Waker::noop()) else {
        panic!("it is granted")
    };
    assert!(guard.cell.field().ends_with(b"~") && !world.keeps(&guard));
}

#[test]
fn request_under_way_when_its_client_begins_to_hear_asks_once_more() {
    let mut world = World::cold();
    let (first, step) = world.begin(request());
    let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
    world.session.handle_called(world.now, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
    let Step::Done(Ok(Some(guard))) = world.session.step_acquire(world.now, first, Waker::noop()) else {
        panic!("it is granted")
    };
    assert!(!world.keeps(&guard));
    let (second, step) = world.begin(AcquireRequest { renewed: false, ..request() });
    let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
    // Another client has had the lock, and has released it before the server confirms the subscription of the first hold.
    world.confirm();
    world.session.handle_called(world.now, flight, Ok(Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec())));
    let step = world.session.step_acquire(world.now, second, Waker::noop());
    assert!(matches!(step, Step::Send(..)), "the release was not heard: {step:?}");
}

#[test]
fn client_that_gives_way_leaves_others_two_round_trips() {
    let mut world = World::warm();
    let sent = world.now;
    let (ticket, step) = world.begin(request());
    let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
    world.now = sent + MS * 100;
    world.session.handle_called(world.now, flight, Ok(Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec())));
    let Step::Done(Ok(Some(guard))) = world.session.step_acquire(world.now, ticket, Waker::noop()) else {
        panic!("it is granted")
    };
    assert!(world.keeps(&guard));
    world.hears(wanted());
    let (ticket, step) = world.begin(request());
    assert!(matches!(step, Step::Wait), "{step:?}");
    world.pass(MS * 199);
    assert!(matches!(world.session.step_acquire(world.now, ticket, Waker::noop()), Step::Wait));
    world.pass(MS);
    assert!(matches!(world.session.step_acquire(world.now, ticket, Waker::noop()), Step::Send(..)));
    let (_, step) = World::warm().begin(request());
    assert!(matches!(step, Step::Send(..)), "nobody wants it");
}

#[test]
fn hold_that_others_want_is_released_at_once_or_by_its_guard() {
    let (mut world, _) = World::lingering();
    world.hears(wanted());
    assert_eq!(world.actions(), ["lock/release", "unsubscribe"]);
    let mut world = World::warm();
    let guard = world.holds_and_hears(request());
    world.hears(wanted());
    assert_eq!(world.actions(), ["unsubscribe"]);
    assert!(!world.keeps(&guard), "it is released to the server");
}

#[test]
fn lock_that_others_wanted_has_no_mark_for_a_second() {
    let (mut world, _) = World::lingering();
    world.hears(wanted());
    let field = |world: &mut World| {
        let (_, step) = world.begin(AcquireRequest { patience: Patience::Try, ..request() });
        let Step::Send(_, call) = step else { panic!("it asks: {step:?}") };
        call.args().to_vec()[0].clone()
    };
    assert!(!field(&mut world).ends_with(b"~"));
    world.pass(Duration::from_secs(2));
    let mut other = World::warm();
    other.now = world.now;
    assert!(field(&mut other).ends_with(b"~"));
}

#[test]
fn hold_is_not_kept_for_longer_than_ten_times_its_longest() {
    let (mut world, mut guard) = World::lingering();
    for _ in 0..10 {
        world.pass(LONGEST - MS);
        guard = world.resumes(request()).expect("it lingers");
        assert!(world.keeps(&guard));
    }
    // It has lingered for a fifth of its time since the last release.
    world.pass(MS * 10);
    assert!(!world.lingers(guard.hold) && world.actions().contains(&"lock/release"));
}

#[test]
fn hold_does_not_linger_beyond_its_renewal() {
    let mut world = World::warm();
    let request = || AcquireRequest { lease: MS * 300, linger: LingerTime::new(MS * 300), ..request() };
    let guard = world.holds_and_hears(request());
    world.pass(MS * 60);
    assert!(world.keeps(&guard));
    world.pass(MS * 45);
    assert_eq!(world.actions(), ["lock/release"], "a third of the lease is over");
}

#[test]
fn what_is_not_plain_is_released() {
    type Change = fn(AcquireRequest) -> AcquireRequest;
    let changes: [Change; 5] = [
        |request| AcquireRequest { linger: None, ..request },
        |request| AcquireRequest { renewed: false, ..request },
        |request| AcquireRequest { fallback: Fallback::Local, ..request },
        |request| AcquireRequest { max_hold: Some(LEASE / 3), ..request },
        |request| AcquireRequest { max_hold: Some(LEASE * 2), ..request },
    ];
    for change in changes {
        let mut world = World::warm();
        let guard = world.holds_and_hears(change(request()));
        assert!(!world.keeps(&guard), "{:?}", change(request()));
    }
    for kind in [Kind::Fenced, Kind::Spin, Kind::Write] {
        let mut world = World::warm();
        let ticket = world.session.acquire(world.now, AcquireRequest { kind, ..request() });
        let Step::Send(_, call) = world.session.step_acquire(world.now, ticket, Waker::noop()) else {
            panic!("it asks")
        };
        assert!(call.args().into_iter().all(|arg| !arg.ends_with(b"~")), "{kind:?}");
    }
}

#[test]
fn entered_hold_lingers_after_its_last_guard_alone() {
    let mut world = World::warm();
    let first = world.holds_and_hears(request());
    let ticket = world.session.acquire(world.now, AcquireRequest { reenter: Some(first.hold), ..request() });
    let Step::Send(flight, _) = world.session.step_acquire(world.now, ticket, Waker::noop()) else { panic!("it asks") };
    let reply = Reply::Array([1, 30_000, 0].map(Reply::Int).to_vec());
    world.session.handle_called(world.now, flight, Ok(reply));
    let Step::Done(Ok(Some(second))) = world.session.step_acquire(world.now, ticket, Waker::noop()) else {
        panic!("it enters")
    };
    assert!(!world.keeps(&second) && !world.lingers(first.hold), "the server is to count one less");
}

#[test]
fn request_for_something_else_ends_the_lingering_and_asks() {
    type Change = fn(AcquireRequest) -> AcquireRequest;
    let changes: [Change; 4] = [
        |request| AcquireRequest { lease: LEASE * 2, ..request },
        |request| AcquireRequest { renewed: false, ..request },
        |request| AcquireRequest { replicas: Some(Replicas { at_least: 1, within: MS }), ..request },
        |request| AcquireRequest { fallback: Fallback::Local, ..request },
    ];
    for change in changes {
        let (mut world, _) = World::lingering();
        assert!(world.resumes(change(request())).is_none());
        assert!(world.actions().contains(&"lock/release"));
    }
    let (mut world, _) = World::lingering();
    let guard = world.resumes(AcquireRequest { linger: None, ..request() }).expect("the lock");
    assert!(!world.keeps(&guard), "its own request does not let it linger");
}

#[test]
fn nothing_lingers_that_may_miss_who_wants_it() {
    let server = || "one".to_owned();
    let events = [
        LinkEvent::NoticesReset,
        LinkEvent::CallsReset,
        LinkEvent::OutOfReach { server: server(), why: "refused".to_owned(), lost_for: MS, slots: None },
        LinkEvent::Retired { server: server() },
    ];
    for event in events {
        let (mut world, guard) = World::lingering();
        world.hears(event.clone());
        assert!(!world.lingers(guard.hold) && world.actions().contains(&"lock/release"), "{event:?}");
    }
    let mut world = World::warm();
    let guard = world.holds_and_hears(request());
    world.hears(LinkEvent::NoticesReset);
    let channel = request().name.channel().clone();
    world.session.handle_subscribed(world.now, &channel, Err(LinkError::NotSent("no connection".to_owned())));
    assert!(!world.keeps(&guard), "nothing is heard");
}

#[test]
fn nothing_lingers_through_the_end_or_a_force_release() {
    type End = fn(&mut World);
    let ends: [End; 3] = [
        |world| world.session.close(world.now),
        |world| world.session.stop_all_lingering(world.now),
        |world| world.session.look_again(world.now, "stock"),
    ];
    for end in ends {
        let (mut world, guard) = World::lingering();
        end(&mut world);
        assert!(!world.lingers(guard.hold) && world.actions().contains(&"lock/release"));
    }
}

#[test]
fn waiting_request_is_served_by_a_release() {
    let mut world = World::warm();
    let guard = world.holds_and_hears(request());
    let (ticket, step) = world.begin(request());
    let Step::Send(flight, _) = step else { panic!("it asks: {step:?}") };
    let busy = Reply::Array([0, 30_000, 0].map(Reply::Int).to_vec());
    world.session.handle_called(world.now, flight, Ok(busy));
    assert!(matches!(world.session.step_acquire(world.now, ticket, Waker::noop()), Step::Wait));
    assert!(!world.keeps(&guard), "hand_over says whether a waiter has it at once");
}

#[test]
fn hold_whose_time_is_over_is_not_resumed_without_a_timer() {
    for late in [LONGEST, LEASE * 2] {
        let (mut world, guard) = World::lingering();
        // The process was paused: the caller is polled before the background looks at its timers.
        world.now = world.now + late;
        assert!(world.resumes(request()).is_none() && !world.lingers(guard.hold), "after {late:?}");
        // A hold whose lease is over is forgotten by its timer.
        let (mut world, guard) = World::lingering();
        world.pass(late);
        assert!(!world.lingers(guard.hold));
    }
}
