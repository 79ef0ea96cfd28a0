//! The choices for the next event in a state.

use super::choice::{Choice, pending};
use super::client::Wire;
use super::members::Face;
use super::state::State;
use super::world::World;
use std::rc::Rc;

impl World {
    /// Returns the choices for the next event. Empty in a final state.
    pub(crate) fn choices(&mut self, state: &State) -> Vec<Choice> {
        let mut choices = self.usual_choices(state);
        if self.options.reduced
            && let Some(enough) = self.enough(state, &choices)
        {
            return enough;
        }
        let pending = pending(&choices);
        if state.disturbances > 0 {
            let crashes: Vec<_> =
                self.living(state).flat_map(|(client, _)| self.crashes(state, client, &choices)).collect();
            choices.extend(crashes);
        }
        choices.extend(self.hold_ups(state, pending).into_iter().map(Choice::HoldUp));
        if state.losses > 0 {
            choices.extend((0..self.classes.len()).flat_map(|client| losses(client, self.face(state, client))));
        }
        if pending == 0 && self.living(state).any(|(_, seen)| seen.due.is_some()) {
            choices.push(Choice::Rest);
        }
        choices
    }

    /// Returns the possible crashes of a client.
    fn crashes(&self, state: &State, client: usize, usual: &[Choice]) -> Vec<Choice> {
        if self.options.reduced {
            let is_left_out =
                |choice: &&Choice| matches!(choice, Choice::Serve(of, _) | Choice::Late(of, _) if *of == client);
            let (own, others): (Vec<_>, Vec<_>) = usual.iter().partition(|choice| choice.of() == Some(client));
            let held_up = pending(others) & !state.late;
            // The crash itself is a disturbance.
            let comes = own.iter().all(is_left_out) && held_up.count_ones() < u32::from(state.disturbances);
            return if comes { vec![Choice::Vanish(client)] } else { Vec::new() };
        }
        (0..=self.face(state, client).calls).map(|kept| Choice::Crash(client, kept)).collect()
    }

    /// Returns a sufficient subset of the choices. The other choices can follow later, as the module `search` explains.
    fn enough(&mut self, state: &State, choices: &[Choice]) -> Option<Vec<Choice>> {
        if state.disturbances > 0 {
            return None;
        }
        (0..self.classes.len()).filter(|client| state.late & 1 << client == 0).find_map(|client| {
            let face = Rc::clone(self.face(state, client));
            let seen = face.seen.as_ref()?;
            if face.has_requests {
                return None;
            }
            let is_own =
                |choice: &&Choice| choice.concerns(client) || matches!(choice, Choice::Serve(of, _) if *of == client);
            let mut own: Vec<_> = choices.iter().filter(is_own).copied().collect();
            if state.losses > 0 {
                own.extend(losses(client, &face));
            }
            let changes = |world: &mut Self, choice: &Choice| !world.keeps_beliefs(state, client, *choice);
            let is_seen = !seen.beliefs.is_empty() && (seen.is_idle || own.iter().any(|choice| changes(self, choice)));
            let hears = !seen.is_deaf && face.member.is_subscribed && face.member.notices.is_empty();
            (!own.is_empty() && !is_seen && !hears).then_some(own)
        })
    }

    /// Returns whether a local step leaves the client's beliefs unchanged.
    fn keeps_beliefs(&mut self, state: &State, client: usize, choice: Choice) -> bool {
        let mut after = *state;
        self.own_step(&mut after, client, choice);
        let beliefs = |world: &Self, state: &State| world.seen(state, client).map(|seen| seen.beliefs.clone());
        let (before, after) = (beliefs(self, state).unwrap_or_default(), beliefs(self, &after).unwrap_or_default());
        before.iter().all(|belief| after.contains(belief))
    }

    /// Returns the events that are possible without a fault and at the current instant.
    pub(crate) fn usual_choices(&self, state: &State) -> Vec<Choice> {
        let mut choices = Vec::new();
        for client in 0..self.classes.len() {
            let face = self.face(state, client);
            if let Some(seen) = &face.seen {
                if seen.begins {
                    choices.push(Choice::Begin(client));
                }
                if seen.is_woken {
                    choices.push(Choice::Poll(client));
                }
                if seen.due.is_some_and(|due| due.is_zero()) {
                    choices.push(Choice::Tick(client));
                }
            }
            if !face.member.notices.is_empty() {
                choices.push(Choice::Notice(client));
            }
            for wire in Wire::ALL {
                let lane = &face.member.lanes[wire as usize];
                if !lane.requests.is_empty() {
                    choices.push(Choice::Serve(client, wire));
                }
                if !lane.replies.is_empty() {
                    choices.push(Choice::Answer(client, wire));
                }
                if !lane.old.is_empty() {
                    choices.push(Choice::Late(client, wire));
                }
            }
        }
        choices
    }
}

/// Returns the possible losses of a client's connection for calls.
fn losses(client: usize, face: &Face) -> Vec<Choice> {
    let lane = &face.member.lanes[Wire::Calls as usize];
    if face.seen.is_none() || (lane.requests.is_empty() && lane.replies.is_empty()) {
        return Vec::new();
    }
    (0..=face.calls).map(|kept| Choice::Lose(client, kept)).collect()
}
