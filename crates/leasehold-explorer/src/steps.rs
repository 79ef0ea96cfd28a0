//! The results of each choice.

use super::choice::{Choice, members_of};
use super::client::{Request, text_of};
use super::clients::Told;
use super::members::{Back, Local, Move};
use super::server::Listening;
use super::state::State;
use super::world::{Places, World};
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;
use std::rc::Rc;

impl World {
    /// Lets a choice happen.
    ///
    /// # Errors
    ///
    /// A state that must not be.
    pub(crate) fn take(&mut self, state: &mut State, choice: Choice) -> Result<(), String> {
        match choice {
            Choice::Begin(client)
            | Choice::Poll(client)
            | Choice::Tick(client)
            | Choice::Notice(client)
            | Choice::Answer(client, _) => self.own_step(state, client, choice),
            Choice::Serve(client, wire) => {
                let request = self.face(state, client).member.lanes[wire as usize].requests[0];
                let back = self.serve(state, client, request)?;
                self.step(state, client, Move::Served(wire, back));
            }
            Choice::Late(client, wire) => {
                let request = self.face(state, client).member.lanes[wire as usize].old[0];
                let _nobody_waits = self.serve(state, client, request)?;
                self.step(state, client, Move::Arrived(wire));
            }
            Choice::Lose(client, ..) => {
                state.losses -= 1;
                self.own_step(state, client, choice);
            }
            Choice::Crash(client, _) | Choice::Vanish(client) => {
                state.disturbances -= 1;
                self.own_step(state, client, choice);
                self.change_places(state, |places| places.retain(|(waiting, _)| *waiting != client));
            }
            Choice::HoldUp(clients) => self.hold_up(state, clients),
            Choice::Rest => self.rest(state)?,
        }
        if let Choice::Serve(of, _) | Choice::Answer(of, _) | Choice::Notice(of) | Choice::Late(of, _) = choice {
            state.late &= !(1 << of);
        }
        for client in members_of(state.late) {
            let face = self.face(state, client);
            if face.seen.is_none() && !face.has_requests {
                state.late &= !(1 << client);
            }
        }
        if matches!(
            choice,
            Choice::Begin(_) | Choice::Lose(..) | Choice::Crash(..) | Choice::Vanish(_) | Choice::HoldUp(_)
        ) {
            state.rests = 0;
        }
        Ok(())
    }

    /// A step that concerns one client alone.
    pub(crate) fn own_step(&mut self, state: &mut State, client: usize, choice: Choice) {
        let step = match choice {
            Choice::Begin(_) => Move::Tell(Told::Begin),
            Choice::Poll(_) => Move::Tell(Told::Poll),
            Choice::Tick(_) => Move::Tell(Told::Tick),
            Choice::Notice(_) => Move::Notice,
            Choice::Answer(_, wire) => Move::Answer(wire),
            Choice::Lose(_, kept) => Move::Lose(kept),
            Choice::Crash(_, kept) => Move::Crash(kept),
            Choice::Vanish(_) => Move::Vanish,
            Choice::Serve(_, wire) => {
                let request = self.face(state, client).member.lanes[wire as usize].requests[0];
                match **self.requests.get(request) {
                    Request::Barrier { key } => Move::Served(wire, Back::Settled { key, by_barrier: true }),
                    Request::Kill { key, .. } => Move::Served(wire, Back::Settled { key, by_barrier: false }),
                    Request::Call { .. } | Request::Subscribe | Request::Unsubscribe => return,
                }
            }
            Choice::Late(..) | Choice::HoldUp(_) | Choice::Rest => return,
        };
        self.step(state, client, step);
    }

    pub(crate) fn step(&mut self, state: &mut State, client: usize, step: Move) {
        let members = &mut self.members[self.classes[client]];
        state.members[client] = members.step(state.members[client], step, &self.replies, &mut self.requests);
    }

    /// A request reaches the server.
    fn serve(&mut self, state: &mut State, client: usize, number: u32) -> Result<Back, String> {
        let request = Rc::clone(self.requests.get(number));
        Ok(match &*request {
            Request::Call { key, call } => {
                Back::Answer { key: *key, reply: self.execute(state, client, number, call)? }
            }
            Request::Barrier { key } => Back::Settled { key: *key, by_barrier: true },
            Request::Kill { key, .. } => Back::Settled { key: *key, by_barrier: false },
            Request::Subscribe => Back::Subscribed,
            Request::Unsubscribe => Back::Unsubscribed,
        })
    }

    fn execute(&mut self, state: &mut State, client: usize, number: u32, call: &Call) -> Result<u32, String> {
        let mut listening = Listening::default();
        for (member, listens) in listening.iter_mut().enumerate().take(self.classes.len()) {
            *listens = self.face(state, member).member.is_subscribed;
        }
        let turn = self.server.execute(state.server, listening, client, (number, call), &mut self.replies);
        let (next, reply, notices) = turn;
        state.server = next;
        for (member, notices) in notices.into_iter().enumerate() {
            notices.into_iter().flatten().for_each(|message| self.step(state, member, Move::Hear(message)));
        }
        let result = Rc::clone(self.replies.get(reply));
        match &**result {
            Ok(answer) => self.check_order(state, client, call, answer)?,
            Err(error) => return Err(format!("the server refuses {}: {error}", call.script().name())),
        }
        Ok(reply)
    }

    fn change_places(&mut self, state: &mut State, change: impl FnOnce(&mut Places)) {
        let mut places: Places = (**self.places.get(state.places)).clone();
        change(&mut places);
        let text = format!("{places:?}");
        state.places = self.places.number(places, text);
    }

    /// Notes the waiters for a fair lock, and wants no living one to be overtaken.
    fn check_order(&mut self, state: &mut State, client: usize, call: &Call, answer: &Reply) -> Result<(), String> {
        let Some(verb) = call.script().name().strip_prefix("fair/") else { return Ok(()) };
        let place = (client, text_of(&call.args()[0]));
        let code = answer.array().ok().and_then(|parts| parts.first()?.int().ok());
        let lives = self.face(state, client).member.local != Local::Crashed;
        match (verb, code) {
            ("acquire", Some(4)) if lives => self.change_places(state, |places| {
                if !places.contains(&place) {
                    places.push(place);
                }
            }),
            ("acquire", Some(1)) => {
                let first = self.places.get(state.places).first().filter(|first| **first != place).cloned();
                if let Some((first, _)) = first {
                    return Err(format!("client {client} overtook client {first}"));
                }
                self.change_places(state, |places| places.retain(|waiting| *waiting != place));
            }
            ("release", _) => self.change_places(state, |places| places.retain(|waiting| *waiting != place)),
            _ => {}
        }
        Ok(())
    }
}
