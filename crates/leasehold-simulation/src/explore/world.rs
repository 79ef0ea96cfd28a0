//! What a small world is made of, apart from the state that it is in.

use super::client::{Request, Seen};
use super::clients::{Clients, Replies};
use super::pool::Pool;
use super::script::Subject;
use super::server::{Broken, Servers};
use super::state::{Local, State};
use std::rc::Rc;

/// How large a small world is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What it is about.
    pub subject: Subject,
    /// How many clients there are.
    pub clients: usize,
    /// How many crashes, and ends of leases that come before anything else, there may be in all.
    pub disturbances: u8,
    /// How many connections may be lost, with the replies on them.
    pub losses: u8,
    /// Whether a future that the session wakes is polled at any time later, and not at once.
    pub late_polls: bool,
}

impl Options {
    /// Three clients, two crashes or ends of leases, and one lost reply.
    pub const fn new(subject: Subject) -> Self {
        Self { subject, clients: 3, disturbances: 2, losses: 1, late_polls: false }
    }
}

/// The parts of a small world, with all of their states that were met.
#[derive(Debug)]
pub(super) struct World {
    pub(super) options: Options,
    pub(super) clients: Vec<Clients>,
    pub(super) server: Servers,
    pub(super) requests: Pool<Request>,
    pub(super) replies: Replies,
}

impl World {
    pub(super) fn new(options: &Options, broken: Option<Broken>) -> Self {
        let client = |number| Clients::new(number, options.subject, options.late_polls);
        Self {
            clients: (0..options.clients).map(client).collect(),
            server: Servers::new(options.subject, options.clients, broken),
            requests: Pool::default(),
            replies: Pool::default(),
            options: options.clone(),
        }
    }

    /// What can be seen of a client; `None` where it has crashed, or is at its end.
    pub(super) fn seen(&self, state: &State, client: usize) -> Option<&Rc<Seen>> {
        match state.members[client].local {
            Local::At(local) => Some(self.clients[client].seen(local)),
            Local::Done | Local::Crashed => None,
        }
    }

    /// The clients that live and are not at their end, with what can be seen of them.
    pub(super) fn living<'a>(&'a self, state: &'a State) -> impl Iterator<Item = (usize, &'a Rc<Seen>)> {
        (0..state.members.len()).filter_map(|client| Some((client, self.seen(state, client)?)))
    }
}
