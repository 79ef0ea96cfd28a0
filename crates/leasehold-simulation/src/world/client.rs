//! One client: a real session, and futures that are polled, or not, as a test wants.

use crate::report::stats::Coverage;
use crate::workload::plan::LEASE;
use crate::world::client_session::ClientSession;
use crate::world::clock::Clock;
use crate::world::event::{CallKey, WorldEvent};
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::command::{HoldKey, Kind};
use leasehold_core::error::{AcquireError, HoldEnd, LossReason, ReleaseError};
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use leasehold_core::link::LinkError;
use leasehold_core::name::LockName;
use leasehold_core::owner::{HoldNumber, OwnerId};
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Action, Event, FlightId, Granted, Session, Step, Ticket};
use leasehold_core::time::Instant;
use leasehold_embedded::EmbeddedLink;
use rustc_hash::FxHashSet;
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};
use std::time::Duration;

/// Whether a task has been woken.
#[derive(Debug, Default)]
pub(crate) struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

/// When a future that was woken is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollPolicy {
    AtOnce,
    /// After as long as this.
    Late(Duration),
    /// Not by itself.
    Never,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// With the number of its guard.
    Granted(usize),
    /// The latch is open.
    Opened,
    /// Another holder has the lock.
    Nothing,
    NotAcquired(AcquireError),
    Released,
    NotReleased(ReleaseError),
    /// Its future was dropped.
    Dropped,
}

#[derive(Debug)]
pub(crate) enum TaskKind {
    Acquire(Box<AcquireRequest>),
    Release {
        guard: usize,
        /// The guard was held when the release began,
        held: bool,
        /// was the last one of its hold,
        last: bool,
        /// and had this deadline.
        deadline: Instant,
    },
}

/// A future of a request.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) ticket: Ticket,
    pub(crate) kind: TaskKind,
    pub(crate) polls: PollPolicy,
    pub(crate) flag: Arc<Flag>,
    pub(crate) poll_planned: bool,
    /// Its call under way.
    pub(crate) flight: Option<(FlightId, CallKey)>,
    /// The reply to that, when it has come.
    pub(crate) reply: Option<Result<Reply, LinkError>>,
    pub(crate) outcome: Option<Outcome>,
    pub(crate) started: Instant,
    pub(crate) done: Instant,
    /// It is dropped between the reply and what that means to it.
    pub(crate) drop_at_reply: bool,
    pub(crate) sent: usize,
    /// The hold that it asked for last.
    pub(crate) asked: Option<Bytes>,
    /// Every hold that it asked for.
    pub(crate) all_asked: Vec<Bytes>,
}

/// A guard of a hold.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) client: usize,
    pub(crate) hold: HoldNumber,
    pub(crate) cell: Arc<HoldCell>,
    pub(crate) renewed: bool,
    pub(crate) name: LockName,
    pub(crate) kind: Kind,
    pub(crate) owner: Option<OwnerId>,
    pub(crate) permits: u32,
    /// It was asked for with a longest time to be held.
    pub(crate) limited: bool,
    /// The field of its hold.
    pub(crate) field: Bytes,
    /// The id that tells its hold from all others in the calls of its kind.
    pub(crate) wire_id: Bytes,
    /// It has been neither released nor dropped nor detached.
    pub(crate) alive: bool,
    pub(crate) detached: bool,
    /// Raised at the end of the hold.
    pub(crate) ended: Arc<Flag>,
    pub(crate) _watch: EndWatch,
    /// The end was seen.
    pub(crate) over: bool,
    /// Its client's clock has come to its end.
    pub(crate) passed: bool,
    /// How often the server had lost its data.
    pub(crate) epoch_of_data: u32,
    /// The deadline, as it was last seen.
    pub(crate) until: Instant,
}

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) session: ClientSession,
    pub(crate) notices: EmbeddedLink,
    pub(crate) tasks: Vec<Task>,
    pub(crate) events: Vec<Event>,
    pub(crate) clock: Clock,
    /// Beyond what any promise allows for.
    pub(crate) clock_is_wrong: bool,
    /// When its clock last jumped ahead.
    pub(crate) clock_jumped: Option<Instant>,
    /// Its process has ended.
    pub(crate) dead: bool,
    /// It does nothing until then.
    pub(crate) paused_until: Option<Instant>,
    /// Its clock has stood still since then.
    pub(crate) stands_since: Option<Instant>,
    /// When it last found, by its own clock, that time had passed without it.
    pub(crate) leapt: Option<Instant>,
    /// Locks that it has lost and not got again.
    pub(crate) lost: FxHashSet<Bytes>,
}

impl Client {
    pub(crate) fn new(session: Session, notices: EmbeddedLink) -> Self {
        Self {
            session: ClientSession::new(session),
            notices,
            tasks: Vec::new(),
            events: Vec::new(),
            clock: Clock::default(),
            clock_is_wrong: false,
            clock_jumped: None,
            dead: false,
            paused_until: None,
            stands_since: None,
            leapt: None,
            lost: FxHashSet::default(),
        }
    }

    /// Whether it does anything.
    pub(crate) const fn runs(&self) -> bool {
        !self.dead && self.paused_until.is_none()
    }

    pub(crate) fn add_task(&mut self, now: Instant, ticket: Ticket, kind: TaskKind, polls: PollPolicy) -> usize {
        self.tasks.push(Task {
            ticket,
            kind,
            polls,
            flag: Arc::default(),
            poll_planned: false,
            flight: None,
            reply: None,
            outcome: None,
            started: now,
            done: now,
            drop_at_reply: false,
            sent: 0,
            asked: None,
            all_asked: Vec::new(),
        });
        self.tasks.len() - 1
    }
}

impl World {
    /// Takes what the session wants done, and has woken futures polled.
    pub(crate) fn look_after(&mut self, client: usize) {
        while let Some(action) = self.clients[client].session.poll_action() {
            match action {
                Action::Call { id, call } => self.send_by_lifeline(client, id, call),
                Action::Settle { id, plane, epoch, key: _ } => self.settle(client, id, plane, epoch),
                Action::Probe { id, plane, epoch, key: _ } => self.probe(client, id, plane, epoch),
                Action::Subscribe { channel } => self.change_subscription(client, channel, true),
                Action::Unsubscribe { channel } => self.change_subscription(client, channel, false),
            }
        }
        while let Some(event) = self.clients[client].session.poll_event() {
            trace!(self, "client {client}: {event:?}");
            self.stats.digest.record((self.now, client, "event", discriminant(&event)));
            self.note_event(&event);
            self.clients[client].events.push(event);
        }
        self.clients[client].session.take_woken().into_iter().for_each(Waker::wake);
        self.plan_polls(client);
    }

    /// Has every future that was woken polled in its own time.
    pub(crate) fn plan_polls(&mut self, client: usize) {
        for task in 0..self.clients[client].tasks.len() {
            let state = &mut self.clients[client].tasks[task];
            if state.outcome.is_some() || state.poll_planned || !state.flag.take() {
                continue;
            }
            let pause = match state.polls {
                PollPolicy::AtOnce => Duration::ZERO,
                PollPolicy::Late(pause) => pause,
                PollPolicy::Never => continue,
            };
            state.poll_planned = true;
            self.after(pause, WorldEvent::Poll { client, task });
        }
    }

    /// Polls the future of a task, once, as the runtime's futures do it.
    pub(crate) fn poll(&mut self, client: usize, task: usize) {
        let state = &mut self.clients[client].tasks[task];
        state.poll_planned = false;
        if state.outcome.is_some() {
            return;
        }
        let ticket = state.ticket;
        if let Some((flight, _)) = state.flight {
            let waker = Waker::from(state.flag.clone());
            if !self.clients[client].session.is_current(ticket, flight, &waker) {
                trace!(self, "client {client} {ticket:?} drops its call");
                let state = &mut self.clients[client].tasks[task];
                if let TaskKind::Release { guard, .. } = state.kind {
                    self.doubtful.insert(self.guards[guard].wire_id.clone());
                }
                state.flight = None;
                state.reply = None;
            } else if let Some(result) = self.clients[client].tasks[task].reply.take() {
                self.clients[client].tasks[task].flight = None;
                let now = self.local(client);
                self.clients[client].session.handle_reply(now, ticket, flight, result);
                if self.clients[client].tasks[task].drop_at_reply {
                    self.abandon(client, task);
                    return;
                }
            }
        }
        if self.clients[client].tasks[task].flight.is_none() {
            self.ask(client, task);
        }
        self.look_after(client);
    }

    /// Asks the session what a future does next.
    fn ask(&mut self, client: usize, task: usize) {
        let (via, now) = (self.via(client), self.local(client));
        let state = &mut self.clients[client].tasks[task];
        let (ticket, waker) = (state.ticket, Waker::from(state.flag.clone()));
        let acquires = matches!(state.kind, TaskKind::Acquire(_));
        let session = &mut self.clients[client].session;
        let outcome = if acquires {
            match session.poll_acquire(now, ticket, via, &waker) {
                Step::Wait => return,
                Step::Send(flight, call) => return self.send_by_task(client, task, flight, via, call),
                Step::Done(Ok(Some(_))) if self.is_latch(client, task) => {
                    self.check_open(client, task);
                    Outcome::Opened
                }
                Step::Done(Ok(Some(granted))) => Outcome::Granted(self.add_guard(client, task, granted)),
                Step::Done(Ok(None)) => Outcome::Nothing,
                Step::Done(Err(error)) => Outcome::NotAcquired(error),
            }
        } else {
            match session.poll_release(now, ticket, via, &waker) {
                Step::Wait => return,
                Step::Send(flight, call) => return self.send_by_task(client, task, flight, via, call),
                Step::Done(Ok(())) => Outcome::Released,
                Step::Done(Err(error)) => Outcome::NotReleased(error),
            }
        };
        trace!(self, "client {client} {ticket:?} ends: {outcome:?}");
        self.stats.digest.record((self.now, client, task, discriminant(&outcome)));
        self.check_outcome(client, task, &outcome);
        self.check_nothing_acquired(client, task, &outcome);
        self.note_outcome(&outcome);
        let state = &mut self.clients[client].tasks[task];
        state.outcome = Some(outcome);
        state.done = now;
        self.finished.push((client, task));
    }

    fn add_guard(&mut self, client: usize, task: usize, granted: Granted) -> usize {
        let TaskKind::Acquire(wish) = &self.clients[client].tasks[task].kind else { panic!("a release was granted") };
        let now = self.local(client);
        assert!(granted.cell.would_end(now).is_none(), "a grant was handed out that has ended");
        assert_eq!(granted.renewed, wish.renewed);
        let ended: Arc<Flag> = Arc::default();
        let mut watch = EndWatch::new(granted.cell.clone());
        watch.wake_at_end(&Waker::from(ended.clone()));
        let field = self.clients[client].session.client().field(granted.hold);
        let hold = HoldKey { field: field.clone(), permits: wish.permits };
        let wire_id = self.wire_id(client, wish.kind, &wish.name, &hold);
        let epoch_of_data = self.epoch_of_promise(client, &wire_id, &granted);
        let others = self.guards_of(client, granted.hold) + self.detached_of(client, granted.hold) + 1;
        assert_eq!(granted.count as usize, others, "the hold count of a grant");
        let guard = Guard {
            client,
            hold: granted.hold,
            cell: granted.cell,
            renewed: granted.renewed,
            name: wish.name.clone(),
            kind: wish.kind,
            owner: wish.owner,
            permits: wish.permits,
            limited: wish.max_hold.is_some(),
            field,
            wire_id,
            alive: true,
            detached: false,
            ended,
            _watch: watch,
            over: false,
            passed: false,
            epoch_of_data,
            until: Instant::default(),
        };
        self.check_exclusion(&guard);
        if granted.count > 1 {
            self.stats.reach(Coverage::Reentry);
        }
        if self.clients[client].lost.remove(guard.name.key()) {
            self.stats.reach(Coverage::LostThenReacquired);
        }
        self.guards.push(guard);
        self.guards.len() - 1
    }

    /// Whether a release's outcome is true to table 1.4.
    pub(crate) fn check_outcome(&self, client: usize, task: usize, outcome: &Outcome) {
        let TaskKind::Release { guard, held, last: true, deadline } = self.clients[client].tasks[task].kind else {
            return;
        };
        let now = self.local(client);
        let guard = &self.guards[guard];
        let field = &guard.field;
        let ended = self.released.get(&guard.wire_id).is_some_and(|counts| counts.contains(&0));
        // A copy of a release that was refused is not known: the caller believes to have lost what was released, and never the other way
        // round.
        let refused = self.refused_releases.contains(&guard.wire_id);
        match outcome {
            Outcome::Released => {
                assert!(held, "a hold that was lost was released");
                // If guards were detached, something is left of the hold. If the outcome of a call is not known, it may have been that one
                // after which there is no hold any more. A hold that was granted without the server is not there.
                let is_left = self.detached_of(client, guard.hold) > 0 || guard.cell.is_degraded();
                assert!(ended || is_left || self.doubtful.contains(&guard.wire_id), "nobody released {field:?}");
            }
            Outcome::NotReleased(ReleaseError::Lost(_)) => {
                // A copy that was sent after the local deadline proves nothing.
                assert!(!held || !ended || refused || now >= deadline, "the release of {field:?} was carried out");
            }
            // It is repeated in the background, which may have succeeded before a late poll.
            Outcome::NotReleased(ReleaseError::Unreachable(_) | ReleaseError::Refused(_))
                if self.clients[client].tasks[task].polls == PollPolicy::AtOnce =>
            {
                assert!(!ended || refused, "the release of {field:?} was carried out");
            }
            _ => {}
        }
    }

    fn note_event(&mut self, event: &Event) {
        match event {
            Event::CleanedUp { .. } => self.stats.reach(Coverage::CleanedUp),
            Event::TurnPassed { .. } => self.stats.reach(Coverage::TurnPassed),
            Event::PlaceLost { .. } => self.stats.reach(Coverage::PlaceLost),
            _ => {}
        }
    }

    fn note_outcome(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::NotAcquired(AcquireError::WaitElapsed) => self.stats.reach(Coverage::WaitElapsed),
            Outcome::NotAcquired(AcquireError::OutcomeUnknown(_))
            | Outcome::NotReleased(ReleaseError::OutcomeUnknown(_)) => self.stats.reach(Coverage::OutcomeUnknown),
            Outcome::NotAcquired(AcquireError::Unreachable(_)) => self.stats.reach(Coverage::Unreachable),
            _ => {}
        }
    }

    /// The holder knows that its hold has ended.
    pub(crate) fn note_end(&mut self, guard: usize, end: HoldEnd) {
        let HoldEnd::Lost(reason) = end else { return };
        let Guard { client, ref name, alive, renewed, hold, .. } = self.guards[guard];
        // At the end of the longest time the leases are short.
        let limited = self.guards.iter().any(|guard| guard.client == client && guard.hold == hold && guard.limited);
        // If no data is lost, no hold is lost that has been well for a lease.
        let fault_free = self.plan.fault_free || self.plan.keeps_data && self.has_been_fault_free(client, LEASE);
        let fault_free = fault_free && !limited;
        assert!(!fault_free || !renewed || !alive, "{hold:?} of client {client} was lost: {reason}");
        if alive {
            self.clients[client].lost.insert(name.key().clone());
            if matches!(reason, LossReason::NotRenewed | LossReason::LeaseExpired) {
                self.stats.reach(Coverage::DeadlineTold);
            }
        }
    }
}
