//! An event that can happen next in a small world.

use super::client::{Request, Wire, text_of};
use super::members::Back;
use super::names::CLIENTS;
use super::server::Order;
use super::state::State;
use super::world::World;

/// An event that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A client begins its next operation.
    Begin(usize),
    /// The first request on a connection reaches the server.
    Serve(usize, Wire),
    /// The first reply on a connection reaches its client.
    Answer(usize, Wire),
    /// A notice reaches its client.
    Notice(usize),
    /// The due timers of a client run.
    Tick(usize),
    /// The client polls a woken future.
    Poll(usize),
    /// The first request in transit on a lost connection reaches the server.
    Late(usize, Wire),
    /// The connection for calls is lost, with its replies. This number of first requests still arrives.
    Lose(usize, u8),
    /// A process crashes. This number of first requests on its connection for calls still arrives.
    Crash(usize, u8),
    /// A crashed process disappears: none of its messages arrives afterwards.
    Vanish(usize),
    /// Time passes while these clients are held up: their processes pause, or their messages are delayed.
    HoldUp(u8),
    /// No other event is possible: time passes to the next timer that makes an event possible.
    Rest,
}

impl Choice {
    /// Returns the client of the event.
    pub(crate) fn of(self) -> Option<usize> {
        match self {
            Self::Begin(of)
            | Self::Serve(of, _)
            | Self::Answer(of, _)
            | Self::Notice(of)
            | Self::Tick(of)
            | Self::Poll(of)
            | Self::Late(of, _)
            | Self::Lose(of, _)
            | Self::Crash(of, _)
            | Self::Vanish(of) => Some(of),
            Self::HoldUp(_) | Self::Rest => None,
        }
    }

    /// Returns whether the event affects exactly one client.
    pub(crate) fn concerns(self, client: usize) -> bool {
        match self {
            Self::Begin(of) | Self::Answer(of, _) | Self::Notice(of) | Self::Tick(of) | Self::Poll(of) => of == client,
            _ => false,
        }
    }

    /// Renumbers the clients by a permutation.
    pub(crate) fn by(self, order: &Order) -> Self {
        let own = |moved: usize| order.iter().position(|to| usize::from(*to) == moved).unwrap_or(moved);
        match self {
            Self::Begin(of) => Self::Begin(own(of)),
            Self::Serve(of, wire) => Self::Serve(own(of), wire),
            Self::Answer(of, wire) => Self::Answer(own(of), wire),
            Self::Notice(of) => Self::Notice(own(of)),
            Self::Tick(of) => Self::Tick(own(of)),
            Self::Poll(of) => Self::Poll(own(of)),
            Self::Late(of, wire) => Self::Late(own(of), wire),
            Self::Lose(of, kept) => Self::Lose(own(of), kept),
            Self::Crash(of, kept) => Self::Crash(own(of), kept),
            Self::Vanish(of) => Self::Vanish(own(of)),
            Self::HoldUp(clients) => Self::HoldUp(members_of(clients).fold(0, |all, of| all | 1 << own(of))),
            Self::Rest => self,
        }
    }

    /// Formats a choice for output.
    pub(crate) fn tell(self, world: &World, state: &State) -> String {
        let request = |number: u32| match &**world.requests.get(number) {
            Request::Call { call, .. } => {
                let args = call.args().into_iter().take(4).map(text_of);
                format!("{}({})", call.script().name(), args.collect::<Vec<_>>().join(", "))
            }
            other => format!("{other:?}"),
        };
        let lane = |client: usize, wire: Wire| &world.face(state, client).member.lanes[wire as usize];
        match self {
            Self::Begin(client) => {
                let script = world.members[world.classes[client]].clients.script();
                let next = world.seen(state, client).map_or(0, |seen| seen.next);
                format!("client {client} begins: {:?}", script.get(next))
            }
            Self::Serve(client, wire) => {
                format!("client {client}: the server gets {}", request(lane(client, wire).requests[0]))
            }
            Self::Answer(client, wire) => match lane(client, wire).replies[0] {
                Back::Answer { reply, .. } => format!("client {client} is answered: {:?}", world.replies.get(reply)),
                other => format!("client {client} is told: {other:?}"),
            },
            Self::Notice(client) => {
                let notices = &world.face(state, client).member.notices;
                format!("client {client} gets a notice: {:?}", notices.first())
            }
            Self::Tick(client) => format!("client {client}: timers run"),
            Self::Poll(client) => format!("client {client}: the future that was woken is polled"),
            Self::Late(client, wire) => {
                format!("client {client}: late, the server gets {}", request(lane(client, wire).old[0]))
            }
            Self::Lose(client, kept) => {
                format!("client {client} loses its connection, and what is on it but for {kept} requests")
            }
            Self::Crash(client, kept) => format!("client {client} crashes; {kept} of its requests still arrive"),
            Self::Vanish(client) => format!("client {client} has crashed, and nothing more is heard of it"),
            Self::HoldUp(clients) => {
                let held_up = members_of(clients).map(|client| client.to_string()).collect::<Vec<_>>().join(", ");
                format!("time passes while held up: client {held_up}")
            }
            Self::Rest => "time passes to the next timer".to_owned(),
        }
    }
}

/// Returns the set of clients with a possible event.
pub(crate) fn pending<'a>(choices: impl IntoIterator<Item = &'a Choice>) -> u8 {
    choices.into_iter().filter_map(|choice| choice.of()).fold(0, |all, client| all | 1 << client)
}

/// Returns the clients of a set.
pub(crate) fn members_of(set: u8) -> impl Iterator<Item = usize> {
    (0..CLIENTS).filter(move |client| set & 1 << client != 0)
}
