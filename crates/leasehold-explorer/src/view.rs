//! The states of small worlds beside those of the model: what the code comes to, the model must come to as well.
//!
//! A state of either is compared by its *view*: whom the server has on record, with which count, and of each client how many guards it has
//! that hold, and whether nothing of it is on the way or about to be sent. The model has more views than a small world, because its clients
//! do what they like, and those of a small world have a script.

use super::members::Local;
use super::script::Subject;
use super::search::explore_and_show;
use super::state::State;
use super::tests::small;
use super::world::{Options, World};
use leasehold_model::checker::check_and_show;
use leasehold_model::model::Model;
use leasehold_model::world as model;
use std::collections::BTreeSet;

/// A state, as far as it can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct View {
    /// The client that the server has on record, and the hold count.
    lock: Option<(usize, u32)>,
    clients: Vec<ClientView>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ClientView {
    /// The guards that hold.
    guards: usize,
    /// Nothing of it is on the way, and it has nothing to send until a task wants something, or time passes.
    is_quiet: bool,
}

impl View {
    /// Of views that differ by an exchange of two clients, one stands for both.
    fn representative(self) -> Self {
        let mut other = self.clone();
        other.clients.reverse();
        other.lock = other.lock.map(|(holder, count)| (other.clients.len() - 1 - holder, count));
        self.min(other)
    }

    fn of_small_world(world: &World, state: &State) -> Self {
        let fields = world.server.data(state.server).fields();
        let holder_of = |field: &String| {
            let is_of = |client: &usize| field.starts_with(&super::client::identity(*client).to_string());
            (0..world.options.clients).find(is_of).expect("a hold is of one of the clients")
        };
        let client = |at: usize| {
            let face = world.face(state, at);
            let nothing_on_the_way = face
                .member
                .lanes
                .iter()
                .all(|lane| lane.requests.is_empty() && lane.replies.is_empty() && lane.old.is_empty());
            let seen = face.seen.as_ref();
            let is_settled = seen.is_none_or(|seen| seen.is_idle && !seen.has_clean_up);
            let is_alive = face.member.local != Local::Crashed;
            ClientView {
                // A client that is at its end, or is no more, has none.
                guards: seen.map_or(0, |seen| seen.beliefs.iter().filter(|belief| belief.holds()).count()),
                is_quiet: is_alive && nothing_on_the_way && is_settled,
            }
        };
        let clients = (0..world.options.clients).map(client).collect();
        let lock = fields.first().map(|(field, count)| (holder_of(field), *count));
        Self { lock, clients }.representative()
    }

    fn of_model(world: &model::World) -> Self {
        let client = |(at, client): (u8, &model::Client)| {
            let nothing_on_the_way = world.network.iter().all(|message| message.client != at);
            let is_settled = client.change.is_none() && !client.renewing && client.unproven == 0;
            let nothing_to_do = client.on_server == client.wanted || (client.on_server == 0 && client.lost);
            ClientView {
                guards: if client.believes() { usize::from(client.wanted) } else { 0 },
                is_quiet: !client.dead && nothing_on_the_way && is_settled && nothing_to_do,
            }
        };
        let clients = (0..).zip(&world.clients).map(client).collect();
        let lock = world.lock.map(|lock| (usize::from(lock.holder.0), u32::from(lock.count)));
        Self { lock, clients }.representative()
    }
}

/// The views of a small world, and those of them that the model never comes to.
fn beyond_the_model(options: &Options, of: Model) -> (BTreeSet<View>, BTreeSet<View>) {
    let (mut met, mut known) = (BTreeSet::new(), BTreeSet::new());
    explore_and_show(options, None, |world, state| met.extend([View::of_small_world(world, state)]))
        .unwrap_or_else(|fault| panic!("{options:?}: {fault}"));
    check_and_show(&of, "", |world| known.extend([View::of_model(world)]))
        .unwrap_or_else(|found| panic!("{} is broken", found.property));
    eprintln!("{} views of the small world, {} of the model", met.len(), known.len());
    let beyond = met.difference(&known).cloned().collect();
    (met, beyond)
}

const ONE: Model =
    Model { clients: 1, disturbances: 1, drift: true, reentry: true, hand_over: false, linger: false, fault: None };

const TWO: Model = Model { clients: 2, disturbances: 0, drift: false, ..ONE };

#[test]
fn the_model_comes_to_all_that_two_clients_come_to() {
    let (met, beyond) = beyond_the_model(&small(Subject::Reentrant, 2, 0, 0), TWO);
    assert_eq!(met.len(), 14, "{met:#?}");
    assert_eq!(beyond, BTreeSet::new());
}

#[test]
fn the_model_comes_to_all_that_a_hand_over_comes_to() {
    let (met, beyond) =
        beyond_the_model(&small(Subject::HandOver, 2, 0, 0), Model { reentry: false, hand_over: true, ..TWO });
    assert_eq!(met.len(), 9, "{met:#?}");
    assert_eq!(beyond, BTreeSet::new());
}

#[test]
fn the_model_comes_to_all_that_lingering_comes_to() {
    let (met, beyond) =
        beyond_the_model(&small(Subject::Linger, 2, 0, 0), Model { reentry: false, linger: true, ..TWO });
    assert_eq!(met.len(), 9, "{met:#?}");
    assert_eq!(beyond, BTreeSet::new());
}

#[test]
fn the_model_comes_to_all_that_one_client_comes_to_in_trouble() {
    for (disturbances, losses, views) in [(1, 0, 10), (0, 1, 8)] {
        let (met, beyond) = beyond_the_model(&small(Subject::Reentrant, 1, disturbances, losses), ONE);
        assert_eq!(met.len(), views, "{met:#?}");
        assert_eq!(beyond, BTreeSet::new());
    }
}

#[test]
fn a_view_that_the_model_lacks_is_noticed() {
    let without_reentry = Model { reentry: false, ..TWO };
    let (_, beyond) = beyond_the_model(&small(Subject::Reentrant, 2, 0, 0), without_reentry);
    assert!(beyond.iter().any(|view| matches!(view.lock, Some((_, 2)))), "{beyond:#?}");
}
