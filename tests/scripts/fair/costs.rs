//! The cost of a command for the server: how many commands its script runs, and how much they give it to read.

use super::jvm::Jvm;
use super::world::{World, int};
use leasehold_core::call::Call;
use leasehold_core::reply::Reply;

/// Runs a call, and answers with the commands that its script ran, the parts of their replies, and how many of them had to
/// search the list.
fn cost(world: &World, call: &Call) -> [i64; 3] {
    let counting = format!(
        "local calls, parts, searches = 0, 0, 0
         local function counted(run)
           return function(name, ...)
             local reply = run(name, ...)
             calls = calls + 1
             if type(reply) == 'table' then parts = parts + #reply end
             if name == 'LREM' then searches = searches + 1 end
             return reply
           end
         end
         local redis = {{call = counted(redis.call), pcall = counted(redis.pcall)}}
         local function script()
         {}
         end
         script()
         return {{calls, parts, searches}}",
        call.script().source()
    );
    let reply = world
        .server()
        .eval(&counting, &call.keys().to_vec(), &call.args().to_vec())
        .unwrap_or_else(|error| panic!("{error}"));
    let Reply::Array(counts) = reply else { panic!("three counts") };
    [int(&counts[0]), int(&counts[1]), int(&counts[2])]
}

/// The cost of each command in a queue of so many, of five processes.
fn costs(waiters: u64) -> Vec<(&'static str, [i64; 3])> {
    let world = World::embedded();
    let processes = [(); 5].map(|()| world.process());
    let holder = world.process();
    world.acquire(&holder.hold(1));
    for process in processes {
        world.acquire(&process.hold(0));
    }
    let (queue, deadlines, marks) = (world.key("queue"), world.key("deadlines"), world.key("marks"));
    let (score, arrived) = ((world.now() + 3_000).to_string(), world.now().to_string());
    for number in 1..=waiters {
        // As an arrival does it, without counting the queue of the embedded engine anew for each.
        let entry = processes[(number % 5) as usize].hold(number);
        world.command(&["RPUSH", &queue, &entry]);
        world.command(&["ZADD", &deadlines, &score, &entry]);
        world.command(&["HSET", &marks, &format!("a:{entry}"), &arrived]);
    }
    let middle = waiters / 2;
    let (front, tail) = (processes[0].hold(0), world.process().hold(1));
    vec![
        ("arrival", cost(&world, &world.acquire_call(&tail, |_| {}))),
        ("retry", cost(&world, &world.acquire_call(&front, |_| {}))),
        ("try", cost(&world, &world.acquire_call(&holder.hold(2), |ask| ask.waits = false))),
        ("beat", cost(&world, &world.beat_call(processes[0], Some(&front)))),
        ("leaving the middle", cost(&world, &world.release_call(&processes[(middle % 5) as usize].hold(middle), 0))),
        ("leaving the tail", cost(&world, &world.release_call(&tail, 0))),
        ("release", cost(&world, &world.release_call(&holder.hold(1), 0))),
        ("grant", cost(&world, &world.acquire_call(&front, |_| {}))),
        ("reentry", cost(&world, &world.acquire_call(&front, |ask| ask.count = 2))),
    ]
}

#[test]
fn f12_no_command_costs_more_in_a_long_queue() {
    let (short, long) = (costs(10), costs(10_000));
    eprintln!("commands, parts of replies, searches: {long:?}");
    assert_eq!(short, long);
    for (what, [calls, parts, searches]) in long {
        assert!(
            calls < 40 && parts < 20 && searches == 0,
            "{what}: {calls} commands, {parts} parts, {searches} searches"
        );
    }
}

#[test]
fn f12_among_jvms_a_walk_is_made_once_in_its_gap() {
    let world = World::embedded();
    let (holder, ours) = (world.process(), world.process());
    world.acquire(&holder.hold(1));
    for number in 1..=600 {
        world.acquire(&ours.hold(number));
    }
    Jvm::new(1, 5_000).acquire(&world, 30_000);
    let [calls, parts, _] = cost(&world, &world.beat_call(ours, None));
    assert!(parts > 1_800, "the whole queue is read: {parts}");
    assert!(calls < 40, "in few commands: {calls}");
    let [_, parts, _] = cost(&world, &world.beat_call(ours, None));
    assert!(parts < 30, "and not again at once: {parts}");
}
