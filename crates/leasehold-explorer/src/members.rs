//! A client with its connections: what is on the way by each of them, and what comes of each step that concerns it alone.

use super::client::{Message, Request, Seen, Wire};
use super::clients::{Clients, Replies, Told};
use super::pool::{Pool, Quick};
use std::collections::HashMap;
use std::rc::Rc;

/// Messages that come back to a client by a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Back {
    Answer {
        key: u32,
        reply: u32,
    },
    /// The answer to a barrier, or that the earlier connections have been killed.
    Settled {
        key: u32,
        by_barrier: bool,
    },
    Subscribed,
    Unsubscribed,
}

/// One connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lane {
    /// Requests on the way, by their numbers.
    pub(crate) requests: Vec<u32>,
    /// Replies on the way.
    pub(crate) replies: Vec<Back>,
    /// Messages that are still on the way by earlier connections, which are lost.
    pub(crate) old: Vec<u32>,
}

/// The state of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Local {
    /// In the state with this number.
    At(u32),
    /// Its script is over, and its session has nothing and waits for nothing.
    Done,
    Crashed,
}

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Member {
    pub(crate) local: Local,
    pub(crate) lanes: [Lane; 3],
    pub(crate) is_subscribed: bool,
    /// Notices on the way, the first one first.
    pub(crate) notices: Vec<Message>,
}

/// The events of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    /// It is told something that is not on the way to it by a connection.
    Tell(Told),
    /// It gets a notice.
    Notice,
    /// It gets the first reply on a connection.
    Answer(Wire),
    /// Its first request on a connection has reached the server, and this comes back.
    Served(Wire, Back),
    /// Its first request on an earlier connection has reached the server.
    Arrived(Wire),
    /// A notice was published.
    Hear(Message),
    /// The connection for calls is lost, with the requests on it but for so many.
    Lose(u8),
    /// Its process ends. So many of the requests on its connection for calls still arrive.
    Crash(u8),
    /// Its process ends, and nothing of it arrives any more.
    Vanish,
}

/// A member, and what follows from it alone.
#[derive(Debug)]
pub(crate) struct Face {
    pub(crate) member: Member,
    /// The visible part of the client; `None` if it has crashed, or is at its end.
    pub(crate) seen: Option<Rc<Seen>>,
    /// Whether a request of it is on the way that others could see the server take.
    pub(crate) has_requests: bool,
    /// How many calls are on the way.
    pub(crate) calls: u8,
}

/// All members with one script that were met. The first has the number 0.
#[derive(Debug)]
pub(crate) struct Members {
    pub(crate) clients: Clients,
    faces: Vec<Rc<Face>>,
    numbers: HashMap<Member, u32>,
    moves: HashMap<(u32, Move), u32, Quick>,
}

impl Members {
    pub(crate) fn new(clients: Clients, requests: &Pool<Request>) -> Self {
        let lane = Lane::default;
        let first =
            Member { local: Local::At(0), lanes: [lane(), lane(), lane()], is_subscribed: false, notices: Vec::new() };
        let mut members = Self { clients, faces: Vec::new(), numbers: HashMap::new(), moves: HashMap::default() };
        members.number(first, requests);
        members
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.faces.len()
    }

    pub(crate) fn face(&self, number: u32) -> &Rc<Face> {
        &self.faces[number as usize]
    }

    /// The result of a step.
    pub(crate) fn step(&mut self, number: u32, step: Move, replies: &Replies, requests: &mut Pool<Request>) -> u32 {
        if let Some(known) = self.moves.get(&(number, step)) {
            return *known;
        }
        let mut member = self.faces[number as usize].member.clone();
        self.carry_out(&mut member, step, replies, requests);
        let next = self.number(member, requests);
        self.moves.insert((number, step), next);
        next
    }

    fn carry_out(&mut self, member: &mut Member, step: Move, replies: &Replies, requests: &mut Pool<Request>) {
        match step {
            Move::Tell(told) => self.tell(member, told, replies, requests),
            Move::Notice => {
                let message = member.notices.remove(0);
                self.tell(member, Told::Notice(message), replies, requests);
            }
            Move::Answer(wire) => {
                let told = match member.lanes[wire as usize].replies.remove(0) {
                    Back::Answer { key, reply } => Told::Answer { key, reply },
                    Back::Settled { key, by_barrier } => {
                        if by_barrier {
                            member.lanes[wire as usize].old.clear();
                        }
                        Told::Settled { key }
                    }
                    Back::Subscribed => Told::Subscribed,
                    Back::Unsubscribed => Told::Unsubscribed,
                };
                self.tell(member, told, replies, requests);
            }
            Move::Served(wire, back) => {
                let request = member.lanes[wire as usize].requests.remove(0);
                match &**requests.get(request) {
                    Request::Kill { .. } => member.lanes[Wire::Calls as usize].old.clear(),
                    Request::Subscribe => member.is_subscribed = true,
                    Request::Unsubscribe => member.is_subscribed = false,
                    Request::Call { .. } | Request::Barrier { .. } => {}
                }
                member.lanes[wire as usize].replies.push(back);
            }
            Move::Arrived(wire) => drop(member.lanes[wire as usize].old.remove(0)),
            Move::Hear(message) => member.notices.push(message),
            Move::Lose(kept) => {
                cut(member, usize::from(kept), requests);
                self.tell(member, Told::Reset, replies, requests);
            }
            Move::Crash(kept) => {
                cut(member, usize::from(kept), requests);
                for wire in [Wire::Control, Wire::Notices] {
                    member.lanes[wire as usize] = Lane::default();
                }
                member.local = Local::Crashed;
                member.notices.clear();
                member.is_subscribed = false;
            }
            Move::Vanish => {
                let lane = Lane::default;
                *member = Member {
                    local: Local::Crashed,
                    lanes: [lane(), lane(), lane()],
                    is_subscribed: false,
                    notices: Vec::new(),
                };
            }
        }
    }

    /// Tells a client something, and sends what it sends.
    fn tell(&mut self, member: &mut Member, told: Told, replies: &Replies, requests: &mut Pool<Request>) {
        let Local::At(local) = member.local else { return };
        let (next, sent) = self.clients.tell(local, told, replies, requests);
        member.local = Local::At(next);
        for (wire, request) in sent.iter() {
            member.lanes[*wire as usize].requests.push(*request);
        }
    }

    /// The number of a member. The way to their end of clients that are there is forgotten.
    fn number(&mut self, mut member: Member, requests: &Pool<Request>) -> u32 {
        if let Local::At(local) = member.local {
            let seen = self.clients.seen(local);
            let is_still = |lane: &Lane| lane.requests.is_empty() && lane.replies.is_empty();
            if seen.is_deaf {
                member.notices.clear();
            }
            let is_over = seen.is_done && seen.is_idle && seen.left.is_none();
            if is_over && !member.is_subscribed && member.notices.is_empty() && member.lanes.iter().all(is_still) {
                member.local = Local::Done;
            }
        }
        if let Some(known) = self.numbers.get(&member) {
            return *known;
        }
        let number = u32::try_from(self.faces.len()).expect("a client has few states");
        self.numbers.insert(member.clone(), number);
        let seen = match member.local {
            Local::At(local) => Some(Rc::clone(self.clients.seen(local))),
            Local::Done | Local::Crashed => None,
        };
        let calls = calls_on(&member.lanes[Wire::Calls as usize], requests);
        self.faces.push(Rc::new(Face {
            has_requests: member.lanes.iter().any(|lane| {
                let is_own =
                    |number: &u32| matches!(**requests.get(*number), Request::Barrier { .. } | Request::Kill { .. });
                !lane.requests.iter().all(is_own) || !lane.old.is_empty()
            }),
            seen,
            calls,
            member,
        }));
        number
    }
}

/// How many calls there are among the requests of a connection.
fn calls_on(lane: &Lane, requests: &Pool<Request>) -> u8 {
    let calls = lane.requests.iter().filter(|number| matches!(**requests.get(**number), Request::Call { .. }));
    u8::try_from(calls.count()).expect("there are few calls")
}

/// The connection for calls is lost. The first calls that are on the way by it still arrive.
fn cut(member: &mut Member, kept: usize, pool: &Pool<Request>) {
    let lane = &mut member.lanes[Wire::Calls as usize];
    lane.replies.clear();
    let requests = std::mem::take(&mut lane.requests);
    let calls = requests.into_iter().filter(|number| matches!(**pool.get(*number), Request::Call { .. }));
    lane.old.extend(calls.take(kept));
}
