//! A session whose server says whatever it likes: notices on any channel, any reply to any call, late, twice or never. Owners re-enter
//! what they hold, holds are under replicas or end by themselves, and some callers do without a server that is out of reach. Half of the
//! sessions hand holds on among their callers.

#[path = "answers.rs"]
mod answers;
#[path = "callers.rs"]
mod callers;
#[path = "holders.rs"]
mod holders;

use crate::source::Source;
use answers::{answer, outcome, promised};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::hold_cell::HoldCell;
use leasehold_core::link::{LinkEvent, Settled};
use leasehold_core::name::LockName;
use leasehold_core::owner::{ClientId, HoldNumber, OwnerId};
use leasehold_core::session::{AcquireRequest, Action, CallId, Outgoing, Session, Ticket};
use leasehold_core::settings::{HandOver, Settings};
use leasehold_core::time::Instant;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;
use uuid::Uuid;

/// A caller's call in flight.
struct Flight {
    id: CallId,
    sent: Instant,
    call: Call,
}

/// A caller that wants a lock.
struct Caller {
    ticket: Ticket,
    wish: AcquireRequest,
    flight: Option<Flight>,
    /// When the last call was sent.
    sent: Option<Instant>,
    /// How long the hold lasts at the most, by what the server said last.
    promised: Option<Instant>,
}

struct Guard {
    hold: HoldNumber,
    renewed: bool,
    cell: Arc<HoldCell>,
    name: LockName,
    kind: Kind,
    owner: Option<OwnerId>,
    /// The deadline, when it was looked at last.
    deadline: Instant,
    /// The end of the longest time for which the hold was wanted.
    most: Instant,
    degraded: bool,
    /// The hold was granted without the server, which counts nothing of it.
    by_itself: bool,
}

struct World {
    session: Session,
    now: Instant,
    owners: [OwnerId; 2],
    /// The locks, for most who ask for them.
    kinds: [Kind; 2],
    callers: Vec<Caller>,
    guards: Vec<Guard>,
    releases: Vec<(Ticket, Option<(CallId, Call)>)>,
    /// Calls that were answered, or given up, and may be answered again.
    late: Vec<(CallId, Call)>,
    /// Calls of the background and of dropped callers.
    calls: Vec<(CallId, Instant, Call)>,
    settles: Vec<CallId>,
    channels: Vec<Bytes>,
    /// The promise of the reply that was read in this step.
    heard: Option<Instant>,
    /// The latest of all promises.
    latest: Instant,
}

pub(crate) fn check(data: &[u8]) {
    let mut source = Source::new(data);
    let hand_over = source.one_of(&[None, Some(HandOver { most: 3, within: Duration::from_secs(2) })]);
    let settings = Settings { hand_over, ..Settings::default() };
    let mut session = Session::new(ClientId::new(Uuid::from_u128(7)), settings, 1);
    let owners = [session.new_owner(), session.new_owner()];
    let mut world = World {
        session,
        now: Instant::from_nanos(1_000_000_000),
        owners,
        kinds: [source.one_of(&Kind::ALL), source.one_of(&Kind::ALL)],
        callers: Vec::new(),
        guards: Vec::new(),
        releases: Vec::new(),
        late: Vec::new(),
        calls: Vec::new(),
        settles: Vec::new(),
        channels: vec![Bytes::from_static(b"nobody listens here")],
        heard: None,
        latest: Instant::default(),
    };
    for _ in 0..120 {
        if source.is_empty() {
            break;
        }
        world.step(&mut source);
        world.take_actions();
        world.look_at_guards();
    }
    world.session.close(world.now);
    world.session.lose_all(world.now);
    world.take_actions();
    assert!(world.guards.iter().all(|guard| guard.cell.ended(world.now).is_some()), "a guard outlives its client");
    assert!(world.session.unreleased().len() <= 2, "there are two locks");
}

impl World {
    fn step(&mut self, source: &mut Source<'_>) {
        let now = self.now;
        match source.below(16) {
            0 | 1 if self.callers.len() < 8 => {
                let wish = self.wish(source);
                let ticket = self.session.acquire(now, wish.clone());
                self.callers.push(Caller { ticket, wish, flight: None, sent: None, promised: None });
                self.poll(self.callers.len() - 1);
            }
            2..=4 if !self.callers.is_empty() => {
                let index = source.below(self.callers.len());
                self.reply(source, index);
                self.poll(index);
            }
            5 if !self.calls.is_empty() => {
                let (id, sent, call) = self.calls.swap_remove(source.below(self.calls.len()));
                let result = answer(source, &call);
                self.heard = result.as_ref().ok().and_then(|reply| promised(&call, sent, &Kind::ALL, reply));
                self.session.handle_called(now, id, result);
            }
            6 => {
                let channel = self.channels[source.below(self.channels.len())].clone();
                let result = outcome(source);
                if source.below(4) > 0 {
                    self.session.handle_subscribed(now, &channel, result);
                } else {
                    self.session.handle_unsubscribed(now, &channel, result);
                }
            }
            7 | 8 => {
                let known = self.channels[source.below(self.channels.len())].clone();
                let server = || "a:6379".to_owned();
                let event = match source.below(10) {
                    0 | 1 => LinkEvent::NoticesReset,
                    2 => LinkEvent::CallsReset,
                    3 => LinkEvent::Connected { server: server(), again: true },
                    4 => {
                        let lost_for = Duration::from_millis(source.one_of(&[0, 700, 40_000]));
                        let slots = source.one_of(&[None, Some(0), Some(16_384)]).map(|end| (0..end).collect());
                        LinkEvent::OutOfReach { server: server(), why: "gone".to_owned(), lost_for, slots }
                    }
                    5 => LinkEvent::Notice { channel: Bytes::copy_from_slice(source.bytes(60)) },
                    6 => LinkEvent::Wanted { channel: known },
                    7 => LinkEvent::Offered { channel: known, entry: Bytes::copy_from_slice(source.bytes(60)) },
                    _ => LinkEvent::Notice { channel: known },
                };
                self.session.handle_event(now, event);
            }
            9 | 10 => {
                self.now = now + Duration::from_millis(source.one_of(&[1, 40, 300, 1_500, 12_000, 700_000]));
                self.session.handle_timeout(self.now);
                (0..self.callers.len()).rev().for_each(|index| self.poll(index));
            }
            11 if !self.guards.is_empty() => {
                let Guard { hold, renewed, .. } = self.guards.swap_remove(source.below(self.guards.len()));
                match source.below(3) {
                    0 => self.session.drop_guard(now, hold, renewed),
                    1 => self.session.detach(now, hold, renewed),
                    _ => {
                        let ticket = self.session.release(now, hold, renewed);
                        self.releases.push((ticket, None));
                        self.poll_release(self.releases.len() - 1);
                    }
                }
            }
            12 if !self.releases.is_empty() => {
                let index = source.below(self.releases.len());
                if let Some((id, call)) = self.releases[index].1.take() {
                    self.session.handle_called(now, id, answer(source, &call));
                }
                self.poll_release(index);
            }
            13 if !self.callers.is_empty() && source.below(2) == 0 => {
                let caller = self.callers.swap_remove(source.below(self.callers.len()));
                self.session.abandon_acquire(now, caller.ticket);
                self.calls.extend(caller.flight.map(|flight| (flight.id, flight.sent, flight.call)));
            }
            13 if !self.late.is_empty() => {
                let (id, call) = &self.late[source.below(self.late.len())];
                self.session.handle_called(now, *id, answer(source, call));
            }
            _ if !self.settles.is_empty() => {
                let id = self.settles.swap_remove(source.below(self.settles.len()));
                let settled = source.one_of(&[Settled::Proven, Settled::Unproven]);
                self.session.handle_settled(now, id, outcome(source).map(|()| settled));
            }
            _ => {}
        }
    }

    fn poll_release(&mut self, index: usize) {
        let (ticket, flight) = &mut self.releases[index];
        if let Some((id, _)) = flight {
            if self.session.awaits(*id) {
                return;
            }
            *flight = None;
        }
        match self.session.poll_release(self.now, *ticket, Waker::noop()) {
            Poll::Pending => {
                while let Some(Outgoing { id, call, of_request, .. }) = self.session.poll_call() {
                    if of_request {
                        *flight = Some((id, call));
                    } else {
                        self.calls.push((id, self.now, call));
                    }
                }
            }
            Poll::Ready(_) => _ = self.releases.swap_remove(index),
        }
    }

    fn take_actions(&mut self) {
        while let Some(Outgoing { id, call, .. }) = self.session.poll_call() {
            self.calls.push((id, self.now, call));
        }
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Settle { id, .. } => self.settles.push(id),
                Action::Subscribe { channel } | Action::Unsubscribe { channel } => {
                    if !self.channels.contains(&channel) {
                        self.channels.push(channel);
                    }
                }
            }
        }
        while self.session.poll_event().is_some() {}
        drop(self.session.take_woken());
    }
}
