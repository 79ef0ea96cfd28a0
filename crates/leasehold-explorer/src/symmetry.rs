//! Clients with the same script are the same but for their names: of the states that differ in nothing else, one stands for all.

use super::names::CLIENTS;
use super::server::Order;
use super::state::State;
use super::world::{Places, World};

/// Every client keeps its number.
pub(crate) const SAME: Order = [0, 1, 2, 3];

/// Every order of the clients in which each keeps its script.
pub(crate) fn orders(classes: &[usize]) -> Vec<Order> {
    let mut orders = vec![SAME];
    // Every order is made of exchanges of two, one for each place.
    for place in 0..classes.len() {
        for known in orders.clone() {
            for other in place + 1..classes.len() {
                let mut order = known;
                order.swap(place, other);
                orders.push(order);
            }
        }
    }
    let keeps = |order: &Order| (0..classes.len()).all(|client| classes[client] == classes[usize::from(order[client])]);
    orders.retain(keeps);
    orders
}

impl World {
    /// The state that stands for this one, and the number that each client has in it.
    pub(crate) fn representative(&mut self, state: &State) -> (State, Order) {
        if self.orders.len() == 1 {
            return (*state, SAME);
        }
        let mut best = state.members;
        let mut several = false;
        for order in &self.orders[1..] {
            let members = moved(state.members, order);
            several |= members == best;
            if members < best {
                best = members;
                several = false;
            }
        }
        // If two clients are in the same state, an exchange of them may still be seen in the server's.
        let mut chosen: Option<(State, Order)> = None;
        for number in 0..self.orders.len() {
            let order = self.orders[number];
            if moved(state.members, &order) != best {
                continue;
            }
            let next = self.reordered(state, &order);
            if !several {
                return (next, order);
            }
            let key = |state: &State| (state.server, state.places, state.late);
            if chosen.as_ref().is_none_or(|(known, _)| key(&next) < key(known)) {
                chosen = Some((next, order));
            }
        }
        chosen.unwrap_or((*state, SAME))
    }

    fn reordered(&mut self, state: &State, order: &Order) -> State {
        if *order == SAME {
            return *state;
        }
        State {
            server: self.server.reordered(state.server, *order, &mut self.replies),
            members: moved(state.members, order),
            places: self.reordered_places(state.places, order),
            late: (0..CLIENTS).filter(|client| state.late & 1 << client != 0).fold(0, |all, one| all | 1 << order[one]),
            ..*state
        }
    }

    fn reordered_places(&mut self, number: u32, order: &Order) -> u32 {
        if let Some(known) = self.reordered_places.get(&(number, *order)) {
            return *known;
        }
        let mut places: Places = (**self.places.get(number)).clone();
        places.iter_mut().for_each(|(client, _)| *client = usize::from(order[*client]));
        let text = format!("{places:?}");
        let next = self.places.number(places, text);
        self.reordered_places.insert((number, *order), next);
        next
    }

    /// The server's content, whichever client it is of.
    pub(crate) fn outcome(&mut self, state: &State) -> u128 {
        let outcome = |world: &mut Self, order: Order| {
            let state = world.reordered(state, &order);
            world.server.data(state.server).hash()
        };
        let orders = self.orders.clone();
        orders.into_iter().map(|order| outcome(self, order)).min().unwrap_or_default()
    }
}

fn moved(members: [u32; CLIENTS], order: &Order) -> [u32; CLIENTS] {
    let mut moved = [0; CLIENTS];
    order.iter().zip(members).for_each(|(to, member)| moved[usize::from(*to)] = member);
    moved
}
