//! The permits of semaphores: no more are held than there are.

use crate::workload::family::{CAPACITY, LockFamily};
use crate::world::World;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::reply::Reply;

/// Wants the permits of leased semaphores to add up, at any time.
pub(crate) fn check_sum(world: &World) {
    for lock in world.plan.lock_names() {
        let available = match world.server.command(&[b"GET", lock.key()]) {
            Ok(Reply::Bulk(text)) => String::from_utf8_lossy(&text).parse::<i64>().expect("a number"),
            other => panic!("{other:?}"),
        };
        let held = match world.server.command(&[b"ZCARD", &lock.suffixed("timeout")]) {
            Ok(Reply::Int(held)) => held,
            other => panic!("{other:?}"),
        };
        assert_eq!(available + held, i64::from(CAPACITY), "available and held permits of {lock}");
    }
}

/// No more permits are believed to be held than there are, when the server grants some.
pub(crate) fn check_grant(world: &World, call: &Call, lock: &Bytes, id: &Bytes) {
    let more = match world.plan.family {
        LockFamily::Permits => id.len() / ID_BYTES,
        _ => std::str::from_utf8(&call.args()[1]).ok().and_then(|text| text.parse().ok()).unwrap_or_default(),
    };
    let others = world
        .guards
        .iter()
        .filter(|guard| guard.alive && guard.name.key() == lock && guard.wire_id != id && world.is_believed(guard));
    let held: u32 = others.map(|guard| guard.permits).sum();
    assert!(held as usize + more <= CAPACITY as usize, "{id:?} got {more} permits of {lock:?} beside {held} others");
}
