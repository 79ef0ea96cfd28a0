//! The users of a world of groups, and the faults that it meets. The mixes of faults are those of the other worlds.

use super::event::WorldEvent;
use super::process::Process;
use super::user::{PollPolicy, Stage};
use super::wish::{Patience, Sort, What, Wish};
use super::world::World;
use crate::faults::mix::FaultMix;
use crate::report::stats::FaultKind;
use crate::workload::family::LockFamily;
use crate::workload::plan::{DISTURBED, LEASE};
use crate::world::{ms, trace};
use leasehold::ClientBuilder;
use leasehold_core::time::Instant;
use std::time::Duration;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) family: LockFamily,
    pub(super) mix: FaultMix,
    /// Nothing goes wrong, but that users are late or drop what they asked for, and that clients crash.
    pub(super) fault_free: bool,
    /// Every operation on a connection takes several polls.
    pub(super) stepped: bool,
    /// How many things there are to be locked.
    pub(super) things: u64,
    /// How long a guard is kept.
    pub(super) hold: Duration,
    /// How likely it is that a future is polled late, or not to its end, or is dropped.
    late: f64,
    never: f64,
    pub(super) dropped: f64,
    /// Nothing goes wrong any more, and no user begins anything.
    pub(super) over: bool,
    /// When that began.
    pub(super) ended: Instant,
}

/// The settings of every client.
pub(super) fn settings(builder: ClientBuilder) -> ClientBuilder {
    let builder = builder.lease(LEASE).recheck(ms(1_000)).command_timeout(ms(150));
    builder.unreachable_after(ms(1_500))
}

/// Plays the world of a seed to its end.
pub(super) fn run(world: &mut World, seed: u64, family: LockFamily) {
    plan(world, seed, family);
    world.run_until(world.now + DISTURBED);
    // A process that stands still then is waited for.
    while world.processes.iter().any(|process| !process.dead && !process.runs()) {
        world.run_until(world.now + ms(500));
    }
    calm(world);
    let limit = world.now + patience_of_the_living(world);
    while world.processes.iter().any(|process| process.users.iter().any(|user| !matches!(user.stage, Stage::Over))) {
        assert!(world.step(limit), "somebody waits for ever: {:?}", unfinished(world));
    }
    world.run_until(world.now + LEASE * 4 + ms(4_000) + world.put_back());
    world.check_nothing_left();
    let clocks: Vec<_> = world.processes.drain(..).map(Process::exit).collect();
    // The dead can give nothing back. They have a while to try, from the time at which they see that they are to end.
    for clock in clocks.iter().chain(&clocks) {
        clock.jump(Duration::from_secs(60));
    }
    world.check_nobody_listens();
}

fn plan(world: &mut World, seed: u64, family: LockFamily) {
    let mix = FaultMix::of_seed(seed);
    world.plan.family = family;
    world.plan.mix = mix;
    world.plan.fault_free = matches!(mix, FaultMix::Orderly | FaultMix::Impatience);
    world.plan.stepped = world.rng.bool();
    world.plan.things = 2 + world.rng.u64(..4);
    world.plan.hold = ms([1, 20, 200, 1_500][world.rng.usize(..4)]);
    let servers = match family {
        LockFamily::Quorum => 3 + 2 * usize::from(world.rng.u8(..4) == 0),
        LockFamily::Multi => 1 + world.rng.usize(..2),
        _ => 1,
    };
    (0..servers).for_each(|_| world.add_server());
    let processes = 2 + world.rng.usize(..4);
    (0..processes).for_each(|_| world.add_process());
    if mix != FaultMix::Orderly {
        world.plan.late = 0.25;
        world.plan.never = 0.06;
        world.plan.dropped = 0.15;
    }
    super::faults::plan(world, mix, seed);
    for _ in 0..12 + world.rng.usize(..24) {
        let pause = DISTURBED.mul_f64(world.rng.f64() * world.rng.f64());
        let process = world.rng.usize(..processes);
        world.after(pause, WorldEvent::Start { process });
    }
}

/// From here on nothing goes wrong, and a user that does not poll to the end drops its future.
fn calm(world: &mut World) {
    trace!(world, "the faults end");
    world.plan.over = true;
    world.plan.ended = world.now;
    world.end_faults();
    for process in 0..world.processes.len() {
        for user in 0..world.processes[process].users.len() {
            if matches!(world.processes[process].users[user].polls, PollPolicy::Times(_)) {
                world.drop_future(process, user);
            }
            let pause = world.between(ms(0), ms(500));
            world.after(pause, WorldEvent::GiveUp { process, user });
        }
    }
}

/// How long a living user waits at most, once nothing goes wrong any more: until what the dead held has ended, by a clock that was perhaps
/// put back; until a waiter has looked again; and for the turns of all others, with the pauses in which rivals get out of step.
fn patience_of_the_living(world: &World) -> Duration {
    let turns = u32::try_from(unfinished(world).len()).unwrap_or(u32::MAX);
    LEASE * 2 + world.put_back() + ms(4_000) + (world.plan.hold * 2 + ms(1_500)) * turns
}

fn unfinished(world: &World) -> Vec<String> {
    let users = world.processes.iter().enumerate().flat_map(|(number, process)| {
        let open = process.users.iter().enumerate().filter(|(_, user)| !matches!(user.stage, Stage::Over));
        open.map(move |(user, state)| format!("{user} of {number}: {:?}", state.wish))
    });
    users.collect()
}

impl World {
    pub(super) fn some_polls(&mut self) -> PollPolicy {
        let roll = self.rng.f64();
        if roll < self.plan.never {
            self.stats.fault(FaultKind::Unpolled);
            PollPolicy::Times(self.rng.u32(1..8))
        } else if roll < self.plan.never + self.plan.late {
            self.stats.fault(FaultKind::LatePoll);
            let most = ms([5, 60, 200][self.rng.usize(..3)]);
            // If a call takes several polls, its time must not be over by then each time.
            let most = if self.plan.stepped { most.min(ms(20)) } else { most };
            PollPolicy::Late(self.between(ms(0), most))
        } else {
            PollPolicy::AtOnce
        }
    }

    /// A user wants a lock.
    pub(super) fn start(&mut self, process: usize) {
        if self.plan.over || !self.processes[process].runs() {
            return;
        }
        let what = self.some_wish();
        let patience = match self.rng.u8(..10) {
            0 | 1 => Patience::Try,
            2..=4 => Patience::For(self.between(ms(1), ms(1_500))),
            _ => Patience::Forever,
        };
        let lease = (self.rng.u8(..4) == 0).then(|| self.between(ms(400), LEASE));
        // An owner is of one client, and does not read what it writes.
        let plain = match &what {
            What::All(members) => members.iter().all(|(sort, _)| matches!(sort, Sort::Lock | Sort::Fenced)),
            What::Stripes(_) | What::Alone(_) => true,
            What::Quorum { .. } => false,
        };
        let owned = self.servers.len() == 1 && plain && patience != Patience::Try && self.rng.u8(..4) == 0;
        let polls = self.some_polls();
        // A user that polls so late that its lease is over before it has everything never gets in.
        let lease = lease.filter(|_| patience != Patience::Try && !matches!(polls, PollPolicy::Late(_)));
        let user = self.ask(process, Wish { what, patience, lease, owned }, polls);
        if matches!(polls, PollPolicy::Times(_)) || self.rng.f64() < self.plan.dropped {
            let most = [ms(1), ms(30), ms(1_000)][self.rng.usize(..3)];
            let pause = self.between(Duration::ZERO, most);
            self.after(pause, WorldEvent::Drop { process, user });
        }
    }

    fn some_wish(&mut self) -> What {
        match self.plan.family {
            LockFamily::Quorum => {
                let name = format!("lock{}", self.rng.u64(..self.plan.things.min(2)));
                let minority = (self.servers.len() - 1) / 2;
                let without = if self.rng.u8(..4) == 0 { self.rng.usize(..=minority) } else { 0 };
                What::Quorum { name, without }
            }
            LockFamily::Striped => {
                let some = 1 + self.rng.usize(..4);
                What::Stripes((0..some).map(|_| self.rng.u32(..20)).collect())
            }
            _ if self.rng.u8(..5) == 0 => What::Alone("lock0".to_owned()),
            _ => {
                let mut numbers: Vec<u64> = (0..self.plan.things).collect();
                self.rng.shuffle(&mut numbers);
                let some = 2 + self.rng.usize(..2);
                numbers.truncate(some);
                What::All(numbers.into_iter().map(|number| self.some_member(number)).collect())
            }
        }
    }

    /// Each thing is of one sort.
    fn some_member(&mut self, number: u64) -> (Sort, String) {
        match number {
            0 | 2 => (Sort::Lock, format!("lock{number}")),
            1 => (Sort::Fenced, format!("fenced{number}")),
            _ => (if self.rng.u8(..3) == 0 { Sort::Write } else { Sort::Read }, format!("rw{number}")),
        }
    }
}
