//! The parts of a small world, apart from the state that it is in.

use super::client::{Request, Seen};
use super::clients::{Clients, Replies};
use super::members::{Face, Members};
use super::names::CLIENTS;
use super::pool::{Pool, Quick};
use super::script::Subject;
use super::server::{Broken, Order, Servers};
use super::state::State;
use super::symmetry::orders;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// How large a small world is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Its subject.
    pub subject: Subject,
    /// How many clients there are; at most four.
    pub clients: usize,
    /// How many clients may crash, or be held up while leases end, in all.
    pub disturbances: u8,
    /// How many connections may be lost, with the replies on them.
    pub losses: u8,
    /// Whether a future that the session wakes is polled at any time later, and not at once.
    pub late_polls: bool,
    /// Whether ways that come to nothing new are left out.
    pub reduced: bool,
    /// Whether it is told on standard error how far the search is.
    pub telling: bool,
}

impl Options {
    /// Three clients, two crashes or clients that are held up, and one lost reply.
    pub const fn new(subject: Subject) -> Self {
        Self { subject, clients: 3, disturbances: 2, losses: 1, late_polls: false, reduced: true, telling: false }
    }
}

/// The waiters for a fair lock: clients, each with its hold as it calls it itself.
pub(crate) type Places = Vec<(usize, String)>;

/// The parts of a small world, with all of their states that were met.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    /// Those with one script together.
    pub(crate) members: Vec<Members>,
    /// For each client, the number of its script.
    pub(crate) classes: Vec<usize>,
    /// The orders of the clients in which each keeps its script.
    pub(crate) orders: Vec<Order>,
    pub(crate) server: Servers,
    pub(crate) requests: Pool<Request>,
    pub(crate) replies: Replies,
    pub(crate) places: Pool<Places>,
    /// The same places, where the clients have other numbers.
    pub(crate) reordered_places: HashMap<(u32, Order), u32, Quick>,
    /// States of the server that were found to be in order for a client in a state.
    pub(crate) in_order: HashSet<(u32, u8, u32), Quick>,
}

impl World {
    pub(crate) fn new(options: &Options, broken: Option<Broken>) -> Self {
        assert!(options.clients <= CLIENTS, "there are at most {CLIENTS} clients");
        let (subject, requests) = (options.subject, Pool::default());
        let window = Subject::window(options.clients);
        let mut scripts = Vec::new();
        let class = |client| {
            let script = subject.script(client, options.clients);
            let known = scripts.iter().position(|known| *known == script);
            known.unwrap_or_else(|| {
                scripts.push(script);
                scripts.len() - 1
            })
        };
        let classes: Vec<usize> = (0..options.clients).map(class).collect();
        let orders = orders(&classes);
        let members = scripts
            .into_iter()
            .map(|script| Members::new(Clients::new(subject, window, script, options.late_polls), &requests));
        let mut places: Pool<Places> = Pool::default();
        places.number(Places::new(), format!("{:?}", Places::new()));
        Self {
            members: members.collect(),
            classes,
            orders,
            server: Servers::new(subject, options.clients, broken),
            requests,
            replies: Pool::default(),
            places,
            reordered_places: HashMap::default(),
            in_order: HashSet::default(),
            options: options.clone(),
        }
    }

    /// A client and what is on the way from it and to it.
    pub(crate) fn face(&self, state: &State, client: usize) -> &Rc<Face> {
        self.members[self.classes[client]].face(state.members[client])
    }

    /// The visible part of a client; `None` if it has crashed, or is at its end.
    pub(crate) fn seen<'a>(&'a self, state: &State, client: usize) -> Option<&'a Rc<Seen>> {
        self.face(state, client).seen.as_ref()
    }

    /// The clients that live and are not at their end, with what can be seen of them.
    pub(crate) fn living<'a>(&'a self, state: &State) -> impl Iterator<Item = (usize, &'a Rc<Seen>)> {
        let state = *state;
        (0..self.classes.len()).filter_map(move |client| Some((client, self.seen(&state, client)?)))
    }
}
