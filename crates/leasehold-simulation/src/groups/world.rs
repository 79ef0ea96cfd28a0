//! The world of groups: one time, servers, processes, and what is about to happen.

use super::event::WorldEvent;
use super::plan::{Plan, settings};
use super::process::Process;
use super::user::{Hold, PollPolicy, Stage, Task, User};
use super::wish::{Answer, Patience, Wish};
use crate::report::stats::{Coverage, FaultKind, Stats};
use crate::world::event_queue::EventQueue;
use crate::world::trace;
use leasehold::embedded::{EmbeddedLink, EmbeddedServer, ServerClock};
use leasehold_core::time::Instant;
use leasehold_embedded::Snapshot;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// See the [module](self).
pub(super) struct World {
    pub(super) now: Instant,
    time: Arc<AtomicU64>,
    pub(super) rng: fastrand::Rng,
    pub(super) servers: Vec<EmbeddedServer>,
    pub(super) snapshots: Vec<Option<Snapshot>>,
    /// Until when each server is away.
    pub(super) away: Vec<Instant>,
    /// By how much the clock of each server was put back.
    pub(super) put_back: Vec<Duration>,
    pub(super) processes: Vec<Process>,
    events: EventQueue<WorldEvent>,
    pub(super) plan: Plan,
    pub(super) stats: Stats,
    pub(super) tracing: bool,
    /// Faults that wait for a call, by process and server.
    pub(super) armed: BTreeMap<(usize, usize), FaultKind>,
    /// Servers of an earlier world.
    engines: Vec<EmbeddedServer>,
}

impl World {
    pub(super) fn new(seed: u64, tracing: bool, engines: Vec<EmbeddedServer>) -> Self {
        Self {
            now: Instant::from_nanos(0),
            time: Arc::new(AtomicU64::new(0)),
            rng: fastrand::Rng::with_seed(seed),
            servers: Vec::new(),
            snapshots: Vec::new(),
            away: Vec::new(),
            put_back: Vec::new(),
            processes: Vec::new(),
            events: EventQueue::default(),
            plan: Plan::default(),
            stats: Stats::default(),
            tracing,
            armed: BTreeMap::new(),
            engines,
        }
    }

    /// The statistics of the run, and servers for another world.
    pub(super) fn end(mut self) -> (Stats, Vec<EmbeddedServer>) {
        self.stats.digest.record((self.events.next_number, self.rng.u64(..)));
        self.stats.virtual_time = self.now.since(Instant::from_nanos(0));
        self.engines.append(&mut self.servers);
        (self.stats, self.engines)
    }

    pub(super) fn add_server(&mut self) {
        let time = self.time.clone();
        let clock = ServerClock::from_fn(move || Instant::from_nanos(time.load(Ordering::Relaxed)));
        self.servers.push(match self.engines.pop() {
            Some(old) => EmbeddedServer::in_place_of(old, clock),
            None => EmbeddedServer::with_clock(clock),
        });
        self.snapshots.push(None);
        self.away.push(self.now);
        self.put_back.push(Duration::ZERO);
    }

    pub(super) fn add_process(&mut self) {
        let (seed, stepped) = (self.rng.u64(..), self.plan.stepped);
        let process = Process::new(self.now, seed, &self.servers, settings);
        process.links.iter().for_each(|link| link.stepped(stepped));
        self.stats.clients += 1;
        self.processes.push(process);
    }

    pub(super) fn after(&mut self, pause: Duration, what: WorldEvent) {
        self.events.add(self.now + pause, what);
    }

    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + (most - least).mul_f64(self.rng.f64())
    }

    /// When something happens next.
    fn next(&self) -> Option<Instant> {
        let timers = self.processes.iter().filter_map(Process::next);
        timers.chain(self.events.next_at()).min().map(|at| at.max(self.now))
    }

    /// Lets the next thing happen, unless it lies after `until`.
    pub(super) fn step(&mut self, until: Instant) -> bool {
        let Some(at) = self.next().filter(|at| *at <= until) else { return false };
        self.events.count_step(at == self.now);
        self.set_time(at);
        self.stats.steps += 1;
        self.stats.digest.record(at);
        if let Some((_, what)) = self.events.take_due(at) {
            self.happen(what);
        }
        self.settle();
        self.check();
        true
    }

    pub(super) fn run_until(&mut self, until: Instant) {
        while self.step(until) {}
        self.set_time(until);
        self.settle();
    }

    fn set_time(&mut self, now: Instant) {
        self.now = now;
        self.time.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Lets all do what they can do without that time passes, in any order.
    pub(super) fn settle(&mut self) {
        let mut quiet = 0;
        let mut rounds = 0;
        // The last act of one may be a notice to another.
        while quiet < 2 {
            let mut order: Vec<usize> = (0..self.processes.len()).collect();
            self.rng.shuffle(&mut order);
            let mut acted = false;
            for process in order {
                if self.processes[process].runs() {
                    self.processes[process].turn(self.now);
                    acted |= self.let_users_act(process);
                }
            }
            quiet = if acted { 0 } else { quiet + 1 };
            rounds += 1;
            assert!(rounds < 100_000, "somebody is woken for ever");
        }
    }

    fn let_users_act(&mut self, process: usize) -> bool {
        let mut acted = false;
        for user in 0..self.processes[process].users.len() {
            let state = &mut self.processes[process].users[user];
            let (is_woken, awaited) = match &mut state.stage {
                Stage::Asks(task) => (task.is_woken(), &mut task.awaited),
                Stage::Releases { task, .. } => (task.is_woken(), &mut task.awaited),
                Stage::Holds(hold) => {
                    acted |= hold.hear();
                    continue;
                }
                Stage::Over => continue,
            };
            if !is_woken || *awaited {
                continue;
            }
            match state.polls {
                PollPolicy::Times(0) => continue,
                PollPolicy::Late(pause) => {
                    *awaited = true;
                    self.after(pause, WorldEvent::Poll { process, user });
                }
                PollPolicy::AtOnce | PollPolicy::Times(_) => {
                    if let PollPolicy::Times(times) = &mut state.polls {
                        *times -= 1;
                    }
                    self.poll(process, user);
                }
            }
            acted = true;
        }
        acted
    }

    /// A user asks for what it wishes.
    pub(super) fn ask(&mut self, process: usize, wish: Wish, polls: PollPolicy) -> usize {
        self.stats.operations += 1;
        let state = &mut self.processes[process];
        let user = state.users.len();
        trace!(self, "user {user} of {process} asks for {wish:?} {polls:?}");
        let task = Task::new(wish.ask(&state.clients, &state.owner));
        let things = wish.things(&state.clients);
        let since = state.local(self.now);
        let calls = if things.len() > 1 { state.links.iter().map(EmbeddedLink::record).collect() } else { Vec::new() };
        state.users.push(User {
            wish,
            things,
            stage: Stage::Asks(task),
            polls,
            since,
            ended: self.now,
            calls,
            tried: BTreeSet::new(),
            compared: false,
            saw_loss: false,
            doubts: BTreeMap::new(),
        });
        user
    }

    /// Polls the future of a user.
    pub(super) fn poll(&mut self, process: usize, user: usize) {
        let Process { users, links, .. } = &mut self.processes[process];
        let state = &mut users[user];
        match &mut state.stage {
            Stage::Asks(_) => {
                let Some(answer) = state.poll_question(links) else { return };
                state.end(self.now);
                self.answered(process, user, answer);
            }
            Stage::Releases { task, held } => {
                let Some(outcome) = task.poll() else { return };
                let held = *held;
                state.end(self.now);
                trace!(self, "user {user} of {process} has released: {outcome:?}");
                self.stats.digest.record((process, user, "released", outcome.is_ok()));
                self.check_release(process, user, held, &outcome);
            }
            Stage::Holds(_) | Stage::Over => {}
        }
    }

    fn answered(&mut self, process: usize, user: usize, answer: Answer) {
        self.stats.digest.record((process, user, discriminant(&answer), answer.as_ref().ok().map(Option::is_some)));
        match answer {
            Ok(Some(grant)) => {
                trace!(self, "user {user} of {process} has {:?}", self.processes[process].users[user].things);
                let way = self.rng.u8(..3);
                let hold = Hold::new(grant, way);
                self.check_grant(process, user, &hold);
                self.processes[process].users[user].stage = Stage::Holds(hold);
                let pause = self.plan.hold.mul_f64(self.rng.f64() * 2.0);
                self.after(pause, WorldEvent::GiveUp { process, user });
            }
            Ok(None) => {
                trace!(self, "user {user} of {process} has nothing");
                let state = &self.processes[process].users[user];
                assert_eq!(state.wish.patience, Patience::Try, "nobody else is told that it is busy");
            }
            Err(error) => {
                trace!(self, "user {user} of {process} is told: {error}");
                self.check_refusal(process, user, &error);
            }
        }
    }

    /// A user gives up what it has: it releases it, or drops it.
    pub(super) fn give_up(&mut self, process: usize, user: usize) {
        let drops = self.rng.u8(..4) == 0;
        let polls = if self.plan.over { PollPolicy::AtOnce } else { self.some_polls() };
        let now = self.processes[process].local(self.now);
        let Some(state) = self.processes[process].users.get_mut(user) else { return };
        if !matches!(state.stage, Stage::Holds(_)) {
            return;
        }
        let Stage::Holds(hold) = std::mem::replace(&mut state.stage, Stage::Over) else { return };
        self.stats.operations += 1;
        let held = hold.grant.is_held();
        assert!(!(held && hold.is_told), "who has it is not told that it is lost");
        if !held {
            self.stats.reach(Coverage::GroupLost);
        }
        trace!(self, "user {user} of {process} {} it at {now:?}", if drops { "drops" } else { "releases" });
        if drops {
            state.end(self.now);
            return;
        }
        state.polls = polls;
        state.stage = Stage::Releases { task: Task::new(hold.into_grant().release()), held };
        if polls != PollPolicy::AtOnce || self.rng.f64() < self.plan.dropped {
            let pause = self.between(Duration::ZERO, Duration::from_millis(300));
            self.after(pause, WorldEvent::Drop { process, user });
        }
    }

    /// The future of a user is dropped, if he still has one.
    pub(super) fn drop_future(&mut self, process: usize, user: usize) {
        let Some(state) = self.processes[process].users.get_mut(user) else { return };
        if matches!(state.stage, Stage::Asks(_) | Stage::Releases { .. }) {
            if matches!(state.stage, Stage::Asks(_)) {
                self.stats.reach(Coverage::GroupDropped);
            }
            self.stats.fault(FaultKind::Dropped);
            state.end(self.now);
            trace!(self, "user {user} of {process} drops his future");
        }
    }
}
