//! What can happen next in a state, and what comes of it.

use super::client::{Request, Wire};
use super::clients::Told;
use super::server::Listening;
use super::state::{Back, Lane, Local, State};
use super::world::World;
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use std::rc::Rc;
use std::time::Duration;

/// Something that can happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// A client begins its next operation.
    Begin(usize),
    /// The first request on a connection reaches the server.
    Serve(usize, Wire),
    /// The first reply on a connection reaches its client.
    Answer(usize, Wire),
    /// A notice reaches its client.
    Notice(usize),
    /// A client's timers run, which are due.
    Tick(usize),
    /// A future that was woken is polled.
    Poll(usize),
    /// The first request that is still on the way by a connection that is lost reaches the server.
    Late(usize, Wire),
    /// A connection is lost, with the replies that are on it, and with the requests but for so many of the first.
    Lose(usize, Wire, usize),
    /// A process ends at once. So many of the first requests on the foreground's and the lifeline's connection still arrive.
    Crash(usize, [usize; 2]),
    /// Nothing happens until then, when somebody's lease ends.
    Expire(Instant),
    /// Nothing else can happen: time passes to the next timer of anybody after which something can.
    Rest,
}

/// The connections that carry calls.
const CALLS: [Wire; 2] = [Wire::Foreground, Wire::Lifeline];

/// In virtual time: whoever waits after this waits for ever.
const LONG: Duration = Duration::from_secs(30);

impl World {
    /// What can happen next. Nothing, where the world is at its end.
    pub(super) fn choices(&self, state: &State) -> Vec<Choice> {
        let mut choices = self.usual_choices(state);
        if let Some(enough) = self.enough(state, &choices) {
            return enough;
        }
        if choices.is_empty() && self.living(state).any(|(_, seen)| seen.due.is_some()) {
            choices.push(Choice::Rest);
        }
        if state.losses > 0 {
            for (client, _) in self.living(state) {
                for wire in CALLS {
                    let lane = &state.members[client].lanes[wire as usize];
                    if !lane.requests.is_empty() || !lane.replies.is_empty() {
                        let kept = 0..=self.calls_on(lane);
                        choices.extend(kept.map(|kept| Choice::Lose(client, wire, kept)));
                    }
                }
            }
        }
        if state.disturbances > 0 {
            for (client, _) in self.living(state) {
                if choices.iter().any(|choice| choice.concerns(client)) {
                    continue;
                }
                let [most, more] = CALLS.map(|wire| self.calls_on(&state.members[client].lanes[wire as usize]));
                let kept = (0..=most).flat_map(|kept| (0..=more).map(move |other| [kept, other]));
                choices.extend(kept.map(|kept| Choice::Crash(client, kept)));
            }
            let beliefs = self.living(state).flat_map(|(_, seen)| &seen.beliefs);
            let local = beliefs.filter_map(|belief| belief.until).filter(|until| *until > state.now).min();
            let remote = self.server.data(state.server).next_end(state.now);
            choices.extend(local.map(Choice::Expire));
            choices.extend(remote.filter(|remote| Some(*remote) != local).map(Choice::Expire));
        }
        choices
    }

    /// How many calls there are among the requests of a connection.
    fn calls_on(&self, lane: &Lane) -> usize {
        lane.requests.iter().filter(|number| matches!(**self.requests.get(**number), Request::Call { .. })).count()
    }

    /// Choices that are enough, because the others can as well come after them. See the module of the search for why.
    fn enough(&self, state: &State, choices: &[Choice]) -> Option<Vec<Choice>> {
        if state.disturbances > 0 {
            return None;
        }
        self.living(state).find_map(|(client, seen)| {
            let member = &state.members[client];
            let waits = member.lanes.iter().any(|lane| !lane.requests.is_empty() || !lane.old.is_empty());
            let may_be_lost = state.losses > 0 && member.lanes.iter().any(|lane| !lane.replies.is_empty());
            if waits || may_be_lost || member.is_subscribed || !seen.beliefs.is_empty() {
                return None;
            }
            let own: Vec<_> = choices.iter().filter(|choice| choice.concerns(client)).copied().collect();
            Some(own).filter(|own| !own.is_empty())
        })
    }

    /// What can happen without a fault and without time passing.
    fn usual_choices(&self, state: &State) -> Vec<Choice> {
        let mut choices = Vec::new();
        for (client, member) in state.members.iter().enumerate() {
            if let Some(seen) = self.seen(state, client) {
                if seen.begins {
                    choices.push(Choice::Begin(client));
                }
                if seen.is_woken {
                    choices.push(Choice::Poll(client));
                }
                if seen.due.is_some_and(|due| due <= state.now) {
                    choices.push(Choice::Tick(client));
                }
            }
            if member.notices > 0 {
                choices.push(Choice::Notice(client));
            }
            for wire in Wire::ALL {
                let lane = &member.lanes[wire as usize];
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

    /// Lets a choice happen.
    ///
    /// # Errors
    ///
    /// What must not be.
    pub(super) fn take(&mut self, state: &mut State, choice: Choice) -> Result<(), String> {
        match choice {
            Choice::Begin(client) => self.tell(state, client, Told::Begin),
            Choice::Poll(client) => self.tell(state, client, Told::Poll),
            Choice::Tick(client) => self.tell(state, client, Told::Tick),
            Choice::Notice(client) => {
                state.members[client].notices -= 1;
                self.tell(state, client, Told::Notice);
            }
            Choice::Serve(client, wire) => {
                let request = state.lane(client, wire).requests.remove(0);
                let back = self.serve(state, client, request)?;
                state.lane(client, wire).replies.push(back);
            }
            Choice::Answer(client, wire) => {
                let back = state.lane(client, wire).replies.remove(0);
                let told = match back {
                    Back::Answer { key, reply } => Told::Answer { key, reply },
                    Back::Settled { key, by_barrier } => {
                        if by_barrier {
                            state.lane(client, wire).old.clear();
                        }
                        Told::Settled { key }
                    }
                    Back::Subscribed => Told::Subscribed,
                    Back::Unsubscribed => Told::Unsubscribed,
                };
                self.tell(state, client, told);
            }
            Choice::Late(client, wire) => {
                let request = state.lane(client, wire).old.remove(0);
                let _nobody_waits = self.serve(state, client, request)?;
            }
            Choice::Lose(client, wire, kept) => {
                state.losses -= 1;
                self.cut(state, client, wire, kept);
                self.tell(state, client, Told::Reset(wire));
            }
            Choice::Crash(client, kept) => {
                state.disturbances -= 1;
                for (wire, kept) in CALLS.into_iter().zip(kept) {
                    self.cut(state, client, wire, kept);
                }
                for wire in [Wire::Control, Wire::Notices] {
                    *state.lane(client, wire) = Lane::default();
                }
                let member = &mut state.members[client];
                member.local = Local::Crashed;
                member.notices = 0;
                member.is_subscribed = false;
                state.places.retain(|(waiting, _)| *waiting != client);
            }
            Choice::Expire(until) => {
                state.disturbances -= 1;
                state.now = until;
            }
            Choice::Rest => self.rest(state)?,
        }
        self.retire(state);
        Ok(())
    }

    /// Forgets the way to their end of clients that are there.
    fn retire(&self, state: &mut State) {
        for client in 0..state.members.len() {
            let is_over =
                self.seen(state, client).is_some_and(|seen| seen.is_done && seen.is_idle && seen.left.is_none());
            let member = &mut state.members[client];
            if is_over && !member.is_subscribed && member.notices == 0 && member.lanes.iter().all(Lane::is_still) {
                member.local = Local::Done;
            }
        }
    }

    /// A connection is lost. The first calls that are on the way by it still arrive.
    fn cut(&self, state: &mut State, client: usize, wire: Wire, kept: usize) {
        let lane = state.lane(client, wire);
        lane.replies.clear();
        let requests = std::mem::take(&mut lane.requests);
        let calls = requests.into_iter().filter(|number| matches!(**self.requests.get(*number), Request::Call { .. }));
        lane.old.extend(calls.take(kept));
    }

    /// Tells a client something, and sends what it sends.
    fn tell(&mut self, state: &mut State, client: usize, told: Told) {
        let Local::At(local) = state.members[client].local else { return };
        let (next, sent) = self.clients[client].tell(local, state.now, told, &self.replies, &mut self.requests);
        state.members[client].local = Local::At(next);
        for (wire, request) in sent.iter() {
            state.lane(client, *wire).requests.push(*request);
        }
    }

    /// Time passes to the next timer, and on while nothing comes of it.
    fn rest(&mut self, state: &mut State) -> Result<(), String> {
        let calm = state.disturbances == self.options.disturbances && state.losses == self.options.losses;
        if calm && self.living(state).any(|(_, seen)| !seen.is_done) {
            let who = self.unfinished(state);
            return Err(format!("nothing went wrong, and somebody waits for time to pass: {who}"));
        }
        loop {
            let Some(due) = self.living(state).filter_map(|(_, seen)| seen.due).min() else { return Ok(()) };
            if due > Instant::from_nanos(0) + LONG {
                return Err(format!("somebody waits for ever: {}", self.unfinished(state)));
            }
            state.now = state.now.max(due);
            for client in 0..state.members.len() {
                if self.seen(state, client).and_then(|seen| seen.due).is_some_and(|due| due <= state.now) {
                    self.tell(state, client, Told::Tick);
                }
            }
            if !self.usual_choices(state).is_empty() {
                return Ok(());
            }
        }
    }

    /// A request reaches the server.
    fn serve(&mut self, state: &mut State, client: usize, number: u32) -> Result<Back, String> {
        let request = Rc::clone(self.requests.get(number));
        Ok(match &*request {
            Request::Call { key, call } => {
                Back::Answer { key: *key, reply: self.execute(state, client, number, call)? }
            }
            Request::Barrier { key } => Back::Settled { key: *key, by_barrier: true },
            Request::Kill { key, wire } => {
                state.lane(client, *wire).old.clear();
                Back::Settled { key: *key, by_barrier: false }
            }
            Request::Subscribe => {
                state.members[client].is_subscribed = true;
                Back::Subscribed
            }
            Request::Unsubscribe => {
                state.members[client].is_subscribed = false;
                Back::Unsubscribed
            }
        })
    }

    fn execute(&mut self, state: &mut State, client: usize, number: u32, call: &Call) -> Result<u32, String> {
        let mut listening = Listening::default();
        for (member, listens) in state.members.iter().zip(&mut listening) {
            *listens = member.is_subscribed;
        }
        let turn = self.server.execute(state.server, state.now, listening, number, call, &mut self.replies);
        let (next, reply, notices) = turn;
        state.server = next;
        for (member, notices) in state.members.iter_mut().zip(notices) {
            member.notices += notices;
        }
        let result = Rc::clone(self.replies.get(reply));
        match &**result {
            Ok(answer) => self.check_order(state, client, call, answer)?,
            Err(error) => return Err(format!("the server refuses {}: {error}", call.script().name())),
        }
        Ok(reply)
    }

    /// Notes who waits for a fair lock, and wants nobody of those who live to be overtaken.
    fn check_order(&self, state: &mut State, client: usize, call: &Call, answer: &Reply) -> Result<(), String> {
        let Some(verb) = call.script().name().strip_prefix("fair/") else { return Ok(()) };
        let hold = || super::client::text_of(&call.args()[0]);
        let code = |answer: &Reply| answer.array().ok().and_then(|parts| parts.first()?.int().ok());
        match verb {
            "acquire" if code(answer) == Some(4) => {
                let place = (client, hold());
                if state.members[client].local != Local::Crashed && !state.places.contains(&place) {
                    state.places.push(place);
                }
            }
            "acquire" if code(answer) == Some(1) => {
                let hold = hold();
                if let Some((first, _)) = state.places.first().filter(|(_, first)| *first != hold) {
                    return Err(format!("client {client} overtook client {first}"));
                }
                state.places.retain(|(_, waiting)| *waiting != hold);
            }
            "release" => {
                let hold = hold();
                state.places.retain(|(_, waiting)| *waiting != hold);
            }
            _ => {}
        }
        Ok(())
    }
}

impl Choice {
    /// Whether it does something to a client, and to nobody else.
    fn concerns(self, client: usize) -> bool {
        match self {
            Self::Begin(of) | Self::Answer(of, _) | Self::Notice(of) | Self::Tick(of) | Self::Poll(of) => of == client,
            _ => false,
        }
    }

    /// What a choice is, for people.
    pub(super) fn tell(self, world: &World, state: &State) -> String {
        let request = |number: u32| match &**world.requests.get(number) {
            Request::Call { call, .. } => {
                let args = call.args().iter().take(4).map(|arg| super::client::text_of(arg));
                format!("{}({})", call.script().name(), args.collect::<Vec<_>>().join(", "))
            }
            other => format!("{other:?}"),
        };
        let lane = |client: usize, wire: Wire| -> &Lane { &state.members[client].lanes[wire as usize] };
        match self {
            Self::Begin(client) => {
                let script = world.clients[client].script();
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
            Self::Notice(client) => format!("client {client} gets a notice"),
            Self::Tick(client) => format!("client {client}: timers run"),
            Self::Poll(client) => format!("client {client}: the future that was woken is polled"),
            Self::Late(client, wire) => {
                format!("client {client}: late, the server gets {}", request(lane(client, wire).old[0]))
            }
            Self::Lose(client, wire, kept) => {
                format!("client {client} loses {wire:?}, and what is on it but for {kept} requests")
            }
            Self::Crash(client, [kept, more]) => {
                format!("client {client} crashes; {kept} and {more} of its requests still arrive")
            }
            Self::Expire(until) => format!("nothing happens until a lease ends at {} ms", until.as_nanos() / 1_000_000),
            Self::Rest => "time passes to the next timer".to_owned(),
        }
    }
}
