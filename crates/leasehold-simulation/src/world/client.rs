//! One client: a real session, and futures that are polled, or not, as a test wants.

use crate::world::events::CallKey;
use crate::world::history::Promises;
use crate::world::stats::Coverage;
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::command::Kind;
use leasehold_core::error::{AcquireError, MoveError, ReleaseError};
use leasehold_core::hold_cell::{EndWatch, HoldCell};
use leasehold_core::name::LockName;
use leasehold_core::owner::{HoldNumber, OwnerId};
use leasehold_core::session::{AcquireRequest, Action, CallId, Event, Offered, Session, Ticket};
use leasehold_core::time::Instant;
use leasehold_embedded::EmbeddedLink;
use rustc_hash::FxHashSet;
use std::cell::Cell;
use std::mem::discriminant;
use std::ops::{Deref, DerefMut};
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
    /// Its hold may be adopted.
    Offered(Offered),
    NotMoved(MoveError),
    /// Its future was dropped.
    Dropped,
}

#[derive(Debug)]
pub(crate) enum TaskKind {
    Acquire(Box<AcquireRequest>),
    /// It offers the hold of a guard.
    Offer {
        guard: usize,
    },
    /// It adopts a hold.
    Adopt(Box<AcquireRequest>),
    Release {
        guard: usize,
        /// The guard was held when the release began,
        held: bool,
        /// was the last one of its hold,
        last: bool,
        /// had this deadline,
        deadline: Instant,
        /// and its hold was handed on to another task, or lingers.
        handed_on: bool,
    },
}

/// A future of a request.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) ticket: Ticket,
    pub(crate) kind: TaskKind,
    /// The number of its operation, or of that which acquired what it releases.
    pub(crate) number: u32,
    pub(crate) polls: PollPolicy,
    pub(crate) flag: Arc<Flag>,
    pub(crate) poll_planned: bool,
    /// Its call under way.
    pub(crate) call: Option<(CallId, CallKey)>,
    /// Its call was answered in this step.
    pub(crate) is_answered_now: bool,
    /// How often a replica had taken over when its call was answered.
    pub(crate) reign: u32,
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

impl Task {
    pub(crate) const fn acquires(&self) -> bool {
        matches!(self.kind, TaskKind::Acquire(_))
    }
}

/// A guard of a hold.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) client: usize,
    pub(crate) hold: HoldNumber,
    /// The number of the operation that acquired it.
    pub(crate) number: u32,
    pub(crate) cell: Arc<HoldCell>,
    pub(crate) renewed: bool,
    pub(crate) lease: Duration,
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
    /// It was granted without the server,
    pub(crate) fell_back: bool,
    /// and excludes no other.
    pub(crate) passes_through: bool,
    /// How often the server had lost its data.
    pub(crate) epoch_of_data: u32,
    /// The deadline, as it was last seen.
    pub(crate) until: Instant,
    /// Until when its lock is to stay busy, however soon it is released.
    pub(crate) busy_until: Option<Instant>,
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
    /// Its clock has drifted beyond the margin.
    pub(crate) clock_left_margin: bool,
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
            clock_left_margin: false,
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
            number: 0,
            polls,
            flag: Arc::default(),
            poll_planned: false,
            call: None,
            is_answered_now: false,
            reign: 0,
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

/// A session, and when it next waits for time to pass: a world wants to know that of each of its clients before every step, and hardly any
/// step changes it.
#[derive(Debug)]
pub(crate) struct ClientSession {
    session: Session,
    /// The last words of the session; nothing once it may have changed.
    timeout: Cell<Option<Option<Instant>>>,
}

impl ClientSession {
    pub(crate) const fn new(session: Session) -> Self {
        Self { session, timeout: Cell::new(None) }
    }

    /// As [`Session::poll_timeout`].
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let timeout = self.timeout.get().unwrap_or_else(|| self.session.poll_timeout());
        self.timeout.set(Some(timeout));
        timeout
    }
}

impl Deref for ClientSession {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

/// Every change of the session makes it be asked again.
impl DerefMut for ClientSession {
    fn deref_mut(&mut self) -> &mut Session {
        self.timeout.set(None);
        &mut self.session
    }
}

/// The time that a client's clock shows, against the true time, which is the server's apart from steps of that. It counts suspends as the
/// boot-time clock does, but its rate may be wrong, and it may jump ahead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Clock {
    /// At this true instant
    at: Instant,
    /// it showed this,
    shown: Instant,
    /// and it is too fast by so many millionths since then.
    ppm: i64,
}

const MILLION: i64 = 1_000_000;

impl Clock {
    /// The time that it shows at a true instant.
    pub(crate) fn shows(&self, now: Instant) -> Instant {
        let passed = now.since(self.at);
        self.shown + if self.ppm == 0 { passed } else { scaled(passed, MILLION + self.ppm, MILLION, false) }
    }

    /// The first true instant at which it shows this, or more.
    pub(crate) fn when(&self, shown: Instant) -> Instant {
        let to_pass = shown.since(self.shown);
        self.at + if self.ppm == 0 { to_pass } else { scaled(to_pass, MILLION, MILLION + self.ppm, true) }
    }

    /// From now on it is too fast by so many millionths.
    pub(crate) fn set_rate(&mut self, now: Instant, ppm: i64) {
        *self = Self { at: now, shown: self.shows(now), ppm };
    }

    /// It jumps ahead.
    pub(crate) fn jump(&mut self, now: Instant, by: Duration) {
        *self = Self { at: now, shown: self.shows(now) + by, ppm: self.ppm };
    }

    /// It has shown the same since then.
    pub(crate) fn stood_still(&mut self, since: Instant, now: Instant) {
        *self = Self { at: now, shown: self.shows(since), ppm: self.ppm };
    }
}

fn scaled(duration: Duration, by: i64, of: i64, up: bool) -> Duration {
    let (by, of) = (u128::from(by.unsigned_abs()), u128::from(of.unsigned_abs()));
    let product = duration.as_nanos() * by;
    let nanos = if up { product.div_ceil(of) } else { product / of };
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl World {
    /// Takes what the session wants done, and has woken futures polled.
    pub(crate) fn look_after(&mut self, client: usize) {
        let outer = self.draw_for(("background", client));
        self.send_calls(client, None);
        while let Some(action) = self.clients[client].session.poll_action() {
            match action {
                Action::Settle { id, durable, .. } => self.settle(client, id, durable),
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
        self.clients[client].session.take_woken().for_each(Waker::wake);
        self.plan_polls(client);
        self.draw_as(outer);
    }

    /// Lets the session of a client see that time has passed.
    pub(crate) fn let_time_pass(&mut self, client: usize) {
        let now = self.local(client);
        if self.clients[client].session.poll_timeout().is_some_and(|due| due <= now) {
            self.clients[client].session.handle_timeout(now);
            self.note_given_up(client);
            self.look_after(client);
        }
    }

    /// Records calls that the session gave up: their outcome is unknown.
    fn note_given_up(&mut self, client: usize) {
        let Client { session, tasks, .. } = &mut self.clients[client];
        for task in tasks {
            if let Some((_, key)) = task.call.take_if(|(id, _)| !session.awaits(*id)) {
                let hold = self.net.waiting.get(&key).and_then(|waiting| waiting.hold.clone());
                self.doubts.doubtful.extend(hold);
            }
        }
    }

    fn note_event(&mut self, event: &Event) {
        match event {
            Event::CleanedUp { .. } => self.stats.reach(Coverage::CleanedUp),
            Event::UnpolledTurn { .. } => self.stats.reach(Coverage::UnpolledTurn),
            Event::QueuePositionLost { .. } => self.stats.reach(Coverage::QueuePositionLost),
            _ => {}
        }
    }

    /// A client that lives. There always is one: who crashes is followed by another.
    pub(crate) fn somebody(&mut self) -> usize {
        let living: Vec<_> = (0..self.clients.len()).filter(|client| !self.clients[*client].dead).collect();
        living[self.rng.usize(..living.len())]
    }

    /// A client that was paused goes on.
    pub(crate) fn resume(&mut self, client: usize) {
        if self.clients[client].dead || self.clients[client].paused_until.is_none() {
            return;
        }
        trace!(self, "client {client} goes on");
        self.clients[client].paused_until = None;
        if let Some(since) = self.clients[client].stands_since.take() {
            self.clients[client].clock.stood_still(since, self.now);
            self.void(Promises::OfClient(client));
        }
        if self.leap(client) {
            self.stats.reach(Coverage::WokeLost);
        }
    }

    /// A client finds that time has passed without it. Whether it has lost something by that.
    pub(crate) fn leap(&mut self, client: usize) -> bool {
        let now = self.local(client);
        self.clients[client].leapt = Some(now);
        let lost = self
            .guards
            .iter()
            .any(|guard| guard.client == client && guard.alive && !guard.over && guard.cell.would_end(now).is_some());
        self.let_time_pass(client);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_rings_when_the_clock_first_shows_its_time() {
        let second = Duration::from_secs(1);
        for ppm in [-30_000, -9_000, -1, 0, 7, 30_000] {
            let mut clock = Clock::default();
            clock.set_rate(Instant::from_nanos(5), ppm);
            clock.jump(Instant::from_nanos(17), second);
            for nanos in [2_000_000_003, 3_141_592_653, 77_777_777_777] {
                let alarm = Instant::from_nanos(nanos);
                let rings = clock.when(alarm);
                assert!(clock.shows(rings) >= alarm, "{ppm} {nanos}");
                assert!(clock.shows(rings - Duration::from_nanos(1)) < alarm, "{ppm} {nanos}");
            }
        }
    }

    #[test]
    fn a_clock_that_stood_still_goes_on_where_it_stood() {
        let mut clock = Clock::default();
        let (from, until) = (Instant::from_nanos(100), Instant::from_nanos(900));
        clock.stood_still(from, until);
        assert_eq!(clock.shows(until), from);
        assert_eq!(clock.shows(until + Duration::from_nanos(3)), from + Duration::from_nanos(3));
    }
}
