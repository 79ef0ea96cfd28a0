//! A session whose server says whatever it likes: notices on any channel, any reply to any call, late, twice or never.

use crate::source::Source;
use bytes::Bytes;
use leasehold_core::command::{Acquired, Kind};
use leasehold_core::link::{Epoch, LinkError, LinkEvent, Plane, ServerError, Settled};
use leasehold_core::name::LockName;
use leasehold_core::owner::{ClientId, HoldNumber};
use leasehold_core::reply::Reply;
use leasehold_core::session::{
    AcquireRequest, Action, CallId, FlightId, Granted, Patience, Session, Step, Ticket, Via,
};
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::task::Waker;
use std::time::Duration;
use uuid::Uuid;

const VIA: Via = Via { plane: Plane::Foreground, epoch: Epoch(1) };

/// Somebody who wants a lock.
struct Caller {
    ticket: Ticket,
    kind: Kind,
    flight: Option<(FlightId, Instant)>,
    /// How long the hold lasts at the most, by what the server said last.
    deadline: Option<Instant>,
}

struct World {
    session: Session,
    now: Instant,
    callers: Vec<Caller>,
    guards: Vec<(HoldNumber, bool)>,
    releases: Vec<(Ticket, Option<FlightId>)>,
    calls: Vec<CallId>,
    settles: Vec<CallId>,
    channels: Vec<Bytes>,
}

pub(crate) fn check(data: &[u8]) {
    let mut source = Source::new(data);
    let mut world = World {
        session: Session::new(ClientId::new(Uuid::from_u128(7)), Settings::default(), 1),
        now: Instant::from_nanos(1_000_000_000),
        callers: Vec::new(),
        guards: Vec::new(),
        releases: Vec::new(),
        calls: Vec::new(),
        settles: Vec::new(),
        channels: vec![Bytes::from_static(b"nobody listens here")],
    };
    for _ in 0..120 {
        if source.is_empty() {
            break;
        }
        world.step(&mut source);
        world.take_actions();
    }
    world.session.close(world.now);
    world.session.release_all(world.now);
    world.take_actions();
    assert!(world.session.unreleased().len() <= 2, "there are two locks");
}

impl World {
    fn step(&mut self, source: &mut Source<'_>) {
        let now = self.now;
        match source.below(14) {
            0 | 1 if self.callers.len() < 8 => {
                let kind = source.one_of(&Kind::ALL);
                let name = LockName::new("", source.one_of(&["a", "b"])).expect("the name is valid");
                let mut wish = AcquireRequest::new(name, kind, Duration::from_secs(3));
                wish.patience =
                    source.one_of(&[Patience::Forever, Patience::Try, Patience::Until(now + Duration::from_secs(1))]);
                let ticket = self.session.acquire(now, wish);
                self.callers.push(Caller { ticket, kind, flight: None, deadline: None });
                self.poll(self.callers.len() - 1);
            }
            2..=4 if !self.callers.is_empty() => {
                let index = source.below(self.callers.len());
                let result = outcome(source);
                let caller = &mut self.callers[index];
                let Some((flight, sent)) = caller.flight.take() else { return self.poll(index) };
                caller.deadline = match result.as_ref().ok().and_then(|reply| caller.kind.verbs().acquired(reply).ok())
                {
                    Some(Acquired::Held { left, .. }) => Some(sent + left),
                    _ => None,
                };
                self.session.handle_reply(now, caller.ticket, flight, result);
                self.poll(index);
            }
            5 if !self.calls.is_empty() => {
                let id = self.calls.swap_remove(source.below(self.calls.len()));
                self.session.handle_called(now, id, Epoch(1), outcome(source));
            }
            6 => {
                let channel = self.channels[source.below(self.channels.len())].clone();
                let result = outcome(source).map(|_| ());
                if source.below(4) > 0 {
                    self.session.handle_subscribed(now, &channel, result);
                } else {
                    self.session.handle_unsubscribed(now, &channel, result);
                }
            }
            7 | 8 => {
                let known = self.channels[source.below(self.channels.len())].clone();
                let event = match source.below(6) {
                    0 => LinkEvent::NoticesReset,
                    1 => LinkEvent::NoticesLagged,
                    2 => LinkEvent::PlaneReset(source.one_of(&Plane::ALL)),
                    3 => LinkEvent::Notice { channel: Bytes::copy_from_slice(source.bytes(60)) },
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
                let (hold, renewed) = self.guards.swap_remove(source.below(self.guards.len()));
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
                if let (ticket, Some(flight)) = self.releases[index] {
                    self.releases[index].1 = None;
                    self.session.handle_reply(now, ticket, flight, outcome(source));
                }
                self.poll_release(index);
            }
            13 if !self.callers.is_empty() && source.below(2) == 0 => {
                let caller = self.callers.swap_remove(source.below(self.callers.len()));
                self.session.abandon_acquire(now, caller.ticket);
            }
            _ if !self.settles.is_empty() => {
                let id = self.settles.swap_remove(source.below(self.settles.len()));
                let settled = source.one_of(&[Settled::Proven, Settled::Unproven]);
                self.session.handle_settled(now, id, outcome(source).map(|_| settled));
            }
            _ => {}
        }
    }

    fn poll(&mut self, index: usize) {
        let caller = &mut self.callers[index];
        if caller.flight.is_some() {
            return;
        }
        match self.session.poll_acquire(self.now, caller.ticket, VIA, Waker::noop()) {
            Step::Send(flight, _) => caller.flight = Some((flight, self.now)),
            Step::Wait => {}
            Step::Done(result) => {
                let caller = self.callers.swap_remove(index);
                if let Ok(Some(granted)) = result {
                    self.grant(&caller, &granted);
                }
            }
        }
    }

    /// A guard is handed out for a grant of the server, and for no longer than that.
    fn grant(&mut self, caller: &Caller, granted: &Granted) {
        let cell = &granted.cell;
        if caller.kind == Kind::Latch {
            // An open latch is passed, and not held.
            return;
        }
        let ended = cell.ended(self.now);
        assert!(
            ended.is_none() && cell.deadline() > self.now,
            "a guard of {:?} that is over was handed out: {ended:?}, {:?} of {:?}",
            caller.kind,
            cell.deadline(),
            self.now
        );
        let deadline = caller.deadline.unwrap_or_else(|| panic!("{:?} was granted by nobody", caller.kind));
        assert!(cell.deadline() <= deadline, "{:?} is held beyond what the server said", caller.kind);
        self.guards.push((granted.hold, granted.renewed));
    }

    fn poll_release(&mut self, index: usize) {
        if self.releases[index].1.is_some() {
            return;
        }
        match self.session.poll_release(self.now, self.releases[index].0, VIA, Waker::noop()) {
            Step::Send(flight, _) => self.releases[index].1 = Some(flight),
            Step::Wait => {}
            Step::Done(_) => _ = self.releases.swap_remove(index),
        }
    }

    fn take_actions(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Call { id, .. } => self.calls.push(id),
                Action::Settle { id, .. } => self.settles.push(id),
                Action::Subscribe { channel } | Action::Unsubscribe { channel } => {
                    if !self.channels.contains(&channel) {
                        self.channels.push(channel);
                    }
                }
            }
        }
        while self.session.poll_event().is_some() {}
        self.session.take_woken();
    }
}

fn outcome(source: &mut Source<'_>) -> Result<Reply, LinkError> {
    match source.below(16) {
        0 => Err(LinkError::NotSent("it is down".into())),
        1 => Err(LinkError::Unknown("it is gone".into())),
        2 => Err(LinkError::Refused(ServerError::new(source.one_of(&["WRONGTYPE x", "LOADING x", "OOM x", ""])))),
        3..=8 => {
            // An answer of the usual form.
            let (code, left) = (source.one_of(&[1, 1, 0, 4, 2, -1, -3]), source.number());
            let parts = [code, left, source.number(), 1, 1, 0];
            let shown = if code == 4 { 6 } else { 3 + source.below(2) };
            Ok(Reply::Array(parts[..shown].iter().copied().map(Reply::Int).collect()))
        }
        9 => Ok(Reply::Int(1)),
        _ => Ok(source.reply()),
    }
}
