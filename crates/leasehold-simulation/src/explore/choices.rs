//! What can happen next in a state, and what comes of it.

use super::client::{Request, Wire, text_of};
use super::clients::Told;
use super::members::{Back, Face, Local, Move};
use super::server::{Listening, Order};
use super::state::State;
use super::world::{Places, World};
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;
use std::collections::BTreeSet;
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
    Lose(usize, Wire, u8),
    /// A process ends at once. So many of the first requests on the foreground's and the lifeline's connection still arrive.
    Crash(usize, [u8; 2]),
    /// A process has ended: nothing more is heard of it.
    Vanish(usize),
    /// Nothing happens for so many nanoseconds, when somebody's lease ends.
    Expire(u64),
    /// Nothing else can happen: time passes to the next timer of anybody after which something can.
    Rest,
}

/// The connections that carry calls.
const CALLS: [Wire; 2] = [Wire::Foreground, Wire::Lifeline];

/// Whoever waits for longer than this, or whoever sees time pass more often, waits for ever.
const LONG: Duration = Duration::from_secs(30);
const OFTEN: u8 = 200;

impl World {
    /// What can happen next. Nothing, where the world is at its end.
    pub(super) fn choices(&mut self, state: &State) -> Vec<Choice> {
        let mut choices = self.usual_choices(state);
        if self.options.reduced
            && let Some(enough) = self.enough(state, &choices)
        {
            return enough;
        }
        if state.disturbances > 0 {
            let crashes: Vec<_> =
                self.living(state).flat_map(|(client, _)| self.crashes(state, client, &choices)).collect();
            let beliefs = self.living(state).flat_map(|(_, seen)| &seen.beliefs);
            // Each client's own instant counts: with a client that has crashed, only those of the others would.
            let local = beliefs.filter_map(|belief| belief.left).filter(|left| !left.is_zero());
            let ends: BTreeSet<Duration> = local.chain(self.server.data(state.server).next_end()).collect();
            choices.extend(crashes);
            choices.extend(ends.into_iter().map(|left| Choice::Expire(nanos(left))));
        }
        if state.losses > 0 {
            choices.extend((0..self.classes.len()).flat_map(|client| losses(client, self.face(state, client))));
        }
        if self.usual_choices(state).is_empty() && self.living(state).any(|(_, seen)| seen.due.is_some()) {
            choices.push(Choice::Rest);
        }
        choices
    }

    /// How a client can crash.
    fn crashes(&self, state: &State, client: usize, usual: &[Choice]) -> Vec<Choice> {
        if self.options.reduced {
            let is_left_out =
                |choice: &Choice| matches!(choice, Choice::Serve(of, _) | Choice::Late(of, _) if *of == client);
            return if usual.iter().all(is_left_out) { vec![Choice::Vanish(client)] } else { Vec::new() };
        }
        let [most, more] = self.face(state, client).calls;
        let kept = (0..=most).flat_map(|kept| (0..=more).map(move |other| [kept, other]));
        kept.map(|kept| Choice::Crash(client, kept)).collect()
    }

    /// Choices that are enough, because the others can as well come after them. See the module of the search for why.
    fn enough(&mut self, state: &State, choices: &[Choice]) -> Option<Vec<Choice>> {
        if state.disturbances > 0 {
            return None;
        }
        (0..self.classes.len()).find_map(|client| {
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
            let hears = face.member.is_subscribed && face.member.notices == 0;
            (!own.is_empty() && !is_seen && !hears).then_some(own)
        })
    }

    /// Whether a client believes after a step that concerns it alone what it believed before.
    fn keeps_beliefs(&mut self, state: &State, client: usize, choice: Choice) -> bool {
        let mut after = *state;
        self.own_step(&mut after, client, choice);
        let beliefs = |world: &Self, state: &State| world.seen(state, client).map(|seen| seen.beliefs.clone());
        let (before, after) = (beliefs(self, state).unwrap_or_default(), beliefs(self, &after).unwrap_or_default());
        before.iter().all(|belief| after.contains(belief))
    }

    /// What can happen without a fault and without time passing.
    fn usual_choices(&self, state: &State) -> Vec<Choice> {
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
            if face.member.notices > 0 {
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

    /// Lets a choice happen.
    ///
    /// # Errors
    ///
    /// What must not be.
    pub(super) fn take(&mut self, state: &mut State, choice: Choice) -> Result<(), String> {
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
            Choice::Expire(nanos) => {
                state.disturbances -= 1;
                self.pass(state, nanos);
            }
            Choice::Rest => self.rest(state)?,
        }
        if matches!(
            choice,
            Choice::Begin(_) | Choice::Lose(..) | Choice::Crash(..) | Choice::Vanish(_) | Choice::Expire(_)
        ) {
            state.rests = 0;
        }
        Ok(())
    }

    /// A step that concerns one client alone.
    fn own_step(&mut self, state: &mut State, client: usize, choice: Choice) {
        let step = match choice {
            Choice::Begin(_) => Move::Tell(Told::Begin),
            Choice::Poll(_) => Move::Tell(Told::Poll),
            Choice::Tick(_) => Move::Tell(Told::Tick),
            Choice::Notice(_) => Move::Notice,
            Choice::Answer(_, wire) => Move::Answer(wire),
            Choice::Lose(_, wire, kept) => Move::Lose(wire, kept),
            Choice::Crash(_, [first, second]) => Move::Crash(first, second),
            Choice::Vanish(_) => Move::Vanish,
            Choice::Serve(_, wire) => {
                let request = self.face(state, client).member.lanes[wire as usize].requests[0];
                match **self.requests.get(request) {
                    Request::Barrier { key } => Move::Served(wire, Back::Settled { key, by_barrier: true }),
                    Request::Kill { key, .. } => Move::Served(wire, Back::Settled { key, by_barrier: false }),
                    Request::Call { .. } | Request::Subscribe | Request::Unsubscribe => return,
                }
            }
            Choice::Late(..) | Choice::Expire(_) | Choice::Rest => return,
        };
        self.step(state, client, step);
    }

    fn step(&mut self, state: &mut State, client: usize, step: Move) {
        let members = &mut self.members[self.classes[client]];
        state.members[client] = members.step(state.members[client], step, &self.replies, &mut self.requests);
    }

    /// Time passes for everybody.
    fn pass(&mut self, state: &mut State, nanos: u64) {
        if nanos > 0 {
            state.server = self.server.pass(state.server, nanos, &mut self.replies);
            (0..self.classes.len()).for_each(|client| self.step(state, client, Move::Tell(Told::Pass(nanos))));
        }
    }

    /// Time passes to the next timer, and on while nothing comes of it.
    fn rest(&mut self, state: &mut State) -> Result<(), String> {
        let calm = state.disturbances == self.options.disturbances && state.losses == self.options.losses;
        if calm && self.living(state).any(|(_, seen)| !seen.is_done) {
            let who = self.unfinished(state);
            return Err(format!("nothing went wrong, and somebody waits for time to pass: {who}"));
        }
        state.rests += 1;
        let mut waited = Duration::ZERO;
        loop {
            let Some(due) = self.living(state).filter_map(|(_, seen)| seen.due).min() else { return Ok(()) };
            waited += due;
            if waited > LONG || state.rests > OFTEN {
                return Err(format!("somebody waits for ever: {}", self.unfinished(state)));
            }
            self.pass(state, nanos(due));
            for client in 0..self.classes.len() {
                if self.seen(state, client).and_then(|seen| seen.due).is_some_and(|due| due.is_zero()) {
                    self.step(state, client, Move::Tell(Told::Tick));
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
        for (member, notices) in notices.into_iter().enumerate().filter(|(_, notices)| *notices > 0) {
            self.step(state, member, Move::Hear(u32::from(notices)));
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

    /// Notes who waits for a fair lock, and wants nobody of those who live to be overtaken.
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

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// How a client can lose a connection.
fn losses(client: usize, face: &Face) -> Vec<Choice> {
    let lost = |(wire, calls): (Wire, u8)| {
        let lane = &face.member.lanes[wire as usize];
        let kept = (!lane.requests.is_empty() || !lane.replies.is_empty()).then_some(0..=calls);
        kept.into_iter().flatten().map(move |kept| Choice::Lose(client, wire, kept))
    };
    if face.seen.is_none() {
        return Vec::new();
    }
    CALLS.into_iter().zip(face.calls).flat_map(lost).collect()
}

impl Choice {
    /// Whether it does something to a client, and to nobody else.
    fn concerns(self, client: usize) -> bool {
        match self {
            Self::Begin(of) | Self::Answer(of, _) | Self::Notice(of) | Self::Tick(of) | Self::Poll(of) => of == client,
            _ => false,
        }
    }

    /// The same, where each client has the number that it gets by this order.
    pub(super) fn by(self, order: &Order) -> Self {
        let own = |moved: usize| order.iter().position(|to| usize::from(*to) == moved).unwrap_or(moved);
        match self {
            Self::Begin(of) => Self::Begin(own(of)),
            Self::Serve(of, wire) => Self::Serve(own(of), wire),
            Self::Answer(of, wire) => Self::Answer(own(of), wire),
            Self::Notice(of) => Self::Notice(own(of)),
            Self::Tick(of) => Self::Tick(own(of)),
            Self::Poll(of) => Self::Poll(own(of)),
            Self::Late(of, wire) => Self::Late(own(of), wire),
            Self::Lose(of, wire, kept) => Self::Lose(own(of), wire, kept),
            Self::Crash(of, kept) => Self::Crash(own(of), kept),
            Self::Vanish(of) => Self::Vanish(own(of)),
            Self::Expire(_) | Self::Rest => self,
        }
    }

    /// What a choice is, for people.
    pub(super) fn tell(self, world: &World, state: &State) -> String {
        let request = |number: u32| match &**world.requests.get(number) {
            Request::Call { call, .. } => {
                let args = call.args().iter().take(4).map(|arg| text_of(arg));
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
            Self::Vanish(client) => format!("client {client} has crashed, and nothing more is heard of it"),
            Self::Expire(nanos) => {
                format!("nothing happens until a lease ends, {} ms later", Duration::from_nanos(nanos).as_millis())
            }
            Self::Rest => "time passes to the next timer".to_owned(),
        }
    }
}
