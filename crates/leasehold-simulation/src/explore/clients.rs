//! What each client does in each of its states, carried out once and remembered.

use super::client::{Client, Input, Request, Seen, Wire};
use super::pool::Pool;
use super::script::{Operation, Subject};
use leasehold_core::command::Kind;
use leasehold_core::link::ServerError;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::collections::HashMap;
use std::rc::Rc;

/// What a client is told, with numbers for what is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Begin,
    Answer { key: u32, reply: u32 },
    Settled { key: u32 },
    Subscribed,
    Unsubscribed,
    Notice,
    Tick,
    Reset(Wire),
    Poll,
}

/// A state of a client: how it was reached first, and what can be seen of it.
#[derive(Debug)]
struct Node {
    from: Option<(u32, Instant, Told)>,
    seen: Rc<Seen>,
}

/// What comes of an input: the state after it, and what is sent.
pub(super) type Turn = (u32, Rc<[(Wire, u32)]>);

/// Replies, with their numbers.
pub(super) type Replies = Pool<Rc<Result<Reply, ServerError>>>;

/// All states of one client that were met. The first has the number 0.
#[derive(Debug)]
pub(super) struct Clients {
    number: usize,
    kind: Kind,
    script: Vec<Operation>,
    late_polls: bool,
    nodes: Vec<Node>,
    by_hash: HashMap<u128, u32>,
    turns: HashMap<(u32, Instant, Told), Turn>,
    /// The last state that was carried out.
    live: Option<(u32, Client)>,
}

impl Clients {
    pub(super) fn new(number: usize, subject: Subject, late_polls: bool) -> Self {
        let (kind, script) = (subject.kind(), subject.script(number));
        let first = Client::new(number, kind);
        let nodes = vec![Node { from: None, seen: Rc::new(first.seen(&script)) }];
        let by_hash = HashMap::from([(first.hash(), 0)]);
        Self { number, kind, script, late_polls, nodes, by_hash, turns: HashMap::new(), live: None }
    }

    /// How many states there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn seen(&self, state: u32) -> &Rc<Seen> {
        &self.nodes[state as usize].seen
    }

    pub(super) fn script(&self) -> &[Operation] {
        &self.script
    }

    /// Tells a client in a state something.
    pub(super) fn tell(
        &mut self,
        state: u32,
        now: Instant,
        told: Told,
        replies: &Replies,
        requests: &mut Pool<Request>,
    ) -> Turn {
        if let Some(known) = self.turns.get(&(state, now, told)) {
            return known.clone();
        }
        let mut client = self.bring_about(state, replies);
        let input = input_of(told, replies);
        let sent = client.handle(now, &input, &self.script, self.late_polls);
        let mut number = |request: Request| {
            let text = format!("{request:?}");
            requests.number(request, text)
        };
        let sent: Vec<_> = sent.into_iter().map(|(wire, request)| (wire, number(request))).collect();
        let nodes = &mut self.nodes;
        let script = &self.script;
        let next = *self.by_hash.entry(client.hash()).or_insert_with(|| {
            nodes.push(Node { from: Some((state, now, told)), seen: Rc::new(client.seen(script)) });
            u32::try_from(nodes.len() - 1).expect("a client has few states")
        });
        self.live = Some((next, client));
        let turn: Turn = (next, sent.into());
        self.turns.insert((state, now, told), turn.clone());
        turn
    }

    /// The client in a state, by what it was told on the way there.
    fn bring_about(&mut self, state: u32, replies: &Replies) -> Client {
        if let Some((_, client)) = self.live.take().filter(|(live, _)| *live == state) {
            return client;
        }
        let mut way = Vec::new();
        let mut at = state;
        while let Some((before, now, told)) = self.nodes[at as usize].from {
            way.push((now, told));
            at = before;
        }
        let mut client = Client::new(self.number, self.kind);
        for (now, told) in way.into_iter().rev() {
            let _sent = client.handle(now, &input_of(told, replies), &self.script, self.late_polls);
        }
        client
    }
}

fn input_of(told: Told, replies: &Replies) -> Input {
    match told {
        Told::Begin => Input::Begin,
        Told::Answer { key, reply } => Input::Answer { key, result: Rc::clone(replies.get(reply)) },
        Told::Settled { key } => Input::Settled { key },
        Told::Subscribed => Input::Subscribed,
        Told::Unsubscribed => Input::Unsubscribed,
        Told::Notice => Input::Notice,
        Told::Tick => Input::Tick,
        Told::Reset(wire) => Input::Reset(wire),
        Told::Poll => Input::Poll,
    }
}
