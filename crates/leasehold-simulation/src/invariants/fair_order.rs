//! The order of fair queues: among waiters that are heard of in time, the one that came first is served first.

use crate::report::stats::Coverage;
use crate::world::{World, ms};
use bytes::Bytes;
use leasehold_core::call::Call;
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

    /// A hold may have a place that no reply told of, or have lost the one that it had.
    pub(crate) fn doubt_hold(&mut self, id: Bytes) {
        self.unsure.insert(id);
    }

    /// A waiter for a lock may have lost its place.
    pub(crate) fn doubt(&mut self, lock: &Bytes) {
        self.unsure.extend(self.places.get(lock).into_iter().flatten().cloned());
    }

    fn join(&mut self, lock: Bytes, id: Bytes) {
        let queue = self.places.entry(lock).or_default();
        if !queue.contains(&id) {
            queue.push(id);
        }
    }
}

impl World {
    /// A command is about to reach a fair queue, and may find that a waiter has lost its place.
    pub(crate) fn note_silence(&mut self, call: &Call) {
        if !call.script().name().contains("fair/") {
            return;
        }
        let fair = self.plan.settings.fair;
        let lock = call.keys()[0].clone();
        let marks = format!("leasehold:1:fair:{{{}}}", String::from_utf8_lossy(&lock));
        if let Ok(Reply::Array(offer)) = self.server.command(&[b"HMGET", marks.as_bytes(), b"o", b"ot"])
            && let [Reply::Bulk(id), Reply::Bulk(at)] = &offer[..]
        {
            let at: i64 = String::from_utf8_lossy(at).parse().unwrap_or_default();
            let waited = Duration::from_millis(u64::try_from(self.server.wall_millis() - at).unwrap_or_default());
            if waited + SLACK >= fair.claim {
                self.queues.unsure.insert(id.clone());
            }
        }
        let silent = |id: &&Bytes| {
            let heard = self.client_of(id).and_then(|client| self.queues.heard.get(&(lock.clone(), client)));
            heard.is_none_or(|at| self.now.since(*at) + SLACK >= fair.window)
        };
        let silent: Vec<_> = self.queues.places.get(&lock).into_iter().flatten().filter(silent).cloned().collect();
        self.queues.unsure.extend(silent);
    }

    /// The server has answered, and has heard of a client, or given a place.
    pub(crate) fn note_place(&mut self, call: &Call, result: &Reply) {
        let Some((_, verb)) = call.script().name().split_once("fair/") else { return };
        let code = result.array().ok().and_then(|parts| parts.first()?.int().ok());
        let placed = verb == "acquire" && code == Some(4);
        let limit = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        // A command that comes too late, such as a copy, does not tell that its waiter lives.
        let in_time = || limit(&call.args()[5]).is_none_or(|limit| limit <= 0 || self.server.wall_millis() <= limit);
        // Nor does an entry to a hold that is there.
        let first = verb == "acquire" && call.args()[1] == "1";
        let waits = first && call.args()[3] == "1" && matches!(code, Some(1 | 4)) && in_time();
        let lock = call.keys()[0].clone();
        if let Some(client) = self.client_of(&call.args()[0]).filter(|_| waits || verb == "beat") {
            self.queues.heard.insert((lock.clone(), client), self.now);
        }
        if placed {
            self.queues.join(lock, call.args()[0].clone());
        }
    }

    /// The first living waiter in a queue is served.
    pub(crate) fn check_order(&mut self, script: &str, lock: &Bytes, id: &Bytes) {
        if !script.contains("fair/") {
            return;
        }
        let Some(queue) = self.queues.places.get(lock) else { return };
        let before: Vec<_> = queue.iter().take_while(|waiting| *waiting != id).collect();
        if queue.first().is_some_and(|first| self.is_of_the_dead(first) && first != id) {
            self.stats.reach(Coverage::DeadHeadSkipped);
        }
        let certain = |id: &Bytes| !self.queues.unsure.contains(id) && self.is_wanted(id);
        let stands = self.plan.orderly && !self.is_of_the_dead(id);
        let overtaken = before.iter().find(|waiting| {
            let lives = !self.is_of_the_dead(waiting);
            let first = !self.broken && certain(waiting) && !self.queues.unsure.contains(id);
            lives && (stands || first)
        });
        assert_eq!(overtaken, None, "{id:?} overtook one of {queue:?}");
        let behind = queue.iter().skip(before.len()).any(|waiting| waiting != id && certain(waiting));
        if !self.broken && !self.plan.orderly && behind {
            self.stats.reach(Coverage::OrderCompared);
        }
    }

    /// Whether a request waits for a hold.
    fn is_wanted(&self, id: &Bytes) -> bool {
        let tasks = self.clients.iter().filter(|client| !client.dead).flat_map(|client| &client.tasks);
        tasks.filter(|task| task.outcome.is_none()).any(|task| task.asked.as_ref() == Some(id))
    }
}
