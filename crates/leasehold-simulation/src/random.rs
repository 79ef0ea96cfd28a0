//! Random worlds: everything that happens in one follows from its seed.

use crate::client::{Outcome, Polls, TaskKind};
use crate::happening::Happening;
use crate::kinds::Family;
use crate::weather::Weather;
use crate::world::{World, ms, name, settings, tell};
use leasehold_core::error::AcquireError;
use leasehold_core::link::{LinkEvent, Plane};
use leasehold_core::owner::OwnerId;
use leasehold_core::session::{AcquireRequest, Patience};
use std::time::Duration;

/// What the users of a random world do.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) family: Family,
    pub(crate) locks: u64,
    /// Nobody is late and nothing goes wrong, so that a fair queue is served in the order in which it came to be.
    pub(crate) orderly: bool,
    /// A copy of a command may come late, or it cannot be proven that none does.
    pub(crate) copies: bool,
    owners: Vec<Vec<OwnerId>>,
    /// How long a guard is kept.
    hold: Duration,
    /// How likely it is that a future is polled late, or never, or is dropped.
    late: f64,
    never: f64,
    dropped: f64,
    /// Nothing goes wrong any more, and nobody begins anything.
    over: bool,
    detached: bool,
}

/// The longest lease in a random world.
const LEASE: Duration = ms(1_200);
/// Until when a random world is disturbed.
const DISTURBED: Duration = ms(4_000);

/// Runs the world of a seed, with a family of locks that follows from it unless one is given.
pub(crate) fn run(seed: u64, family: Option<Family>, telling: bool) {
    let mut world = World::new(seed);
    world.telling |= telling;
    let mix = seed % 8;
    let families = Family::ALL.len() as u64;
    let of_the_seed = Family::ALL[usize::try_from(seed / 8 % families).expect("few")];
    world.plan.family = family.unwrap_or(of_the_seed);
    world.plan.orderly = mix == 0;
    world.plan.copies = mix >= 5;
    let mut settings = settings();
    settings.lease = LEASE;
    settings.recheck = ms(1_000);
    settings.command_timeout = ms(150);
    settings.unreachable_after = ms(1_500);
    settings.fair.window = ms(600);
    settings.fair.beat = ms(120);
    settings.fair.claim = ms(600);
    settings.fair.idle = ms(8_000);
    settings.renew_batch = 1 + world.rng.usize(..4);
    settings.not_after = world.rng.bool();
    settings.cluster = world.rng.u8(..4) == 0;
    let clients = 1 + world.rng.usize(..4);
    for _ in 0..clients {
        let client = world.add_client(settings.clone());
        let owners = (0..2).map(|_| world.clients[client].session.new_owner()).collect();
        world.plan.owners.push(owners);
    }
    world.plan.locks = 1 + world.rng.u64(..3);
    world.fill();
    world.plan.hold = ms([1, 20, 200, 1_500][world.rng.usize(..4)]);
    disturb(&mut world, mix);
    let starts = 4 + world.rng.usize(..24);
    for _ in 0..starts {
        let pause = DISTURBED.mul_f64(world.rng.f64() * world.rng.f64());
        let client = world.rng.usize(..clients);
        world.after(pause, Happening::Start { client });
    }
    let end = world.now + DISTURBED;
    while world.step(end) {
        react(&mut world);
        if world.now > world.last_fault + ms(1_500) {
            world.check_counts();
        }
    }
    calm(&mut world);
    let unproven = mix >= 6;
    let limit = world.now + LEASE * 4 + (world.plan.hold * 2 + ms(400)) * 120;
    while !everything_ended(&world) {
        assert!(world.step(limit), "somebody waits for ever: {:?}", unfinished(&world));
        react(&mut world);
        if world.now > world.last_fault + ms(1_500) {
            world.check_counts();
        }
    }
    if !unproven && mix != 5 && !world.plan.detached {
        // In one mix a command that was sent before may take long on either way.
        world.run(if mix == 3 { ms(3_100) } else { ms(1_100) });
        world.check_keys_left("soon after the last guard");
        assert_eq!(world.server.subscriptions(), 0, "soon after the last waiter");
    }
    world.run(LEASE * 3 + ms(3_000));
    world.check_nothing_left();
}

/// Plans the faults of a mix.
fn disturb(world: &mut World, mix: u64) {
    let mut weather = Weather::default();
    let all = mix == 7;
    if mix >= 1 {
        world.plan.late = 0.25;
        world.plan.never = 0.06;
        world.plan.dropped = 0.15;
    }
    if world.rng.bool() {
        weather.delay = (ms(1), ms(8));
    }
    if mix == 2 || all {
        weather.lose_request = 0.04;
        weather.lose_reply = 0.06;
        weather.swallow = 0.02;
        weather.not_sent = 0.02;
    }
    if mix == 3 || all {
        weather.spike = 0.08;
        weather.spike_of = ms([60, 400, 1_500][world.rng.usize(..3)]);
        weather.lose_notice = 0.2;
    }
    if mix == 5 || all {
        weather.copy_now = 0.2;
        weather.copy_late = 0.1;
    }
    if mix == 6 || all {
        weather.unproven = 0.3;
        weather.settle_fails = 0.3;
        weather.subscribe_fails = 0.2;
        weather.refuse = 0.1;
        weather.lose_reply = 0.06;
    }
    world.weather = weather;
    let clients = world.clients.len();
    let some_time = |world: &mut World| DISTURBED.mul_f64(world.rng.f64());
    if matches!(mix, 2 | 3 | 7) {
        for _ in 0..world.rng.usize(..6) {
            let (client, at) = (world.rng.usize(..clients), some_time(world));
            let plane = if world.rng.bool() { Plane::Foreground } else { Plane::Lifeline };
            let (lose, pause) = (world.rng.bool(), world.between(ms(1), ms(1_400)));
            let what = match world.rng.u8(..5) {
                0 | 1 => Happening::Reset { client, plane, lose },
                2 => Happening::Freeze { client, plane, pause },
                3 => Happening::ResetNotices { client },
                _ => Happening::Event { client, event: LinkEvent::NoticesLagged },
            };
            world.after(at, what);
        }
    }
    if matches!(mix, 4 | 7) {
        for _ in 0..=world.rng.usize(..3) {
            let (client, at) = (world.rng.usize(..clients), some_time(world));
            let pause = world.between(ms(1), ms(2_500));
            world.after(at, Happening::Unreachable { client, yes: true });
            world.after(at + pause, Happening::Unreachable { client, yes: false });
        }
        // A bare semaphore that has lost its counter has lost its capacity: nobody could put that right.
        if world.rng.u8(..3) == 0 && world.plan.family != Family::Semaphore {
            let at = some_time(world);
            world.after(at, Happening::RestartEmpty);
        }
    }
    if matches!(mix, 6 | 7) && world.rng.bool() {
        let at = some_time(world);
        let pause = world.between(ms(1), ms(800));
        world.after(at, Happening::DenyGrowth { deny: true });
        world.after(at + pause, Happening::DenyGrowth { deny: false });
    }
}

/// From here on nothing goes wrong, and whoever is neither polled nor dropped by himself is dropped.
fn calm(world: &mut World) {
    tell!(world, "the faults end");
    world.plan.over = true;
    world.weather = Weather::default();
    world.faults.clear();
    world.server.deny_growth(false);
    for client in 0..world.clients.len() {
        world.thaw(client);
        for task in 0..world.clients[client].tasks.len() {
            if world.clients[client].tasks[task].polls == Polls::Never {
                world.abandon(client, task);
            }
        }
    }
    for guard in 0..world.guards.len() {
        let pause = world.between(ms(0), ms(500));
        world.after(pause, Happening::GiveUp { guard, how: 0 });
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

/// What users do when something of theirs has ended.
fn react(world: &mut World) {
    for (client, task) in std::mem::take(&mut world.finished) {
        check_patience(world, client, task);
        if let Some(Outcome::Granted(guard)) = world.clients[client].tasks[task].outcome.clone() {
            let pause = world.plan.hold.mul_f64(world.rng.f64() * 2.0);
            let how = world.rng.u8(..12);
            world.after(pause, Happening::GiveUp { guard, how });
        }
    }
}

/// A wait ends when the caller's patience does, give or take the time of one command.
fn check_patience(world: &World, client: usize, task: usize) {
    let state = &world.clients[client].tasks[task];
    let TaskKind::Acquire(wish) = &state.kind else { return };
    let (Some(outcome), Polls::AtOnce) = (&state.outcome, state.polls) else { return };
    if *outcome == Outcome::Dropped {
        return;
    }
    let slack = world.clients[client].session.settings().command_timeout + ms(120);
    match wish.patience {
        Patience::Until(until) => {
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

impl World {
    fn some_polls(&mut self) -> Polls {
        let roll = self.rng.f64();
        if roll < self.plan.never {
            Polls::Never
        } else if roll < self.plan.never + self.plan.late {
            let most = ms([5, 60, 300][self.rng.usize(..3)]);
            Polls::Late(self.between(ms(0), most))
        } else {
            Polls::AtOnce
        }
    }

    fn perhaps_dropped(&mut self, client: usize, task: usize) {
        if self.rng.f64() < self.plan.dropped {
            if self.rng.u8(..4) == 0 {
                self.clients[client].tasks[task].drop_at_reply = true;
                return;
            }
            let most = [ms(1), ms(30), ms(1_000)][self.rng.usize(..3)];
            let pause = self.between(Duration::ZERO, most);
            self.after(pause, Happening::Abandon { client, task });
        }
    }

    /// Somebody wants a lock.
    pub(crate) fn start_one(&mut self, client: usize) {
        if self.plan.over {
            return;
        }
        let lock = name(&format!("lock{}", self.rng.u64(..self.plan.locks)));
        let renewed = self.rng.u8(..3) > 0;
        let lease = if renewed { LEASE } else { self.between(ms(100), LEASE) };
        let patience = match self.rng.u8(..10) {
            0 | 1 => Patience::Try,
            2..=4 => Patience::Until(self.now + self.between(ms(0), ms(1_500))),
            _ => Patience::Forever,
        };
        let owner = (self.rng.u8(..3) == 0).then(|| self.plan.owners[client][self.rng.usize(..2)]);
        let max_hold = (self.rng.u8(..10) == 0).then(|| self.between(ms(50), ms(1_500)));
        let wish = self.plan.family.wish(lock, lease, &mut self.rng);
        let wish = self.without_lease(AcquireRequest { owner, lease, renewed, max_hold, patience, ..wish });
        self.start(client, wish);
    }

    /// What a bare semaphore gives has no lease, and nobody re-enters it.
    fn without_lease(&self, wish: AcquireRequest) -> AcquireRequest {
        if self.plan.family != Family::Semaphore {
            return wish;
        }
        AcquireRequest { lease: Duration::from_secs(10 * 365 * 86_400), renewed: false, max_hold: None, ..wish }
    }

    fn start(&mut self, client: usize, wish: AcquireRequest) {
        // Whoever polls later than his lease lasts never gets in.
        let least = wish.max_hold.unwrap_or(wish.lease).min(wish.lease);
        let polls = match self.some_polls() {
            Polls::Late(pause) => Polls::Late(pause.min(least / 3)),
            polls => polls,
        };
        let task = self.acquire_polled(client, wish, polls);
        self.perhaps_dropped(client, task);
    }

    /// Somebody has held a guard for long enough.
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
            // Whoever detaches the permits of a bare semaphore gives them up for good.
            10 if !self.plan.over && self.plan.family != Family::Semaphore => self.detach_one(guard),
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
                self.after(pause, Happening::GiveUp { guard, how: 0 });
            }
            _ => {
                let polls = if self.plan.over { Polls::AtOnce } else { self.some_polls() };
                let task = self.release_polled(guard, polls);
                if !self.plan.over {
                    self.perhaps_dropped(client, task);
                }
            }
        }
    }

    fn detach_one(&mut self, guard: usize) {
        self.plan.detached = true;
        self.detach(guard);
    }
}
