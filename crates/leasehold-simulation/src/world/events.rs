//! The events of a world: the messages between clients and the server, what is done to the world, and the order in which they happen.

use crate::world::World;
use crate::world::network::Role;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::{LinkError, LinkEvent};
use leasehold_core::reply::Reply;
use leasehold_core::session::CallId;
use leasehold_core::time::Instant;
use leasehold_embedded::{RefuseAt, Snapshot};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;

/// An act on the world at a planned instant. The modules above the world define the acts.
pub(crate) trait Act: Any + Debug {
    /// The client that performs the act, or `None` for an act outside all clients.
    fn within(&self, world: &World) -> Option<usize>;

    /// The part of the world that the act draws for. It does not depend on the other parts.
    fn draws_for(&self, world: &World, number: u64) -> u64;

    fn happen(self: Box<Self>, world: &mut World);

    /// The client that would have performed the act is dead.
    fn miss(self: Box<Self>, _world: &mut World) {}
}

/// Something that is about to happen.
#[derive(Debug)]
pub(crate) enum WorldEvent {
    Message(Message),
    /// A future that was woken is polled.
    Poll {
        client: usize,
        task: usize,
    },
    Act(Box<dyn Act>),
}

impl From<Message> for WorldEvent {
    fn from(message: Message) -> Self {
        Self::Message(message)
    }
}

impl<A: Act> From<A> for WorldEvent {
    fn from(act: A) -> Self {
        Self::Act(Box::new(act))
    }
}

impl WorldEvent {
    /// Whether it happens within a client, and to which; otherwise it happens elsewhere, whatever clients do.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Message(message) => message.within(world),
            Self::Poll { client, .. } => Some(*client),
            Self::Act(act) => act.within(world),
        }
    }
}

/// The events to come, in the order in which they happen.
#[derive(Debug)]
pub(crate) struct EventQueue<E> {
    pub(crate) queue: BTreeMap<(Instant, u64), E>,
    pub(crate) next_number: u64,
    /// How many steps there were at the present instant.
    standing: u64,
}

impl<E> Default for EventQueue<E> {
    fn default() -> Self {
        Self { queue: BTreeMap::new(), next_number: 0, standing: 0 }
    }
}

impl<E> EventQueue<E> {
    /// A number that is given to nothing else in the world.
    pub(crate) fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(crate) fn add(&mut self, at: Instant, event: E) {
        let number = self.number();
        self.queue.insert((at, number), event);
    }

    /// An event that was taken happens later, before all that is added from now on.
    pub(crate) fn put_off(&mut self, until: Instant, number: u64, event: E) {
        self.queue.insert((until, number), event);
    }

    /// Events of a sort that were to happen before then happen then, in the same order.
    pub(crate) fn put_off_all(&mut self, until: Instant, is_one: impl Fn(&E) -> bool) {
        let early = self.queue.iter().filter(|((at, _), event)| *at < until && is_one(event));
        for key in early.map(|(key, _)| *key).collect::<Vec<_>>() {
            if let Some(event) = self.queue.remove(&key) {
                self.queue.insert((until, key.1), event);
            }
        }
    }

    pub(crate) fn next_at(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// The next event, with its number, if it is due by now.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(u64, E)> {
        self.next_at().filter(|at| *at <= now)?;
        self.queue.pop_first().map(|((_, number), event)| (number, event))
    }

    /// The world takes a step, at the same instant as the last one or later.
    pub(crate) fn count_step(&mut self, at_the_same_instant: bool) {
        self.standing = if at_the_same_instant { self.standing + 1 } else { 0 };
        assert!(self.standing < 100_000, "the world stands still");
    }
}

impl World {
    /// Events within a client wait while it is paused, and happen no more once it is dead.
    pub(crate) fn apply_unless_paused(&mut self, number: u64, what: WorldEvent) {
        if self.parts.leave_out_event(number) {
            return;
        }
        self.draw_for_event(number, &what);
        let within = what.within(self);
        if within.is_some_and(|client| self.clients[client].dead) {
            if let WorldEvent::Act(act) = what {
                act.miss(self);
            }
            return;
        }
        // Run the client before its next event.
        if let Some(client) = within
            && self.clients[client].paused_until.is_some_and(|until| until <= self.now)
        {
            self.resume(client);
        }
        let paused_until = what.within(self).and_then(|client| self.clients[client].paused_until);
        match paused_until.filter(|until| *until > self.now) {
            Some(until) => self.events.put_off(until, number, what),
            None => self.apply(what),
        }
    }

    /// Lets something happen.
    pub(crate) fn apply(&mut self, event: impl Into<WorldEvent>) {
        match event.into() {
            WorldEvent::Message(message) => self.apply_message(message),
            WorldEvent::Poll { client, task } => self.poll(client, task),
            WorldEvent::Act(act) => act.happen(self),
        }
    }

    fn apply_message(&mut self, message: Message) {
        match message {
            Message::Arrive { key, client, role, life, call, reply } => {
                self.arrive(key, client, role, life, call, reply);
            }
            Message::Copy { key, call } => self.arrive_again(key, call),
            Message::NoScript { key, client, role, call, reply } => self.no_script(key, client, role, call, reply),
            Message::Answer { key, result } => self.answer(key, result),
            Message::Barrier { of, until } => self.barrier_arrives(of, until),
            Message::Settled { of } => self.barrier_answered(of),
            Message::Kill { of } => self.kill_arrives(of),
            Message::Killed { of, proven } => self.kill_answered(of, proven),
            Message::SettleFailed { client, id } => {
                self.settled(client, id, Err(LinkError::NotSent("no connection".to_owned())));
            }
            Message::Subscription { client, channel, wanted, life, fate } => {
                self.subscription(client, channel, wanted, life, fate);
            }
            Message::SubscriptionAnswer { client, channel, wanted, life, result } => {
                self.subscription_answered(client, channel, wanted, life, result);
            }
            Message::Notice { client, event, life } => {
                if self.net.wires[client].life == life {
                    self.event(client, event);
                }
            }
            Message::Event { client, event } => self.event(client, event),
            Message::Lost { client, role, lose } => self.lose_connection(client, role, lose),
            Message::Reconnected { client, role } => self.reconnected(client, role),
            Message::Replicated { reign, content } => self.replicated(reign, content),
        }
    }
}

/// The number of a call in the world.
pub(crate) type CallKey = u64;

/// A settling of one connection: all calls up to `life` are dead afterwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settlement {
    pub(crate) client: usize,
    pub(crate) role: Role,
    pub(crate) life: u64,
    /// The client's name for it.
    pub(crate) id: CallId,
}

/// A message that is about to come to the server or to a client, or the time at which it is not awaited any longer.
#[derive(Debug)]
pub(crate) enum Message {
    /// A request comes to the server.
    Arrive {
        key: CallKey,
        client: usize,
        role: Role,
        life: u64,
        call: Call,
        reply: ReplyFate,
    },
    /// A copy of a request comes to the server; its reply is not waited for.
    Copy {
        key: CallKey,
        call: Call,
    },
    /// A reply, or its absence, comes to the client.
    Answer {
        key: CallKey,
        result: Result<Reply, LinkError>,
    },
    /// A barrier comes to the server, behind all that was sent by its connection before, and is awaited until then.
    Barrier {
        of: Settlement,
        until: Instant,
    },
    /// A barrier on a connection was answered, or a control command was.
    Settled {
        of: Settlement,
    },
    /// The barrier is not awaited any longer: the connections are killed.
    Kill {
        of: Settlement,
    },
    Killed {
        of: Settlement,
        proven: bool,
    },
    SettleFailed {
        client: usize,
        id: CallId,
    },
    /// A subscription, or its end, comes to the server.
    Subscription {
        client: usize,
        channel: Bytes,
        wanted: bool,
        life: u64,
        fate: Result<(), LinkError>,
    },
    /// Its confirmation comes to the client.
    SubscriptionAnswer {
        client: usize,
        channel: Bytes,
        wanted: bool,
        life: u64,
        result: Result<(), LinkError>,
    },
    /// A message on a channel, as the link tells it.
    Notice {
        client: usize,
        event: LinkEvent,
        life: u64,
    },
    Event {
        client: usize,
        event: LinkEvent,
    },
    /// A connection is lost by chance, or because of what was sent by it.
    Lost {
        client: usize,
        role: Role,
        lose: bool,
    },
    Reconnected {
        client: usize,
        role: Role,
    },
    /// The replica of a server has heard of all that it had.
    Replicated {
        reign: u32,
        content: Snapshot,
    },
    /// The server did not know the script: the link sends its text.
    NoScript {
        key: CallKey,
        client: usize,
        role: Role,
        call: Call,
        reply: ReplyFate,
    },
}

impl Message {
    /// The client that it comes to; nothing, if it comes to the server.
    pub(crate) fn within(&self, world: &World) -> Option<usize> {
        match self {
            Self::Answer { key, .. } => world.net.waiting.get(key).map(|waiting| waiting.client),
            Self::Settled { of, .. } | Self::Kill { of } | Self::Killed { of, .. } => Some(of.client),
            Self::SettleFailed { client, .. }
            | Self::SubscriptionAnswer { client, .. }
            | Self::Notice { client, .. }
            | Self::Event { client, .. }
            | Self::Reconnected { client, .. }
            | Self::NoScript { client, .. } => Some(*client),
            Self::Arrive { .. }
            | Self::Copy { .. }
            | Self::Barrier { .. }
            | Self::Subscription { .. }
            | Self::Lost { .. }
            | Self::Replicated { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyFate {
    Comes,
    /// The connection is lost after the call was applied.
    Lost,
    /// It never comes, and the connection looks alive.
    Swallowed,
    /// The server refuses the call with this error.
    Refused(&'static str),
    /// The script meets an error in its middle.
    Inside(RefuseAt),
}

/// The key of the lock of a call.
pub(crate) fn lock_of(call: &Call) -> Bytes {
    Bytes::copy_from_slice(&call.keys()[0])
}

/// The id that tells one hold from all others in the calls of its kind, and the count that the call is about.
pub(crate) fn hold_of(call: &Call) -> Option<(Bytes, u32)> {
    let (folder, verb) = call.script().name().split_once('/')?;
    if !matches!(verb, "acquire" | "release") || folder == "latch" {
        return None;
    }
    let (id, count) = match folder {
        "semaphore" => (call.keys().get(1)?, call.args().first()?),
        _ => (call.args().first()?, call.args().get(1)?),
    };
    Some((Bytes::copy_from_slice(id), std::str::from_utf8(count).ok()?.parse().ok()?))
}
