//! Random worlds: everything that happens in one follows from its seed.

use crate::faults::rates::FaultRates;
use crate::report::stats::{Coverage, FaultKind};
use crate::workload::family::LockFamily;
use crate::workload::plan::{DISTURBED, FaultMix, LEASE, plan};
use crate::world::client::{Outcome, PollPolicy, Task, TaskKind};
use crate::world::event::WorldEvent;
use crate::world::{World, ms, name, trace};
use leasehold_core::error::{AcquireError, ReleaseError};
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Patience};
use leasehold_core::time::Instant;
use std::time::Duration;

/// Plays the world of a seed to its end.
pub(crate) fn run(world: &mut World, seed: u64, family: LockFamily) {
    plan(world, seed, family);
    let mut end = world.now + DISTURBED;
    loop {
        while world.step(end) {
            react(world);
            look_at_counts(world);
        }
        // A client that is paused then is waited for.
        let Some(until) = world.clients.iter().filter_map(|client| client.paused_until).max() else { break };
        end = until;
    }
    calm(world);
    let limit = world.now + patience_of_the_living(world);
    finish(world, limit);
    if !world.plan.copies && !world.restored {
        // In one mix a command that was sent before may take long on either way.
        world.run(if world.plan.mix.has(FaultMix::Delays) { ms(3_100) } else { ms(1_600) });
        if world.clients.iter().any(|client| client.dead) {
            // Their last messages may have arrived late, and last for a lease from then on.
            let last = world.plan.ended + under_way(world) + LEASE + ms(100);
            world.run_until(last.max(world.now));
        }
        world.stats.reach(Coverage::LeftSoonSought);
        world.check_left("soon after the last guard");
    }
    // A clock that is wrong may be slower by a fifth.
    world.run(LEASE * 4 + ms(4_000) + world.put_back);
    come_next(world);
    world.check_nothing_left();
    let last = (world.next_number, world.rng.u64(..));
    world.stats.digest.record(last);
    world.stats.virtual_time = world.now.since(Instant::from_nanos(0));
}

/// The data that a server has lost may be what told the dead of ours from waiters of a JVM. These keep their places in a fair queue for as
/// long as they asked for, and their queue has no end of its own: the next client removes them.
fn come_next(world: &mut World) {
    let is_left = |lock: &LockName| {
        let queue = format!("redisson_lock_queue:{{{lock}}}");
        world.server.command(&[b"PTTL", queue.as_bytes()]) == Ok(Reply::Int(-1))
    };
    let left: Vec<_> = (0..world.plan.locks).map(|lock| name(&format!("lock{lock}"))).filter(is_left).collect();
    if !world.leftovers || left.is_empty() {
        return;
    }
    let settings = world.plan.settings.clone();
    world.run(settings.fair.cap + settings.fair.skew);
    let client = world.add_client(settings);
    for lock in left {
        let wish = world.plan.family.wish(lock, LEASE, &mut world.rng);
        world.acquire_polled(client, AcquireRequest { patience: Patience::Forever, ..wish }, PollPolicy::AtOnce);
    }
    let limit = world.now + patience_of_the_living(world);
    finish(world, limit);
    world.run(LEASE * 4 + ms(4_000));
}

/// Lets all come to an end, until the limit.
pub(crate) fn finish(world: &mut World, limit: Instant) {
    while !everything_ended(world) {
        assert!(world.step(limit), "somebody waits for ever: {:?}", unfinished(world));
        react(world);
        look_at_counts(world);
    }
}

fn look_at_counts(world: &mut World) {
    world.check_counts(ms(1_500));
    if world.stats.steps.is_multiple_of(16) {
        world.check_strays();
    }
}

/// How long a living user waits at most, once nothing goes wrong any more and no other comes any more: until what was sent before has
/// arrived and what the dead held has ended, by a clock that was perhaps put back; until a silent place in a queue has gone, an offer has
/// been missed, and a waiter has looked again; and for the turns of all who are before it, each with its hold, and late by as much as
/// futures are polled late.
fn patience_of_the_living(world: &World) -> Duration {
    let settings = &world.plan.settings;
    let (fair, hold) = (settings.fair, world.plan.hold);
    let left_behind = LEASE * if world.plan.copies { 2 } else { 1 } + world.put_back;
    let turns = u32::try_from(unfinished(world).len()).unwrap_or(u32::MAX);
    let forgotten = world.forgot_processes && world.leftovers;
    let left_behind = left_behind + if forgotten { places_of_strangers(world) } else { Duration::ZERO };
    under_way(world) + left_behind + fair.window + fair.claim + settings.recheck + (hold * 2 + ms(400)) * turns
}

/// How long a message may still be on the way when the faults end.
fn under_way(world: &World) -> Duration {
    ms(if world.plan.copies || world.plan.mix.has(FaultMix::Delays) { 3_500 } else { 1_500 })
}

/// How long the dead who are taken for waiters of a JVM keep their places in the queues of fair locks, one after the other: for as long as a
/// JVM waits, or until their score, which is later by what those before them might have taken.
fn places_of_strangers(world: &World) -> Duration {
    let fair = world.plan.settings.fair;
    let scores = (0..world.plan.locks).flat_map(|lock| {
        let key = format!("redisson_lock_timeout:{{lock{lock}}}");
        match world.server.command(&[b"ZRANGE", key.as_bytes(), b"0", b"-1", b"WITHSCORES"]) {
            Ok(Reply::Array(entries)) => entries.into_iter().skip(1).step_by(2).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    });
    let keeps = scores.map(|score| {
        let Reply::Bulk(score) = score else { panic!("{score:?} is no score") };
        let score: f64 = std::str::from_utf8(&score).ok().and_then(|score| score.parse().ok()).expect("a number");
        let left = Duration::try_from_secs_f64((score / 1_000.0) - (world.server.wall_millis() as f64 / 1_000.0));
        left.unwrap_or_default().max(fair.cap + fair.skew)
    });
    keeps.sum()
}

/// From here on nothing goes wrong, and every future that is neither polled nor dropped by itself is dropped.
fn calm(world: &mut World) {
    trace!(world, "the faults end");
    world.plan.over = true;
    world.plan.ended = world.now;
    world.rates = FaultRates::default();
    world.faults.clear();
    world.server.deny_growth(false);
    world.open_latches();
    for client in (0..world.clients.len()).filter(|client| !world.clients[*client].dead).collect::<Vec<_>>() {
        world.thaw(client);
        for task in 0..world.clients[client].tasks.len() {
            if world.clients[client].tasks[task].polls == PollPolicy::Never {
                world.abandon(client, task);
            }
        }
    }
    for guard in 0..world.guards.len() {
        let pause = world.between(ms(0), ms(500));
        world.after(pause, WorldEvent::GiveUp { guard, how: 0 });
    }
}

fn everything_ended(world: &World) -> bool {
    world.guards.iter().all(|guard| !guard.alive)
        && world.clients.iter().all(|client| client.tasks.iter().all(|task| task.outcome.is_some()))
}

fn unfinished(world: &World) -> Vec<String> {
    let tasks = world.clients.iter().enumerate().flat_map(|(number, client)| {
        client.tasks.iter().filter(|task| task.outcome.is_none()).map(move |task| format!("{number} {task:?}"))
    });
    let guards = world.guards.iter().filter(|guard| guard.alive).map(|guard| format!("{guard:?}"));
    tasks.chain(guards).collect()
}

/// The reaction of users when something of theirs has ended.
fn react(world: &mut World) {
    for (client, task) in std::mem::take(&mut world.finished) {
        check_patience(world, client, task);
        check_reason(world, client, task);
        if let Some(Outcome::Granted(guard)) = world.clients[client].tasks[task].outcome.clone() {
            world.plan_section(guard);
            let pause = world.plan.hold.mul_f64(world.rng.f64() * 2.0);
            let how = world.rng.u8(..12);
            world.after(pause, WorldEvent::GiveUp { guard, how });
        }
    }
}

/// A wait ends when the caller's patience does, give or take the time of one command and a half; and of another one where the server must
/// take back what the last attempt began.
pub(crate) fn check_patience(world: &World, client: usize, task: usize) {
    let state = &world.clients[client].tasks[task];
    let TaskKind::Acquire(wish) = &state.kind else { return };
    let (Some(outcome), PollPolicy::AtOnce) = (&state.outcome, state.polls) else { return };
    let leapt = world.clients[client].leapt.is_some_and(|at| at >= state.started);
    if *outcome == Outcome::Dropped || leapt {
        return;
    }
    let slack = world.clients[client].session.settings().command_timeout + ms(120);
    match wish.patience {
        Patience::Until(until) => {
            let takes_back = matches!(outcome, Outcome::NotAcquired(error) if *error != AcquireError::WaitElapsed);
            // The holds that its client has given up of the same lock may be awaited for half as long as a command.
            let half = world.clients[client].session.settings().command_timeout / 2;
            let slack = if takes_back { slack * 2 } else { slack + half };
            assert!(state.done <= until + slack, "waited until {:?}, not {until:?}: {outcome:?}", state.done);
            if *outcome == Outcome::NotAcquired(AcquireError::WaitElapsed) {
                assert!(state.done >= until, "gave up at {:?}, before {until:?}", state.done);
            }
            assert_ne!(*outcome, Outcome::Nothing);
        }
        Patience::Try => {
            assert!(state.done <= state.started + slack * 3, "tried until {:?}: {outcome:?}", state.done);
            assert_ne!(*outcome, Outcome::NotAcquired(AcquireError::WaitElapsed));
        }
        Patience::Forever => {
            assert_ne!(*outcome, Outcome::Nothing);
            assert_ne!(*outcome, Outcome::NotAcquired(AcquireError::WaitElapsed));
        }
    }
}

/// No caller is told of trouble that there was not.
pub(crate) fn check_reason(world: &World, client: usize, task: usize) {
    let Some(outcome) = &world.clients[client].tasks[task].outcome else { return };
    let settings = &world.plan.settings;
    let over = world.plan.ended + under_way(world) + settings.unreachable_after + settings.command_timeout;
    // If a future is polled late, the time for an answer passes for the next request at the same hold, too.
    let now = world.local(client);
    let lock_of = |task: &Task| match &task.kind {
        TaskKind::Acquire(wish) => wish.name.clone(),
        TaskKind::Release { guard, .. } => world.guards[*guard].name.clone(),
    };
    let lock = lock_of(&world.clients[client].tasks[task]);
    let is_late = |task: &Task| {
        let goes_on = task.outcome.is_none() || now.since(task.done) <= settings.command_timeout;
        goes_on && lock_of(task) == lock && !matches!(task.polls, PollPolicy::AtOnce)
    };
    let waits = || world.clients[client].tasks.iter().any(is_late);
    let fault_free = world.plan.orderly || world.plan.over && world.now > over && !waits();
    match outcome {
        Outcome::NotAcquired(
            AcquireError::Unreachable(_) | AcquireError::OutcomeUnknown(_) | AcquireError::Refused(_),
        )
        | Outcome::NotReleased(
            ReleaseError::Unreachable(_) | ReleaseError::OutcomeUnknown(_) | ReleaseError::Refused(_),
        ) => assert!(!fault_free, "nothing is wrong, and client {client} is told: {outcome:?}"),
        Outcome::NotAcquired(AcquireError::KeyConflict(_) | AcquireError::ExceedsCapacity { .. }) => {
            assert!(world.broken, "client {client} is told: {outcome:?}");
        }
        Outcome::NotAcquired(AcquireError::WaitElapsed | AcquireError::Lost(_) | AcquireError::UpgradeNotSupported)
        | Outcome::NotReleased(ReleaseError::Lost(_)) => {}
        Outcome::NotAcquired(_) | Outcome::NotReleased(_) => panic!("client {client} is told: {outcome:?}"),
        Outcome::Granted(_) | Outcome::Opened | Outcome::Nothing | Outcome::Released | Outcome::Dropped => {}
    }
}

impl World {
    fn some_polls(&mut self) -> PollPolicy {
        let roll = self.rng.f64();
        if roll < self.plan.never {
            self.stats.fault(FaultKind::Unpolled);
            PollPolicy::Never
        } else if roll < self.plan.never + self.plan.late {
            self.stats.fault(FaultKind::LatePoll);
            let most = ms([5, 60, 300][self.rng.usize(..3)]);
            PollPolicy::Late(self.between(ms(0), most))
        } else {
            PollPolicy::AtOnce
        }
    }

    fn perhaps_dropped(&mut self, client: usize, task: usize) {
        if self.rng.f64() < self.plan.dropped {
            self.stats.fault(FaultKind::Dropped);
            if self.rng.u8(..4) == 0 {
                self.clients[client].tasks[task].drop_at_reply = true;
                return;
            }
            let most = [ms(1), ms(30), ms(1_000)][self.rng.usize(..3)];
            let pause = self.between(Duration::ZERO, most);
            self.after(pause, WorldEvent::Abandon { client, task });
        }
    }

    /// A user wants a lock.
    pub(crate) fn start_one(&mut self, client: usize) {
        if self.plan.over {
            return;
        }
        if self.plan.family == LockFamily::Latch && self.rng.bool() {
            return self.start_count(client);
        }
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        let renewed = self.rng.u8(..3) > 0;
        let lease = if renewed { LEASE } else { self.between(ms(100), LEASE) };
        let patience = match self.rng.u8(..10) {
            0 | 1 => Patience::Try,
            2..=4 => Patience::Until(self.local(client) + self.between(ms(0), ms(1_500))),
            _ => Patience::Forever,
        };
        let owner = (self.rng.u8(..3) == 0).then(|| self.plan.owners[client][self.rng.usize(..2)]);
        let max_hold = (self.rng.u8(..10) == 0).then(|| self.between(ms(50), ms(1_500)));
        let wish = self.plan.family.wish(lock, lease, &mut self.rng);
        let wish = self.without_lease(AcquireRequest { owner, lease, renewed, max_hold, patience, ..wish });
        self.start(client, wish);
    }

    /// A grant of a bare semaphore has no lease, and is not re-entered.
    fn without_lease(&self, wish: AcquireRequest) -> AcquireRequest {
        match self.plan.family {
            LockFamily::Semaphore => {}
            LockFamily::Latch => return AcquireRequest { owner: None, renewed: false, max_hold: None, ..wish },
            _ => return wish,
        }
        AcquireRequest { lease: Duration::from_secs(10 * 365 * 86_400), renewed: false, max_hold: None, ..wish }
    }

    fn start(&mut self, client: usize, wish: AcquireRequest) {
        // A user that polls later than its lease lasts never gets in.
        let least = wish.max_hold.unwrap_or(wish.lease).min(wish.lease);
        let polls = match self.some_polls() {
            PollPolicy::Late(pause) => PollPolicy::Late(pause.min(least / 3)),
            polls => polls,
        };
        let task = self.acquire_polled(client, wish, polls);
        self.perhaps_dropped(client, task);
    }

    /// A user has held a guard for long enough.
    pub(crate) fn give_up(&mut self, guard: usize, how: u8) {
        let state = &self.guards[guard];
        if !state.alive {
            return;
        }
        let client = state.client;
        match how {
            9 if !self.plan.over => {
                // It is kept until the end.
            }
            // Permits of a bare semaphore that are detached are given up for good.
            10 if !self.plan.over && self.plan.family != LockFamily::Semaphore => self.detach(guard),
            6 | 7 => self.drop_guard(guard),
            8 | 11 if !self.plan.over => {
                // The same owner comes again, for a shorter or longer time.
                let lock = state.name.clone();
                let owner = Some(self.plan.owners[client][self.rng.usize(..2)]);
                let lease = self.between(ms(100), LEASE);
                let renewed = self.rng.bool();
                let patience = Patience::Forever;
                let wish = self.plan.family.wish(lock, lease, &mut self.rng);
                let wish = self.without_lease(AcquireRequest { owner, renewed, patience, ..wish });
                self.start(client, wish);
                let pause = self.plan.hold.mul_f64(self.rng.f64());
                self.after(pause, WorldEvent::GiveUp { guard, how: 0 });
            }
            _ => {
                let polls = if self.plan.over { PollPolicy::AtOnce } else { self.some_polls() };
                let task = self.release_polled(guard, polls);
                if !self.plan.over {
                    self.perhaps_dropped(client, task);
                }
            }
        }
    }
}
