//! The workloads that must fail: what happens to those who trust a lease alone.

use super::{Bench, Claim, Manner, Till, acquire, end, hold};
use crate::history::Rule;
use crate::store::Fence;
use fastrand::Rng;
use leasehold::kind::{Fenced, Reentrant};
use leasehold::{Guard, Replicas};
use std::sync::Arc;
use std::time::Duration;

/// The lease of these locks: short, so that many pauses are longer.
pub(crate) const LEASE: Duration = Duration::from_millis(500);

/// Adds 1 to a register, again and again, as one does who does not ask whether the lock is still held. The locks are the same, and so are
/// the pauses, however the register is guarded.
pub(super) async fn writes(bench: Arc<Bench>, fence: Fence, register: u32, mut rng: Rng) {
    let mut till = Till::open(&bench).await;
    let group = format!("{}:{register}", fence.word());
    let lock = bench.client.fenced_lock(&group);
    while !bench.is_resting() {
        let manner = Manner::Wait(Duration::from_secs(2));
        let lease = |asked: leasehold::Acquire<Fenced>| asked.lease(LEASE);
        let token = |guard: &Guard<Fenced>| guard.fencing_token().as_u64();
        let asked = acquire(&bench, (Rule::Alone, 1), &lock, lease, &manner, token);
        if let Some((op, guard)) = asked.await {
            let (token, holder) = (guard.fencing_token().as_u64(), guard.holder_id().into_string());
            let claim = Claim { fence, group: &group, token, holder };
            if let Some(read) = till.read(&claim).await {
                tokio::time::sleep(Duration::from_millis(rng.u64(100..300))).await;
                if till.write(&claim, &read, 0, &[(0, read.values[0] + 1)]).await {
                    bench.journal.stored(op);
                }
            }
            end(&bench, op, guard, &mut rng).await;
        }
        bench.think(&mut rng, 20).await;
    }
}

/// The lease of the locks that are held through a failover: longer than that takes.
pub(crate) const LONG: Duration = Duration::from_secs(6);

/// Takes a lock as soon as it is free, and holds it for a while; half of the locks are handed out only when the replica has acknowledged
/// them.
pub(super) async fn holds(bench: Arc<Bench>, acknowledged: bool, number: u32, mut rng: Rng) {
    let family = if acknowledged { "acknowledged" } else { "default" };
    let lock = bench.client.lock(format!("{family}:{number}"));
    let describe = |asked: leasehold::Acquire<Reentrant>| {
        let replicas = Replicas { at_least: 1, within: Duration::from_millis(300) };
        let asked = asked.lease(LONG);
        if acknowledged { asked.durable(replicas) } else { asked }
    };
    while !bench.is_resting() {
        let manner = Manner::Wait(Duration::from_secs(1));
        if let Some((op, guard)) = acquire(&bench, (Rule::Alone, 1), &lock, describe, &manner, |_| 0).await {
            let work = tokio::time::sleep(Duration::from_millis(rng.u64(500..4_000)));
            hold(&bench, op, &guard, work).await;
            end(&bench, op, guard, &mut rng).await;
        }
        bench.think(&mut rng, 100).await;
    }
}
