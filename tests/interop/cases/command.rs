//! The program `leasehold` and a JVM at one lock: who waits for whom, who is told, and what `watch` tells of it.

use crate::child::PERMIT;
use crate::kind::Kind;
use crate::place::PlaceName;
use crate::program::{Program, UNTIL_CLOSED};
use crate::suite::Cases;
use crate::world::{NEVER, SLACK, World, clock, soon, until};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The time in which no waiter gets in.
const SHORT: Duration = Duration::from_millis(300);

/// The lease of a command that loses its lock. It renews after a third of it, and learns of the loss then.
const RENEWED: Duration = Duration::from_secs(6);

/// A lease that a case waits out.
const BRIEF: Duration = Duration::from_millis(1500);

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(place, "command: run waits for a JVM's unlock, and keeps JVMs out while its child runs", waits);
        cases.add(place, "command: run --fair has its place in a queue between two JVMs", has_its_place);
        cases.add(place, "command: run --try does not run what a JVM keeps out", tries);
        for (kind, flag) in FLAGS {
            let name = format!("command: {kind}: run stops its child when a JVM ends its hold by force");
            cases.add_with(place, name, (kind, flag), stops);
        }
        for kind in [Kind::Lock, Kind::Fair, Kind::Fenced, Kind::Write, Kind::Read] {
            let name = format!("command: {kind}: unlock gives what a JVM holds to the JVM that waits");
            cases.add_with(place, name, kind, frees);
        }
        cases.add(place, "command: unlock of a fair lock wakes a JVM that came while it asked", frees_after_a_question);
        cases.add(place, "command: watch tells what JVMs do", watches);
    }
}

/// The kinds that `run` has, and how it is told.
const FLAGS: [(Kind, &[&str]); 5] = [
    (Kind::Lock, &[]),
    (Kind::Fair, &["--fair"]),
    (Kind::Fenced, &["--fenced"]),
    (Kind::Write, &["--write"]),
    (Kind::Read, &["--read"]),
];

/// The lease of [`NEVER`], as the agent writes it.
fn never() -> String {
    NEVER.as_millis().to_string()
}

/// Starts `run` of a child that says its holder, under the lock of this case.
fn run(world: &World, flags: &[&str]) -> Program {
    Program::start(world, &[&["run", &world.name], flags, &UNTIL_CLOSED].concat())
}

async fn waits(world: World) {
    let (jvm, object, channel) = (world.actor("jvm"), world.object(Kind::Lock), Kind::Lock.channel(&world.name));
    jvm.tell("lock", &[&object, &never()]).await;
    let mut command = run(&world, &[]);
    world.until_listening(&channel, 1).await;
    command.is_silent_for(SHORT).await;
    let unlocked = clock();
    jvm.tell("unlock", &[&object]).await;
    let holder = command.hear().await;
    soon(unlocked);
    assert_eq!(world.holder(), Some((holder.clone(), "1".to_owned())), "the child was told who it is");
    assert!(!jvm.yes("tryLock", &[&object, &SHORT.as_millis().to_string()]).await, "its child runs");
    world.until_listening(&channel, 0).await;
    let waiting = jvm.begin("lock", &[&object, &never()]).await;
    world.until_listening(&channel, 1).await;
    command.is_silent_for(SHORT).await;
    assert!(!waiting.is_finished(), "its child runs");
    assert_eq!(world.holder(), Some((holder, "1".to_owned())));
    let closed = clock();
    assert!(command.finish().await.succeeds().is_empty());
    waiting.await.expect("an answer").expect("no exception");
    soon(closed);
    assert_eq!(world.holder().map(|(id, _)| id), Some(world.holder_id(&jvm).await));
    jvm.tell("unlock", &[&object]).await;
    assert_eq!(world.holder(), None);
}

async fn has_its_place(world: World) {
    let object = world.object(Kind::Fair);
    let [holder, before, behind] = ["holder", "before", "behind"].map(|who| world.actor(who));
    holder.tell("lock", &[&object, &never()]).await;
    let first = before.begin("lock", &[&object, &never()]).await;
    world.until_waiting(Kind::Fair, 1).await;
    let mut command = run(&world, &["--fair"]);
    world.until_waiting(Kind::Fair, 2).await;
    let last = behind.begin("lock", &[&object, &never()]).await;
    world.until_waiting(Kind::Fair, 3).await;
    holder.tell("unlock", &[&object]).await;
    first.await.expect("an answer").expect("no exception");
    command.is_silent_for(SHORT).await;
    assert!(!last.is_finished(), "a JVM that came first holds it");
    let unlocked = clock();
    before.tell("unlock", &[&object]).await;
    let id = command.hear().await;
    soon(unlocked);
    assert_eq!(world.holder(), Some((id, "1".to_owned())));
    // One that comes now is behind both.
    assert!(!before.yes("tryLock", &[&object]).await, "the child runs");
    command.is_silent_for(SHORT).await;
    assert!(!last.is_finished(), "the child runs");
    let closed = clock();
    assert!(command.finish().await.succeeds().is_empty());
    last.await.expect("an answer").expect("no exception");
    soon(closed);
    behind.tell("unlock", &[&object]).await;
    assert_eq!(world.holder(), None);
    assert_eq!(world.command(&["LLEN", &Kind::queue(&world.name)]).as_int(), Some(0), "nobody is left in the queue");
}

async fn tries(world: World) {
    let jvm = world.actor("jvm");
    let id = world.holder_id(&jvm).await;
    for (kind, flags) in FLAGS {
        let name = format!("{}:{kind}", world.name);
        let words = [&["run", "--try", &name], flags, &["--", "echo", "ran"]].concat();
        // A reader is kept out by a writer.
        let object = if kind == Kind::Read { Kind::Write } else { kind }.object(&name);
        jvm.tell("lock", &[&object]).await;
        let done = Program::finish_of(&world, &words).await;
        assert!(done.lines.is_empty(), "{kind}: {done:?}");
        done.fails_with(75, &[&format!("the lock {name:?} is busy"), &id]);
        let chosen = [&["run", "--try", "--busy-exit", "3"], &words[2..]].concat();
        Program::finish_of(&world, &chosen).await.fails_with(3, &["is busy"]);
        jvm.tell("unlock", &[&object]).await;
        assert_eq!(Program::finish_of(&world, &words).await.succeeds(), ["ran"], "{kind}");
    }
    let name = format!("{}:{PERMIT}", world.name);
    let (object, words) = (format!("{PERMIT}:{name}"), ["run", "--try", &name, "--permits", "1", "--", "echo", "ran"]);
    assert!(jvm.yes("trySetPermits", &[&object, "1"]).await);
    let permit = jvm.ask("acquire", &[&object, &never()]).await;
    let done = Program::finish_of(&world, &words).await;
    assert!(done.lines.is_empty(), "{done:?}");
    done.fails_with(75, &["is busy"]);
    jvm.tell("release", &[&object, &permit]).await;
    assert_eq!(Program::finish_of(&world, &words).await.succeeds(), ["ran"]);
}

async fn stops(world: World, (kind, flags): (Kind, &[&str])) {
    let (jvm, next, object) = (world.actor("jvm"), world.actor("next"), world.object(kind));
    let (lease, name) = (format!("{}s", RENEWED.as_secs()), world.name.as_str());
    let words = [&["run", name, "--lease", &lease], flags, &["--", "sh", "-c", "echo $$; exec sleep 100"]].concat();
    let mut command = Program::start(&world, &words);
    let child: i32 = command.hear().await.parse().expect("a pid");
    let child = rustix::process::Pid::from_raw(child).expect("a pid");
    let runs = || rustix::process::test_kill_process(child).is_ok();
    // A reader keeps a writer out.
    let awaited = if kind == Kind::Read { Kind::Write } else { kind }.object(name);
    let waiting = next.begin("lock", &[&awaited, &never()]).await;
    world.until_waiting(kind, 1).await;
    assert!(runs(), "it has the lock");
    let (forced, began) = (clock(), Instant::now());
    assert!(jvm.yes("forceUnlock", &[&object]).await);
    waiting.await.expect("an answer").expect("no exception");
    soon(forced);
    until("the child is gone", || !runs()).await;
    let after = began.elapsed();
    assert!(after <= RENEWED / 3 + SLACK, "it learns of it at its next renewal, not after {after:?}");
    let was_lost = format!("{name:?} was lost");
    let done = command.finish().await;
    done.fails_with(76, &[&was_lost, "force-released", "the command was stopped", "signal 15"]);
    assert_eq!(world.holder().map(|(id, _)| id), Some(world.holder_id(&next).await), "it took nothing from the next");
    next.tell("unlock", &[&awaited]).await;
}

async fn frees(world: World, kind: Kind) {
    let (jvm, next, object) = (world.actor("jvm"), world.actor("next"), world.object(kind));
    let [id, next_id] = [world.holder_id(&jvm).await, world.holder_id(&next).await];
    let name = world.name.as_str();
    jvm.tell("lock", &[&object, &never()]).await;
    let awaited = if kind == Kind::Read { Kind::Write } else { kind }.object(name);
    let waiting = next.begin("lock", &[&awaited, &never()]).await;
    world.until_waiting(kind, 1).await;
    Program::finish_of(&world, &["unlock", name]).await.fails_with(64, &["use --yes"]);
    let another = Program::finish_of(&world, &["unlock", name, "--yes", "--holder", &next_id]).await;
    another.fails_with(73, &["no such holder", &id]);
    assert_eq!(world.holder().map(|(id, _)| id), Some(id.clone()), "it is left alone");
    assert!(!waiting.is_finished());
    let freed = clock();
    let told = Program::finish_of(&world, &["unlock", name, "--yes", "--holder", &id, "--json"]).await.succeeds();
    waiting.await.expect("an answer").expect("no exception");
    soon(freed);
    let told = object_of(&told.concat());
    assert_eq!((&told["name"], &told["freed"]["id"]), (&name.into(), &id.as_str().into()), "{told}");
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    // What was seen is over, and the one behind it is not hit.
    let late = Program::finish_of(&world, &["unlock", name, "--yes", "--holder", &id]).await;
    late.fails_with(73, &["no such holder", &next_id]);
    assert_eq!(world.holder().map(|(id, _)| id), Some(next_id));
    next.tell("unlock", &[&awaited]).await;
    let free = Program::finish_of(&world, &["unlock", name, "--yes"]).await.succeeds();
    assert_eq!(free, [format!("{name}: already free")]);
}

/// The lock has no queue when it is looked at, and has one when the question is answered.
async fn frees_after_a_question(world: World) {
    let (jvm, next, object) = (world.actor("jvm"), world.actor("next"), world.object(Kind::Fair));
    let [id, next_id] = [world.holder_id(&jvm).await, world.holder_id(&next).await];
    jvm.tell("lock", &[&object, &never()]).await;
    let mut command = Program::at_a_terminal(&world, &["unlock", &world.name]);
    assert!(command.hear().await.starts_with(&format!("{}: held by {id}", world.name)));
    assert!(command.hear().await.ends_with("Free the lock? [y/N]"));
    let waiting = next.begin("lock", &[&object, &never()]).await;
    world.until_waiting(Kind::Fair, 1).await;
    world.until_listening(&format!("{}:{next_id}", Kind::Fair.channel(&world.name)), 1).await;
    let answered = clock();
    command.say("y").await;
    let said = command.finish().await;
    assert!(said.code == Some(0) && said.lines.iter().any(|line| line.contains("freed")), "{said:?}");
    waiting.await.expect("an answer").expect("no exception");
    soon(answered);
    jvm.refuses("IllegalMonitorStateException", "unlock", &[&object]).await;
    next.tell("unlock", &[&object]).await;
}

async fn watches(world: World) {
    let (jvm, next, object) = (world.actor("jvm"), world.actor("next"), world.object(Kind::Lock));
    let [id, next_id] = [world.holder_id(&jvm).await, world.holder_id(&next).await];
    let mut watch = Watch { program: Program::start(&world, &["watch", &world.name, "--every", "50ms", "--json"]) };
    assert_eq!(watch.next("server").await["server"], "answers");
    jvm.tell("lock", &[&object, &never()]).await;
    assert_eq!(watch.next("granted").await["holder"], id);
    let waiting = next.begin("lock", &[&object, &never()]).await;
    let waiters = watch.next("waiters").await;
    assert_eq!((&waiters["before"], &waiters["now"]), (&0.into(), &1.into()), "{waiters}");
    jvm.tell("unlock", &[&object]).await;
    waiting.await.expect("an answer").expect("no exception");
    for (event, holder) in [("released", &id), ("granted", &next_id)] {
        let told = watch.next(event).await;
        assert_eq!((&told["holder"], &told["kind"]), (&holder.as_str().into(), &"lock".into()), "{told}");
    }
    next.tell("unlock", &[&object]).await;
    let told = watch.next("released").await;
    assert_eq!(told["holder"], next_id);
    jvm.tell("lock", &[&object, &BRIEF.as_millis().to_string()]).await;
    assert_eq!(watch.next("granted").await["holder"], id);
    assert_eq!(watch.next("lost").await["holder"], id);
}

/// A `watch` of the lock of this case.
struct Watch {
    program: Program,
}

impl Watch {
    /// The next thing that it tells, which must be this event. Numbers of waiters come in between where their moment is open: a JVM
    /// listens on for some time after it was woken.
    async fn next(&mut self, event: &str) -> Value {
        loop {
            let told = object_of(&self.program.hear().await);
            if told["event"] == event {
                return told;
            }
            assert_eq!(told["event"], "waiters", "{event} is to come, not {told}");
        }
    }
}

/// An object that the program has printed.
#[track_caller]
pub(super) fn object_of(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|_| panic!("an object: {line:?}"))
}
