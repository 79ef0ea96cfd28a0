//! The run of a random world before its observer, from its plan to its end.

use crate::invariants::{Invariants, outcomes};
use crate::plan::plan;
use crate::terms::{DISTURBED, FaultMix, LEASE, LockFamily};
use crate::workload::UserEvent;
use crate::world::client::{Outcome, PollPolicy};
use crate::world::history::{Fact, Observer};
use crate::world::network::CallRates;
use crate::world::stats::Coverage;
use crate::world::{Engines, World, ms, trace};
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::session::{AcquireRequest, Patience};
use leasehold_core::time::Instant;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The observer of a world: JVMs and users react to a fact, then the invariants judge it.
#[derive(Default)]
pub(crate) struct Audience {
    pub(crate) invariants: Invariants,
}

impl Observer for Audience {
    fn see(&mut self, world: &mut World, fact: Fact<'_>) {
        match fact {
            Fact::Executed { .. } => world.deliver_to_jvms(),
            Fact::Granted { guard, .. } => world.perhaps_keep_busy(guard),
            _ => {}
        }
        self.invariants.see(world, fact);
    }
}

/// A world with its audience.
pub(crate) fn observed(seed: u64, engines: &mut Engines) -> World {
    World::new(seed, engines, Rc::new(RefCell::new(Audience::default())))
}

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
    if !world.plan.copies && !world.doubts.restored {
        // In one mix a command that was sent before may take long on either way.
        world.run(if world.plan.mix.has(FaultMix::Delays) { ms(3_100) } else { ms(1_600) });
        if world.plan.tickets.is_some() || world.clients.iter().any(|client| client.dead) {
            // A hold that was adopted without a reply ends with its lease, and so do those of the dead. Their last messages may have
            // arrived late, and last for a lease from then on.
            let last = world.plan.ended + world.plan.under_way() + LEASE + ms(100);
            world.run_until(last.max(world.now));
        }
        world.stats.reach(Coverage::LeftSoonSought);
        world.check_keys_left("soon after the last guard");
        if world.plan.lingering.is_some() {
            // A client stays subscribed for two seconds after its last hold, and its clock may be a fifth slower.
            world.run(ms(2_600));
        }
        world.check_left("soon after the last guard");
    }
    // A clock that is wrong may be slower by a fifth.
    world.run(LEASE * 4 + ms(4_000) + world.server.put_back);
    come_next(world);
    world.check_nothing_left();
    let last = (world.events.next_number, world.rng.u64(..));
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
    let left: Vec<_> = world.plan.lock_names().filter(is_left).collect();
    if !world.doubts.leftovers && world.jvms.is_empty() || left.is_empty() {
        return;
    }
    let settings = world.plan.settings.clone();
    world.run(settings.fair.max_wait + settings.fair.clock_skew);
    let client = world.add_client(settings);
    for lock in left {
        let wish = world.some_wish(lock, LEASE);
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
    let left_behind = LEASE * if world.plan.copies { 2 } else { 1 } + world.server.put_back;
    let turns = u32::try_from(unfinished(world).len()).unwrap_or(u32::MAX);
    let forgotten = world.doubts.forgot_processes && world.doubts.leftovers;
    let left_behind = left_behind + if forgotten { places_of_strangers(world) } else { Duration::ZERO };
    world.plan.under_way()
        + left_behind
        + fair.liveness_timeout
        + fair.offer_timeout
        + settings.recheck
        + (hold * 2 + ms(400)) * turns
        + patience_with_jvms(world)
}

/// How much longer a waiter may wait because JVMs stand in its queue: the dead of them keep their places until their deadlines, one that
/// listens is told and given time, and one that missed its notice sleeps for as long as the lease that it has seen.
fn patience_with_jvms(world: &World) -> Duration {
    if world.jvms.is_empty() {
        return Duration::ZERO;
    }
    let fair = world.plan.settings.fair;
    let threads = u32::try_from(world.jvms.threads.len()).unwrap_or_default();
    let locks: Vec<_> = world.plan.lock_names().collect();
    let longest = locks.iter().flat_map(|lock| world.deadlines_left(lock)).max().unwrap_or_default();
    // A copy that comes late may stand in a queue for a client that is silent, and be guarded from every JVM in front of it.
    let guarded = if world.plan.copies { fair.max_wait * threads } else { Duration::ZERO };
    longest + guarded + (fair.clock_skew + fair.grace + LEASE) * (threads + 1)
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
        left.unwrap_or_default().max(fair.max_wait + fair.clock_skew)
    });
    keeps.sum()
}

/// From here on nothing goes wrong, and every future that is neither polled nor dropped by itself is dropped.
fn calm(world: &mut World) {
    trace!(world, "the faults end");
    world.plan.over = true;
    world.plan.ended = world.now;
    world.net.rates = CallRates::default();
    world.net.planned.clear();
    world.server.deny_growth(false);
    if let Some(replica) = &mut world.server.replica {
        replica.calm();
    }
    world.open_latches();
    world.calm_jvms();
    for client in (0..world.clients.len()).filter(|client| !world.clients[*client].dead).collect::<Vec<_>>() {
        world.thaw(client);
        for task in 0..world.clients[client].tasks.len() {
            if world.clients[client].tasks[task].polls == PollPolicy::Never {
                world.abandon(client, task);
            }
        }
    }
    for guard in 0..world.guards.len() {
        world.draw_for(("calm", world.guards[guard].number));
        let pause = world.between(ms(0), ms(500));
        world.after(pause, UserEvent::GiveUp { guard, how: 0 });
    }
}

fn everything_ended(world: &World) -> bool {
    world.plan.tickets_sent == 0
        && world.guards.iter().all(|guard| !guard.alive)
        && world.jvms.busy().next().is_none()
        && world.clients.iter().all(|client| client.tasks.iter().all(|task| task.outcome.is_some()))
}

fn unfinished(world: &World) -> Vec<String> {
    let tasks = world.clients.iter().enumerate().flat_map(|(number, client)| {
        client.tasks.iter().filter(|task| task.outcome.is_none()).map(move |task| format!("{number} {task:?}"))
    });
    let guards = world.guards.iter().filter(|guard| guard.alive).map(|guard| format!("{guard:?}"));
    let jvms = world.jvms.busy().map(|thread| format!("{thread:?}"));
    tasks.chain(guards).chain(jvms).collect()
}

/// The reaction of users when something of theirs has ended.
fn react(world: &mut World) {
    for (client, task) in std::mem::take(&mut world.finished) {
        outcomes::check_patience(world, client, task);
        outcomes::check_reason(world, client, task);
        world.note_moved(client, task);
        if let Some(Outcome::Granted(guard)) = world.clients[client].tasks[task].outcome.clone() {
            world.draw_for(("react", world.guards[guard].number));
            world.plan_section(guard);
            let pause = world.plan.hold.mul_f64(world.rng.f64() * 2.0);
            let how = world.rng.u8(..12);
            world.after(pause, UserEvent::GiveUp { guard, how });
        }
    }
}
