//! How time passes in a small world, and which clients can be held up.

use super::choice::{members_of, pending};
use super::client::Seen;
use super::clients::Told;
use super::members::Move;
use super::state::State;
use super::world::World;
use std::rc::Rc;
use std::time::Duration;

/// Maximum wait, and maximum number of time steps. Beyond it, a client waits forever.
const LONG: Duration = Duration::from_secs(30);
const OFTEN: u8 = 200;

/// Delay after the end of a lease until a waiter retries.
const SOON: Duration = Duration::from_millis(8);

impl World {
    /// The clients that can be held up while time passes, as sets, given those that have something to do. All that have something to do are
    /// among them, because time does not pass otherwise; and each that was not held up before is a disturbance.
    pub(crate) fn hold_ups(&self, state: &State, pending: u8) -> Vec<u8> {
        let timers = self.living(state).filter(|(_, seen)| seen.due.is_some());
        let may_be = timers.fold(pending, |set, (client, _)| set | 1 << client);
        let is_one = |set: &u8| {
            let new = (set & !state.late).count_ones();
            set & pending == pending
                && set & !may_be == 0
                && new <= u32::from(state.disturbances)
                && self.next_stop(state, *set).is_some()
        };
        (1..1u8 << self.classes.len()).filter(is_one).collect()
    }

    /// How long it takes until a lease ends, on the server or as a client sees it.
    fn next_end(&self, state: &State) -> Option<Duration> {
        // Each client's own instant counts: with a client that has crashed, only those of the others would.
        let beliefs = self.living(state).flat_map(|(_, seen)| &seen.beliefs);
        let local = beliefs.filter_map(|belief| belief.left).filter(|left| !left.is_zero());
        local.chain(self.server.data(state.server).next_end()).min()
    }

    /// How long it takes until a lease ends, or until a client that waits for that, and is not held up, looks.
    fn next_stop(&self, state: &State, held_up: u8) -> Option<Duration> {
        let prompt = |(client, seen): (usize, &Rc<Seen>)| seen.due.filter(|_| held_up & 1 << client == 0);
        let due = self.living(state).filter_map(prompt).min();
        match self.next_end(state) {
            Some(end) => Some(due.map_or(end, |due| due.min(end))),
            None => due.filter(|due| *due <= SOON),
        }
    }

    /// Time passes to the end of a lease, or until a client that is not held up has something to do.
    pub(crate) fn hold_up(&mut self, state: &mut State, held_up: u8) {
        state.disturbances -= u8::try_from((held_up & !state.late).count_ones()).expect("there are few clients");
        state.late = held_up;
        let mut waited = Duration::ZERO;
        while let Some(stop) = self.next_stop(state, held_up).filter(|_| waited <= LONG) {
            let ends = self.next_end(state) == Some(stop);
            self.pass(state, nanos(stop));
            self.run_timers(state, !held_up);
            waited += stop;
            if ends || pending(&self.usual_choices(state)) & !held_up != 0 {
                return;
            }
        }
    }

    /// Runs the due timers of these clients.
    fn run_timers(&mut self, state: &mut State, clients: u8) {
        let there_are = self.classes.len();
        for client in members_of(clients).take_while(|client| *client < there_are) {
            if self.seen(state, client).and_then(|seen| seen.due).is_some_and(|due| due.is_zero()) {
                self.step(state, client, Move::Tell(Told::Tick));
            }
        }
    }

    /// Advances the time of all clients and of the server.
    fn pass(&mut self, state: &mut State, nanos: u64) {
        if nanos > 0 {
            state.server = self.server.pass(state.server, nanos, &mut self.replies);
            (0..self.classes.len()).for_each(|client| self.step(state, client, Move::Tell(Told::Pass(nanos))));
        }
    }

    /// Time passes to the next timer, and on while nothing comes of it.
    pub(crate) fn rest(&mut self, state: &mut State) -> Result<(), String> {
        let calm = state.disturbances == self.options.disturbances && state.losses == self.options.losses;
        // A head start ends after its time. A lingering hold ends earlier: another client publishes a request, and the
        // holder receives it.
        let is_meant = self.living(state).any(|(_, seen)| seen.gives_head_start);
        if calm && !is_meant && self.living(state).any(|(_, seen)| !seen.is_done) {
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
            self.run_timers(state, u8::MAX);
            if !self.usual_choices(state).is_empty() {
                return Ok(());
            }
        }
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
