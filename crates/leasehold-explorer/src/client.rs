//! One client of a small world: a real session, and the futures of its script's current operations.

use super::names::HOLDS;
use super::script::{Operation, Subject};
use super::sketch::sketch;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::{Kind, ReleaseArgs};
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::hold_cell::HoldCell;
use leasehold_core::link::{LinkError, LinkEvent, ServerError, Settled};
use leasehold_core::name::LockName;
use leasehold_core::owner::{ClientId, HoldNumber, OwnerId};
use leasehold_core::reply::Reply;
use leasehold_core::session::{
    AcquireRequest, Action, CallId, ClientStats, Event, Granted, LingerTime, Outgoing, Session, Ticket,
};
use leasehold_core::settings::{FairSettings, HandOver, Settings};
use leasehold_core::time::Instant;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;
use uuid::Uuid;

/// The lease of every hold. Renewals happen at multiples of 1/192 of the lease, which is a millisecond. So a session
/// depends on the clock only by the fraction of the millisecond.
pub(crate) const LEASE: Duration = Duration::from_millis(192);

/// The start of a small world. It is late enough to prevent instants before the clock's zero.
pub(crate) const START: Instant = Instant::from_nanos(1_000_000_000_000);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// `window` is the liveness timeout of a fair queue. Clients send five heartbeats in each window.
fn settings(window: Duration, hand_over: Option<HandOver>) -> Settings {
    let fair = FairSettings {
        liveness_timeout: window,
        heartbeat_interval: window / 5,
        offer_timeout: ms(1_000),
        grace: ms(1_000),
        idle: ms(60_000),
        ..FairSettings::default()
    };
    Settings {
        lease: LEASE,
        recheck: ms(480),
        command_timeout: ms(96),
        unreachable_after: ms(10_000),
        fair,
        hand_over,
        ..Settings::default()
    }
}

/// The lock of every small world.
pub(crate) fn lock() -> LockName {
    LockName::new("", "lock").expect("the name is valid")
}

/// The identity that every session uses, which lets clients with equal scripts share states. Messages to and from the
/// server translate it to the client's identity.
pub(crate) const ANYBODY: usize = 15;

/// Returns the identity of a client.
pub(crate) const fn identity(client: usize) -> ClientId {
    ClientId::new(Uuid::from_u128(0x6f0c_0000_0000_4000_8000_0000_0000_0000 | client as u128))
}

/// A connection of a client, which keeps the order of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wire {
    Calls,
    /// For the commands that kill other connections.
    Control,
    /// For subscriptions. Notices travel separately.
    Notices,
}

impl Wire {
    pub(crate) const ALL: [Self; 3] = [Self::Calls, Self::Control, Self::Notices];
}

/// Every step draws equal random numbers, so a client's state is independent of earlier draws.
const SEED: u64 = 1;

/// The messages of a client.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// A call, with its number within the client.
    Call {
        key: u32,
        call: Call,
    },
    /// A barrier: its reply follows the replies to all earlier requests of the connection.
    Barrier {
        key: u32,
    },
    /// Kills the earlier connections for calls.
    Kill {
        key: u32,
    },
    Subscribe,
    Unsubscribe,
}

/// Messages on the channel of the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Message {
    /// The lock is released.
    Released,
    /// Another client requests the lock, which may linger.
    Wanted,
}

/// The inputs and operations of a client.
#[derive(Clone, Debug)]
pub(crate) enum Input {
    /// The next operation of the script begins.
    Begin,
    /// A reply arrived.
    Answer {
        key: u32,
        result: Rc<Result<Reply, ServerError>>,
    },
    /// A settlement completed.
    Settled {
        key: u32,
    },
    Subscribed,
    Unsubscribed,
    Notice(Message),
    /// Time has passed.
    Tick,
    /// A connection was lost and replaced.
    Reset,
    /// The client polls a woken future.
    Poll,
}

#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The work of a task.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// The script's acquire with this number, from 0. Whether the script continues during the acquire.
    Acquire { index: usize, kind: Kind, permits: u32, renewed: bool, beside: bool },
    /// Whether the guard was held when the release began.
    Release { held: bool },
}

/// The future of an operation.
#[derive(Debug)]
struct Task {
    ticket: Ticket,
    work: Work,
    /// The waker of the task, and whether it was woken.
    flag: Arc<Flag>,
}

/// A guard of the client.
#[derive(Debug)]
struct Guard {
    hold: HoldNumber,
    cell: Arc<HoldCell>,
    kind: Kind,
    permits: u32,
    renewed: bool,
    field: String,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Client {
    channel: Bytes,
    session: Session,
    owner: OwnerId,
    linger: Option<LingerTime>,
    /// The next operation.
    next: usize,
    /// The pending operations, in the order of the script.
    tasks: Vec<Task>,
    /// The guards, by the number of their acquire in the script.
    guards: Vec<Option<Guard>>,
    /// The calls in flight.
    waiting: BTreeMap<u32, CallId>,
    /// The settlements in flight, and whether the connection for calls replies to each.
    settling: BTreeMap<u32, (bool, CallId)>,
    wrong: Option<String>,
}

/// The externally visible part of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether the client can begin its next operation.
    pub(crate) begins: bool,
    /// The number of the next operation.
    pub(crate) next: usize,
    /// Whether the client ignores notices: it has no pending or future acquire, and no lingering hold.
    pub(crate) is_deaf: bool,
    /// Whether the script has ended.
    pub(crate) is_done: bool,
    /// Whether a woken future has not been polled yet.
    pub(crate) is_woken: bool,
    /// The time until the next timer.
    pub(crate) due: Option<Duration>,
    pub(crate) beliefs: Vec<Belief>,
    /// Whether no call and no settlement is pending.
    pub(crate) is_idle: bool,
    /// Whether a clean-up is pending.
    pub(crate) has_clean_up: bool,
    /// Whether a hold lingers without a guard.
    pub(crate) lingers: bool,
    /// Whether the client delays its acquire, because other clients have a head start.
    pub(crate) gives_head_start: bool,
    /// The remaining data, if the client stopped now.
    pub(crate) left: Option<ClientStats>,
    /// The detected fault.
    pub(crate) wrong: Option<String>,
}

/// The externally visible part of a guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Belief {
    pub(crate) kind: Kind,
    pub(crate) permits: u32,
    pub(crate) field: String,
    /// The time for which the guard still counts as held. `None` after the end of its hold.
    pub(crate) left: Option<Duration>,
    pub(crate) hold: HoldNumber,
}

impl Belief {
    /// Returns whether the client believes that it holds the lock.
    pub(crate) fn holds(&self) -> bool {
        self.left.is_some_and(|left| !left.is_zero())
    }
}

impl Task {
    fn is_woken(&self) -> bool {
        self.flag.0.load(Ordering::Relaxed)
    }
}

impl Client {
    pub(crate) fn new(subject: Subject, window: Duration) -> Self {
        let mut session = Session::new(identity(ANYBODY), settings(window, subject.hand_over()), SEED);
        let owner = session.new_owner();
        Self {
            channel: channel_of(subject.kind(), ANYBODY),
            session,
            owner,
            linger: subject.linger(),
            next: 0,
            tasks: Vec::new(),
            guards: Vec::new(),
            waiting: BTreeMap::new(),
            settling: BTreeMap::new(),
            wrong: None,
        }
    }

    /// Applies an input, and returns the messages that the client sends.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        input: &Input,
        script: &[Operation],
        late_polls: bool,
    ) -> Vec<(Wire, Request)> {
        let mut sent = Vec::new();
        self.session.reseed(SEED);
        match input {
            Input::Begin => self.begin(now, script, &mut sent),
            Input::Answer { key, result } => {
                let result = Result::clone(result).map_err(LinkError::Refused);
                self.answer(now, *key, result);
            }
            Input::Settled { key } => {
                if let Some((_, id)) = self.settling.remove(key) {
                    self.session.handle_settled(now, id, Ok(Settled::Proven));
                }
            }
            Input::Subscribed => self.session.handle_subscribed(now, &self.channel, Ok(())),
            Input::Unsubscribed => self.session.handle_unsubscribed(now, &self.channel, Ok(())),
            Input::Notice(message) => {
                let channel = self.channel.clone();
                self.session.handle_event(
                    now,
                    match message {
                        Message::Released => LinkEvent::Notice { channel },
                        Message::Wanted => LinkEvent::Wanted { channel },
                    },
                );
            }
            Input::Tick => self.session.handle_timeout(now),
            Input::Reset => self.reset(now, &mut sent),
            Input::Poll => self.poll_woken(now, &mut sent),
        }
        self.look_after(now, &mut sent);
        while !late_polls && self.is_woken() {
            self.poll_woken(now, &mut sent);
            self.look_after(now, &mut sent);
        }
        sent
    }

    fn is_woken(&self) -> bool {
        self.tasks.iter().any(Task::is_woken)
    }

    /// Polls the first woken future.
    fn poll_woken(&mut self, now: Instant, sent: &mut Vec<(Wire, Request)>) {
        if let Some(at) = self.tasks.iter().position(Task::is_woken) {
            self.poll(now, at, sent);
        }
    }

    /// Returns whether the script can continue.
    fn begins(&self, script: &[Operation]) -> bool {
        let blocks = |task: &Task| match task.work {
            Work::Acquire { index, beside, .. } => !beside || script.get(self.next) == Some(&Operation::Release(index)),
            Work::Release { .. } => true,
        };
        self.next < script.len() && !self.tasks.iter().any(blocks)
    }

    /// Returns the lowest number without a pending call or settlement.
    fn key(&self) -> u32 {
        let is_free = |key: &u32| !self.waiting.contains_key(key) && !self.settling.contains_key(key);
        (0..).find(is_free).expect("few answers are awaited")
    }

    fn begin(&mut self, now: Instant, script: &[Operation], sent: &mut Vec<(Wire, Request)>) {
        let operation = script[self.next];
        self.next += 1;
        let mut acquire = |kind, permits, renewed, owner: Option<OwnerId>| {
            let beside = owner.is_none();
            let mut wish = AcquireRequest::new(lock(), kind, LEASE);
            (wish.owner, wish.permits, wish.renewed, wish.linger) = (owner, permits, renewed, self.linger);
            self.guards.push(None);
            let index = self.guards.len() - 1;
            (self.session.acquire(now, wish), Work::Acquire { index, kind, permits, renewed, beside })
        };
        let (ticket, work) = match operation {
            Operation::Acquire { kind, permits, renewed } => acquire(kind, permits, renewed, Some(self.owner)),
            Operation::AcquireBeside { kind, renewed } => acquire(kind, 1, renewed, None),
            Operation::Release(index) => {
                let Some(guard) = self.guards.get_mut(index).and_then(Option::take) else { return };
                let held = guard.cell.ended(now).is_none();
                (self.session.release(now, guard.hold, guard.renewed), Work::Release { held })
            }
        };
        self.tasks.push(Task { ticket, work, flag: Arc::default() });
        self.poll(now, self.tasks.len() - 1, sent);
    }

    /// Executes the session's requests, and wakes its wakers.
    fn look_after(&mut self, now: Instant, sent: &mut Vec<(Wire, Request)>) {
        self.send_calls(sent);
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Settle { id, .. } => {
                    let key = self.key();
                    self.settling.insert(key, (true, id));
                    sent.push((Wire::Calls, Request::Barrier { key }));
                }
                Action::Subscribe { channel } => {
                    if channel != self.channel {
                        self.note("it listens to another channel than its own".to_owned());
                    }
                    sent.push((Wire::Notices, Request::Subscribe));
                }
                Action::Unsubscribe { .. } => sent.push((Wire::Notices, Request::Unsubscribe)),
            }
        }
        while let Some(event) = self.session.poll_event() {
            // The client returns a late grant with its place. A grant can only be late after time has passed.
            if now == START && matches!(event, Event::QueuePositionLost { .. } | Event::UnpolledTurn { .. }) {
                self.note(format!("{event:?}"));
            }
        }
        self.session.take_woken().for_each(Waker::wake);
    }

    fn note(&mut self, wrong: String) {
        self.wrong.get_or_insert(wrong);
    }

    fn answer(&mut self, now: Instant, key: u32, result: Result<Reply, LinkError>) {
        if let Some(id) = self.waiting.remove(&key) {
            self.session.handle_called(now, id, result);
        }
    }

    /// Loses the connection for calls. Pending calls have unknown outcomes until a kill settles them.
    fn reset(&mut self, now: Instant, sent: &mut Vec<(Wire, Request)>) {
        let lost: Vec<u32> = self.waiting.keys().copied().collect();
        for key in lost {
            self.answer(now, key, Err(LinkError::Unknown("the connection was lost".to_owned())));
        }
        for (key, (by_barrier, _)) in &mut self.settling {
            if std::mem::take(by_barrier) {
                sent.push((Wire::Control, Request::Kill { key: *key }));
            }
        }
        self.session.handle_event(now, LinkEvent::CallsReset);
    }

    /// Polls the future of an operation once.
    fn poll(&mut self, now: Instant, at: usize, sent: &mut Vec<(Wire, Request)>) {
        let task = &mut self.tasks[at];
        task.flag.0.store(false, Ordering::Relaxed);
        let (ticket, work) = (task.ticket, task.work);
        let waker = Waker::from(task.flag.clone());
        match work {
            Work::Acquire { .. } => {
                if let Poll::Ready(outcome) = self.session.poll_acquire(now, ticket, &waker) {
                    self.tasks.remove(at);
                    self.acquired(now, work, outcome);
                }
            }
            Work::Release { held } => {
                if let Poll::Ready(outcome) = self.session.poll_release(now, ticket, &waker) {
                    self.tasks.remove(at);
                    self.released(held, outcome);
                }
            }
        }
        self.send_calls(sent);
    }

    fn send_calls(&mut self, sent: &mut Vec<(Wire, Request)>) {
        while let Some(Outgoing { id, call, .. }) = self.session.poll_call() {
            let key = self.key();
            self.waiting.insert(key, id);
            sent.push((Wire::Calls, Request::Call { key, call }));
        }
    }

    fn acquired(&mut self, now: Instant, work: Work, outcome: Result<Option<Granted>, AcquireError>) {
        let Work::Acquire { index, kind, permits, renewed, .. } = work else { return };
        let granted = match outcome {
            Ok(Some(granted)) => Some(granted),
            // The hold for the re-entry was lost.
            Err(AcquireError::Lost(_)) => None,
            other => {
                self.note(format!("an acquire ended with {other:?}"));
                None
            }
        };
        let guard = granted.map(|granted| {
            let field = self.field_of(kind, &granted.cell);
            Guard { hold: granted.hold, cell: granted.cell, kind, permits, renewed, field }
        });
        if guard.as_ref().is_some_and(|guard| guard.cell.ended(now).is_some()) {
            self.note("a grant was handed out that has ended".to_owned());
        }
        self.guards[index] = guard;
    }

    fn released(&mut self, held: bool, outcome: Result<(), ReleaseError>) {
        match outcome {
            Ok(()) if held => {}
            Ok(()) => self.note("a hold that was lost was released".to_owned()),
            Err(ReleaseError::Lost(_) | ReleaseError::OutcomeUnknown(_)) => {}
            Err(other) => self.note(format!("a release ended with {other:?}")),
        }
    }

    /// Returns the name of a hold in the calls of its kind.
    fn field_of(&self, kind: Kind, cell: &HoldCell) -> String {
        let client = self.session.client();
        let name = lock();
        let keys = kind.protocol().keys(&name, &client);
        let give = ReleaseArgs {
            name: &name,
            keys: &keys,
            hold: &cell.key(),
            count: 0,
            granted: true,
            keep: Duration::ZERO,
            settings: self.session.settings(),
        };
        let call = kind.protocol().release(&give);
        text_of(&call.args()[0])
    }

    /// Returns a hash of all state that influences the client's further steps.
    pub(crate) fn hash(&self, now: Instant) -> u128 {
        sketch(&format!("{self:?}"), now)
    }

    /// Returns the externally visible part of the client.
    pub(crate) fn seen(&self, now: Instant, script: &[Operation]) -> Seen {
        let census = self.session.stats();
        let left = census != ClientStats::default() || self.session.has_clean_up();
        let numbers = std::iter::successors(Some(HoldNumber::FIRST), |number| Some(number.next())).take(HOLDS);
        let belief = |guard: &Guard| Belief {
            kind: guard.kind,
            permits: guard.permits,
            field: guard.field.clone(),
            left: guard.cell.would_end(START).is_none().then(|| guard.cell.deadline().since(now)),
            hold: guard.hold,
        };
        let is_acquire = |operation: &Operation| !matches!(operation, Operation::Release(_));
        let acquires = |task: &Task| matches!(task.work, Work::Acquire { .. });
        let has_acquired = !self.tasks.iter().any(acquires) && !script[self.next..].iter().any(is_acquire);
        Seen {
            begins: self.begins(script),
            next: self.next,
            is_deaf: has_acquired && (self.linger.is_none() || !left),
            is_done: self.tasks.is_empty() && self.next == script.len(),
            is_woken: self.is_woken(),
            due: self.session.poll_timeout().map(|due| due.since(now)),
            beliefs: self.guards.iter().flatten().map(belief).collect(),
            is_idle: self.waiting.is_empty() && self.settling.is_empty(),
            has_clean_up: self.session.has_clean_up(),
            lingers: numbers.into_iter().any(|number| self.session.lingers(number)),
            gives_head_start: self.session.gives_head_start(now, lock().key()),
            left: left.then_some(census),
            wrong: self.wrong.clone(),
        }
    }
}

/// Returns the channel on which a client receives notices of the lock.
pub(crate) fn channel_of(kind: Kind, client: usize) -> Bytes {
    kind.protocol().keys(&lock(), &identity(client)).channel.expect("the kind has notices")
}

/// Formats bytes for output.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}
