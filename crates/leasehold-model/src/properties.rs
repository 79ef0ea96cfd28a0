//! The properties that every state has.

use crate::checker::{Checkable, Property};
use crate::model::{Action, LEASE, Model, PASSES};
use crate::world::{Client, Leg, Verb, World};

/// The properties, by the words of docs/model.md.
pub const PROPERTIES: [Property<World>; 9] = [
    Property {
        name: "at most one client believes that it holds the lock",
        holds: |world| world.clients.iter().filter(|client| client.believes()).count() <= 1,
    },
    Property {
        name: "a deadline passes before the lease ends on the server",
        holds: |world| believers(world).all(|(holder, _)| world.lock.is_some_and(|lock| lock.holder == holder)),
    },
    Property {
        name: "a hold that is lost stays lost",
        holds: |world| world.clients.iter().all(|client| !(client.lost && client.believes())),
    },
    Property { name: "no message changes a hold that is not its own", holds: |world| !world.spoiled },
    Property {
        name: "the server has no higher count than its client thinks, except by a late copy",
        holds: |world| {
            world.lock.is_none_or(|lock| {
                let client = world.clients[usize::from(lock.holder.0)];
                lock.by_copy || client.dead || (lock.holder.1 == 0 && lock.count <= client.on_server)
            })
        },
    },
    Property {
        name: "an unsettled change blocks the next one",
        holds: |world| {
            (0_u8..).zip(&world.clients).all(|(at, client)| changes(world, at) <= 1 && is_settling(world, at, client))
        },
    },
    Property {
        name: "a hold that no task wants is gone after one lease",
        holds: |world| world.lock.is_none_or(|lock| lock.unwanted < LEASE),
    },
    Property {
        name: "a waiter sees the lock pass to another task a bounded number of times",
        holds: |world| world.clients.iter().all(|client| client.passed_over <= PASSES),
    },
    Property {
        name: "no lease lingers once its client is told that another asks",
        holds: |world| world.clients.iter().all(|client| !(client.lingers && client.asked)),
    },
];

/// The holds in which a client believes.
fn believers(world: &World) -> impl Iterator<Item = ((u8, u8), &Client)> {
    let all = (0_u8..).zip(&world.clients).map(|(at, client)| ((at, 0), client));
    all.filter(|(_, client)| client.believes())
}

/// How many changes of a client are on their way, without late copies.
fn changes(world: &World, client: u8) -> usize {
    let is_change = |verb| matches!(verb, Verb::Acquire | Verb::Release);
    let own = world.network.iter().filter(|message| message.client == client && is_change(message.verb));
    own.filter(|message| message.leg != Leg::Copy).count()
}

/// Whether a call without a connection is one that its client is settling.
fn is_settling(world: &World, at: u8, client: &Client) -> bool {
    let has_lost = world.network.iter().any(|message| message.client == at && message.leg == Leg::Lost);
    !has_lost || client.change.is_some_and(|change| change.settling)
}

impl Checkable for Model {
    type State = World;
    type Action = Action;

    fn first(&self) -> World {
        World {
            lock: None,
            clients: vec![Client::default(); usize::from(self.clients)],
            network: Vec::new(),
            disturbances: self.disturbances,
            steady: LEASE - 1,
            spoiled: false,
        }
    }

    fn next(&self, world: &World) -> Vec<(Action, World)> {
        let all = self.candidates(world).into_iter();
        all.filter_map(|action| Some((action, self.after(world, action)?))).collect()
    }

    fn properties(&self) -> Vec<Property<World>> {
        PROPERTIES.to_vec()
    }
}
