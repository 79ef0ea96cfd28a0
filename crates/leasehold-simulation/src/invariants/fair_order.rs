//! The order of fair queues: among waiters that are heard of in time, the one that came first is served first.

use crate::report::stats::Coverage;
use crate::world::{World, ms};
use bytes::Bytes;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use rustc_hash::{FxHashMap, FxHashSet};
use std::time::Duration;

/// The server reckons in milliseconds, and its clock may have been nudged.
const SLACK: Duration = ms(20);

/// The waiters, so far as the server's replies tell.
#[derive(Debug, Default)]
pub(crate) struct FairOrder {
    /// Holds that wait, by lock, in the order in which the server took them in.
    places: FxHashMap<Bytes, Vec<Bytes>>,
    /// When the server last heard at a lock that a client lives.
    heard: FxHashMap<(Bytes, usize), Instant>,
    /// Holds that the server may have passed over, because their clients were silent or did not take what they were offered; and holds
    /// that may stand elsewhere than the replies tell.
    unsure: FxHashSet<Bytes>,
}

impl FairOrder {
    /// The waiters are not known any more.
    pub(crate) fn forget(&mut self) {
        self.places.clear();
    }

    /// The waiters for a lock are not known any more.
    pub(crate) fn forget_lock(&mut self, lock: &Bytes) {
        self.places.remove(lock);
    }

    /// A hold waits no longer.
    pub(crate) fn leave(&mut self, id: &Bytes) {
        self.places.values_mut().for_each(|queue| queue.retain(|waiting| waiting != id));
    }

    /// An entry is in the queue of a lock no longer. A thread of a JVM has one name for all locks.
    pub(crate) fn leave_at(&mut self, lock: &Bytes, id: &Bytes) {
        self.places.entry(lock.clone()).or_default().retain(|waiting| waiting != id);
    }

    /// A thread of a JVM has a new place, behind all others.
    pub(crate) fn join_anew(&mut self, lock: &Bytes, entry: &Bytes) {
        self.leave_at(lock, entry);
        if !self.places.values().flatten().any(|waiting| waiting == entry) {
            self.unsure.remove(entry);
        }
        self.join(lock.clone(), entry.clone());
    }

    /// Whether a waiter of ours has a place that no command of a JVM may take away.
    pub(crate) fn keeps_its_place(&self, world: &World, lock: &Bytes, id: &Bytes) -> bool {
        let is_placed = self.places.get(lock).is_some_and(|queue| queue.contains(id));
        is_placed && !world.doubts.broken && !self.unsure.contains(id) && is_wanted(world, id)
    }

    /// A hold may have a place that no reply told of, or have lost the one that it had.
    pub(crate) fn doubt_hold(&mut self, id: Bytes) {
        self.unsure.insert(id);
    }

    /// A waiter for a lock may have lost its place.
    pub(crate) fn doubt(&mut self, lock: &Bytes) {
        self.unsure.extend(self.places.get(lock).into_iter().flatten().cloned());
    }

    /// A hold has a place.
    pub(crate) fn join(&mut self, lock: Bytes, id: Bytes) {
        let queue = self.places.entry(lock).or_default();
        if !queue.contains(&id) {
            queue.push(id);
        }
    }

    /// The server hears at a lock that a client lives.
    pub(crate) fn hear(&mut self, lock: Bytes, client: usize, now: Instant) {
        self.heard.insert((lock, client), now);
    }

    /// Those that may have lost their places when a command is about to reach a fair queue.
    pub(crate) fn silent(&self, world: &World, lock: &Bytes) -> Vec<Bytes> {
        let fair = world.plan.settings.fair;
        let mut lost = Vec::new();
        let marks = format!("leasehold:1:fair:{{{}}}", String::from_utf8_lossy(lock));
        if let Ok(Reply::Array(offer)) = world.server.command(&[b"HMGET", marks.as_bytes(), b"o", b"ot"])
            && let [Reply::Bulk(id), Reply::Bulk(at)] = &offer[..]
        {
            let at: i64 = String::from_utf8_lossy(at).parse().unwrap_or_default();
            let waited = Duration::from_millis(u64::try_from(world.server.wall_millis() - at).unwrap_or_default());
            if waited + SLACK >= fair.offer_timeout {
                lost.push(id.clone());
            }
        }
        let silent = |id: &&Bytes| {
            let heard = world.client_of(id).and_then(|client| self.heard.get(&(lock.clone(), client)));
            heard.is_none_or(|at| world.now.since(*at) + SLACK >= fair.liveness_timeout)
        };
        lost.extend(self.places.get(lock).into_iter().flatten().filter(silent).cloned());
        lost
    }

    /// The first living waiter in a queue is served.
    pub(crate) fn check(&self, world: &World, script: &str, lock: &Bytes, id: &Bytes) -> [Option<Coverage>; 3] {
        if !script.contains("fair/") {
            return [None; 3];
        }
        let Some(queue) = self.places.get(lock) else { return [None; 3] };
        let before: Vec<_> = queue.iter().take_while(|waiting| *waiting != id).collect();
        let skips = queue.first().is_some_and(|first| world.is_of_the_dead(first) && first != id);
        let certain = |id: &Bytes| !self.unsure.contains(id) && is_wanted(world, id);
        let stands = world.plan.orderly && !world.is_of_the_dead(id);
        let is_foreign = |id: &Bytes| world.jvms.thread_of(id).is_some();
        let overtaken = before.iter().find(|waiting| {
            let lives = !world.is_of_the_dead(waiting);
            let first = !world.doubts.broken && certain(waiting) && !self.unsure.contains(id);
            // A JVM keeps its place until its deadline, dead or alive.
            let sure = !self.unsure.contains::<Bytes>(waiting) && !self.unsure.contains(id);
            if is_foreign(waiting) { sure } else { lives && (stands || first) }
        });
        assert_eq!(overtaken, None, "{id:?} overtook one of {queue:?}");
        let behind = queue.iter().skip(before.len()).any(|waiting| waiting != id && certain(waiting));
        let compared = !world.doubts.broken && !world.plan.orderly && behind;
        let of_both = queue
            .iter()
            .skip(before.len())
            .any(|waiting| is_foreign(waiting) != is_foreign(id) && (is_foreign(waiting) || certain(waiting)));
        [
            skips.then_some(Coverage::DeadHeadSkipped),
            compared.then_some(Coverage::OrderCompared),
            of_both.then_some(Coverage::MixedOrderCompared),
        ]
    }
}

/// Whether a request waits for a hold.
fn is_wanted(world: &World, id: &Bytes) -> bool {
    let tasks = world.clients.iter().filter(|client| !client.dead).flat_map(|client| &client.tasks);
    tasks.filter(|task| task.outcome.is_none()).any(|task| task.asked.as_ref() == Some(id))
}
