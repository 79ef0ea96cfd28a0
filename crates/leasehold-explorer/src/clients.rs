//! A cache of client steps: executes each step in each state once. Clients with equal scripts share the cache.

use super::client::{Client, Input, Message, Request, START, Seen, Wire};
use super::pool::{Pool, Quick};
use super::script::{Operation, Subject};
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

/// The inputs of a client. Numbers replace long values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    Begin,
    Answer {
        key: u32,
        reply: u32,
    },
    Settled {
        key: u32,
    },
    Subscribed,
    Unsubscribed,
    Notice(Message),
    Tick,
    Reset,
    Poll,
    /// This number of nanoseconds passes.
    Pass(u64),
}

/// A state of a client: its first path, and its visible part.
#[derive(Debug)]
struct Node {
    from: Option<(u32, Told)>,
    seen: Rc<Seen>,
}

/// The result of an input: the state after it, and the messages.
pub(crate) type Turn = (u32, Rc<[(Wire, u32)]>);

/// A reply, with its number.
pub(crate) type Replies = Pool<Rc<Result<Reply, ServerError>>>;

/// All reached states of the clients with one script. The initial state has the number 0.
#[derive(Debug)]
pub(crate) struct Clients {
    subject: Subject,
    window: Duration,
    script: Vec<Operation>,
    late_polls: bool,
    nodes: Vec<Node>,
    by_hash: HashMap<u128, u32, Quick>,
    turns: HashMap<(u32, Told), Turn, Quick>,
    /// The last executed state, and its instant.
    live: Option<(u32, Client, Instant)>,
}

impl Clients {
    pub(crate) fn new(subject: Subject, window: Duration, script: Vec<Operation>, late_polls: bool) -> Self {
        let first = Client::new(subject, window);
        let nodes = vec![Node { from: None, seen: Rc::new(first.seen(START, &script)) }];
        let by_hash = HashMap::from_iter([(first.hash(START), 0)]);
        Self { subject, window, script, late_polls, nodes, by_hash, turns: HashMap::default(), live: None }
    }

    /// Returns the number of states.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn seen(&self, state: u32) -> &Rc<Seen> {
        &self.nodes[state as usize].seen
    }

    pub(crate) fn script(&self) -> &[Operation] {
        &self.script
    }

    /// Applies an input to a client in a state.
    pub(crate) fn tell(&mut self, state: u32, told: Told, replies: &Replies, requests: &mut Pool<Request>) -> Turn {
        if let Some(known) = self.turns.get(&(state, told)) {
            return known.clone();
        }
        let (mut client, mut now) = self.bring_about(state, replies);
        let sent = self.carry_out(&mut client, &mut now, told, replies);
        let mut number = |request: Request| {
            let text = format!("{request:?}");
            requests.number(request, text)
        };
        let sent: Vec<_> = sent.into_iter().map(|(wire, request)| (wire, number(request))).collect();
        let hash = client.hash(now);
        self.check_deaf(&mut client, now, hash);
        let nodes = &mut self.nodes;
        let script = &self.script;
        let next = *self.by_hash.entry(hash).or_insert_with(|| {
            nodes.push(Node { from: Some((state, told)), seen: Rc::new(client.seen(now, script)) });
            u32::try_from(nodes.len() - 1).expect("a client has few states")
        });
        self.live = Some((next, client, now));
        let turn: Turn = (next, sent.into());
        self.turns.insert((state, told), turn.clone());
        turn
    }

    /// Checks that a notice does not change a client that ignores notices.
    fn check_deaf(&self, client: &mut Client, now: Instant, hash: u128) {
        if client.seen(now, &self.script).is_deaf {
            for message in [Message::Released, Message::Wanted] {
                let sent = client.handle(now, &Input::Notice(message), &self.script, self.late_polls);
                assert!(sent.is_empty() && client.hash(now) == hash, "a client that is deaf has heard: {client:?}");
            }
        }
    }

    fn carry_out(&self, client: &mut Client, now: &mut Instant, told: Told, replies: &Replies) -> Vec<(Wire, Request)> {
        let input = match told {
            Told::Pass(nanos) => {
                *now = *now + Duration::from_nanos(nanos);
                return Vec::new();
            }
            Told::Begin => Input::Begin,
            Told::Answer { key, reply } => Input::Answer { key, result: Rc::clone(replies.get(reply)) },
            Told::Settled { key } => Input::Settled { key },
            Told::Subscribed => Input::Subscribed,
            Told::Unsubscribed => Input::Unsubscribed,
            Told::Notice(message) => Input::Notice(message),
            Told::Tick => Input::Tick,
            Told::Reset => Input::Reset,
            Told::Poll => Input::Poll,
        };
        client.handle(*now, &input, &self.script, self.late_polls)
    }

    /// Rebuilds the client in a state from the inputs of its path. Also returns its instant.
    fn bring_about(&mut self, state: u32, replies: &Replies) -> (Client, Instant) {
        if let Some((_, client, now)) = self.live.take().filter(|(live, ..)| *live == state) {
            return (client, now);
        }
        let mut way = Vec::new();
        let mut at = state;
        while let Some((before, told)) = self.nodes[at as usize].from {
            way.push(told);
            at = before;
        }
        let (mut client, mut now) = (Client::new(self.subject, self.window), START);
        for told in way.into_iter().rev() {
            let _sent = self.carry_out(&mut client, &mut now, told, replies);
        }
        (client, now)
    }
}
