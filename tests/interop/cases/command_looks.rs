//! `leasehold ls` and `inspect` tell what JVMs hold and wait for.

use super::command::object_of;
use crate::child::PERMIT;
use crate::kind::Kind;
use crate::place::PlaceName;
use crate::program::Program;
use crate::suite::Cases;
use crate::world::{NEVER, World, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn add(cases: &mut Cases) {
    for place in PlaceName::ALL {
        cases.add(place, "command: ls and inspect tell a JVM's locks, with holders and counts", locks);
        cases.add(place, "command: ls and inspect tell a JVM's semaphores and latches", counters);
    }
}

/// Wants these objects of `ls` and of `inspect`, by the ends of their names. Times are no part of them: [`timeless`] takes these away.
async fn are_told(world: &World, expected: &[(&str, Value)]) {
    let listed = Program::finish_of(world, &["ls", &format!("{}:*", world.name), "--json"]).await.succeeds();
    let mut listed: BTreeMap<_, _> = listed
        .iter()
        .map(|line| object_of(line))
        .map(|told| (told["name"].as_str().expect("a name").to_owned(), timeless(told)))
        .collect();
    for (end, rest) in expected {
        let name = format!("{}:{end}", world.name);
        let mut wanted = rest.clone();
        wanted["name"] = json!(name);
        let done = Program::finish_of(world, &["inspect", &name, "--json"]).await;
        // The ids of permits tell nothing of their process, and a JVM does not announce itself.
        let unknown = wanted["holders"].as_array().filter(|_| wanted["kind"] == "semaphore").map_or(0, Vec::len);
        let told = if unknown > 0 {
            done.succeeds_with_note(&format!("unknown process of {unknown} permit"))
        } else {
            done.succeeds()
        };
        assert_eq!(timeless(object_of(&told.concat())), wanted, "inspect {name}");
        assert_eq!(listed.remove(&name), Some(wanted), "ls {name}");
    }
    assert!(listed.is_empty(), "ls also tells {listed:?}");
}

/// An object without times, once these were judged, and with its holders in the order of their ids.
fn timeless(mut told: Value) -> Value {
    let whole = told.to_string();
    let longest = u64::try_from(NEVER.as_millis()).expect("a time");
    let judge = |value: &mut Value, key: &str| {
        let time = value.as_object_mut().expect("an object").remove(key);
        let time = time.unwrap_or_else(|| panic!("{key} in {whole}"));
        assert!(time.is_null() || time.as_u64().is_some_and(|time| time <= longest), "{key} in {whole}");
    };
    judge(&mut told, "lease_left_ms");
    let holders = told["holders"].as_array_mut().expect("holders");
    for hold in holders.iter_mut() {
        judge(hold, "lease_left_ms");
    }
    holders.sort_by_key(|hold| hold["id"].to_string());
    for waiter in told["waiters"].as_array_mut().expect("waiters") {
        judge(waiter, "waited_ms");
    }
    told
}

/// What is told of a name about which there is nothing to say.
fn of(kind: &str, state: &str) -> Value {
    json!({
        "kind": kind, "state": state, "held": 0, "holders": [], "held_ms": null, "waiting": 0, "waiters": [],
        "fencing_token": null, "permits": null, "warnings": [],
    })
}

/// The same of a lock with these holds.
fn held(kind: &str, holders: &[Value]) -> Value {
    let mut told = of(kind, "held");
    told["held"] = json!(holders.len());
    told["holders"] = json!(holders);
    told
}

/// A hold of a JVM, which does not say what process it is or for how long it has held.
fn hold(id: &str, half: Option<&str>, count: u32) -> Value {
    json!({ "id": id, "half": half, "hold_count": count, "held_ms": null, "process": null, "unrenewed_ms": null })
}

fn waiter(id: &str) -> Value {
    json!({ "id": id, "alive": true, "process": null })
}

async fn locks(world: World) {
    let never = NEVER.as_millis().to_string();
    let [a, b, c] = ["a", "b", "c"].map(|who| world.actor(who));
    let [a_id, b_id, c_id] = [world.holder_id(&a).await, world.holder_id(&b).await, world.holder_id(&c).await];
    let name = |end: &str| format!("{}:{end}", world.name);
    let (lock, fair, fenced) =
        (Kind::Lock.object(&name("lock")), Kind::Fair.object(&name("fair")), Kind::Fenced.object(&name("fenced")));
    let (read, write) = (Kind::Read.object(&name("read")), Kind::Write.object(&name("write")));
    for object in [&lock, &lock, &fair, &read, &read, &write] {
        a.tell("lock", &[object, &never]).await;
    }
    b.tell("lock", &[&read, &never]).await;
    assert_eq!(c.ask("lockAndGetToken", &[&fenced, &never]).await, "1");
    // One at a time: the queue is in the order in which they came.
    let mut waiting = vec![b.begin("lock", &[&fair, &never]).await];
    let length = || world.command(&["LLEN", &Kind::queue(&name("fair"))]).as_int();
    until("the first waits", || length() == Some(1)).await;
    waiting.push(c.begin("lock", &[&fair, &never]).await);
    until("the second waits", || length() == Some(2)).await;
    waiting.push(world.actor("d").begin("lock", &[&lock, &never]).await);
    world.until_listening(&Kind::Lock.channel(&name("lock")), 1).await;
    let mut in_line = held("fair lock", &[hold(&a_id, None, 1)]);
    in_line["waiting"] = json!(2);
    in_line["waiters"] = json!([waiter(&b_id), waiter(&c_id)]);
    let mut twice = held("lock", &[hold(&a_id, None, 2)]);
    twice["waiting"] = json!(1);
    let mut numbered = held("fenced lock", &[hold(&c_id, None, 1)]);
    numbered["fencing_token"] = json!(1);
    let mut readers = [(&a_id, 2), (&b_id, 1)].map(|(id, count)| hold(id, Some("read"), count));
    readers.sort_by_key(|hold| hold["id"].to_string());
    are_told(
        &world,
        &[
            ("lock", twice),
            ("fair", in_line),
            ("fenced", numbered),
            ("read", held("read-write lock", &readers)),
            ("write", held("read-write lock", &[hold(&a_id, Some("write"), 1)])),
        ],
    )
    .await;
    // One hold less, and one waiter less.
    for object in [&lock, &fair] {
        a.tell("unlock", &[object]).await;
    }
    waiting.swap_remove(0).await.expect("an answer").expect("no exception");
    let told = Program::finish_of(&world, &["inspect", &name("lock"), "--json"]).await.succeeds();
    assert_eq!(object_of(&told.concat())["holders"][0]["hold_count"], 1);
    let told = Program::finish_of(&world, &["inspect", &name("fair"), "--json"]).await.succeeds();
    let told = object_of(&told.concat());
    assert_eq!((&told["holders"][0]["id"], &told["waiters"][0]["id"]), (&json!(b_id), &json!(c_id)), "{told}");
}

async fn counters(world: World) {
    let jvm = world.actor("jvm");
    let object = |kind: &str| format!("{kind}:{}:{kind}", world.name);
    let [semaphore, permit, unused, latch] = ["semaphore", PERMIT, "unused", "latch"].map(object);
    let unused = unused.replacen("unused", PERMIT, 1);
    assert!(jvm.yes("trySetPermits", &[&semaphore, "5"]).await);
    jvm.tell("acquire", &[&semaphore, "2"]).await;
    for object in [&permit, &unused] {
        assert!(jvm.yes("trySetPermits", &[object, "3"]).await);
    }
    let mut permits = Vec::new();
    for _ in 0..2 {
        permits.push(jvm.ask("acquire", &[&permit, &NEVER.as_millis().to_string()]).await);
    }
    assert!(jvm.yes("trySetCount", &[&latch, "4"]).await);
    jvm.tell("countDown", &[&latch]).await;
    let available = |mut told: Value, available: u32| {
        told["permits"] = json!({ "available": available, "held": told["held"] });
        told
    };
    let counted = |left: u32| available(of("counter", "counted"), left);
    let leased = |permits: &[String]| {
        let mut permits = permits.to_vec();
        permits.sort();
        let holds: Vec<_> = permits.iter().map(|permit| hold(permit, None, 1)).collect();
        available(held("semaphore", &holds), 3 - u32::try_from(holds.len()).expect("a few"))
    };
    are_told(
        &world,
        &[("semaphore", counted(3)), (PERMIT, leased(&permits)), ("unused", counted(3)), ("latch", counted(3))],
    )
    .await;
    jvm.tell("release", &[&semaphore, "1"]).await;
    jvm.tell("release", &[&permit, &permits.remove(0)]).await;
    jvm.tell("countDown", &[&latch]).await;
    are_told(
        &world,
        &[("semaphore", counted(4)), (PERMIT, leased(&permits)), ("unused", counted(3)), ("latch", counted(2))],
    )
    .await;
}
