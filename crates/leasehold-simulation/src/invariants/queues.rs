//! The order of fair queues: among waiters that are heard of in time, the one that came first is served first, beside JVMs as well.

use crate::invariants::Invariants;
use crate::world::events::lock_of;
use crate::world::jvms::{FairKeys, Phase};
use crate::world::stats::Coverage;
use crate::world::{World, ms};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::link::ServerError;
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

    /// A command is about to reach the queue of a lock.
    pub(crate) fn note_silence(&mut self, world: &World, lock: &Bytes) {
        let silent = self.silent(world, lock);
        self.unsure.extend(silent);
    }

    /// The server has answered, and has heard of a client, or given a place.
    pub(crate) fn note_place(&mut self, world: &World, call: &Call, result: &Reply) {
        let Some((_, verb)) = call.script().name().split_once("fair/") else { return };
        let code = result.array().ok().and_then(|parts| parts.first()?.int().ok());
        let placed = verb == "acquire" && code == Some(4);
        let limit = |text: &[u8]| std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
        // A command that comes too late, such as a copy, does not tell that its waiter lives.
        let in_time = || limit(&call.args()[5]).is_none_or(|limit| limit <= 0 || world.server.wall_millis() <= limit);
        // Nor does an entry to a hold that is there.
        let first = verb == "acquire" && call.args().get(1) == Some(b"1");
        let waits = first && call.args().get(3) == Some(b"1") && matches!(code, Some(1 | 4)) && in_time();
        let lock = lock_of(call);
        if let Some(client) = world.client_of(&call.args()[0]).filter(|_| waits || verb == "beat") {
            self.hear(lock.clone(), client, world.now);
        }
        if placed {
            self.join(lock, Bytes::copy_from_slice(&call.args()[0]));
        }
    }

    /// Those that may have lost their places when a command is about to reach a fair queue.
    fn silent(&self, world: &World, lock: &Bytes) -> Vec<Bytes> {
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

/// The JVMs in a queue as a command of ours finds them.
#[derive(Debug)]
pub(crate) struct ForeignEntries {
    keys: FairKeys,
    held: bool,
    /// Each with its deadline.
    entries: Vec<(Bytes, i64)>,
}

/// JVMs in the queues of fair locks: neither side grants what the other believes to have, takes the other's places away before they are over,
/// or leaves the other asleep before a free lock.
impl Invariants {
    /// A command of ours is about to reach a queue.
    pub(super) fn note_foreign(world: &World, call: &Call) -> Option<ForeignEntries> {
        if world.jvms.is_empty() || !call.script().name().contains("fair/") {
            return None;
        }
        let keys =
            world.plan.lock_names().find(|lock| *lock.key() == call.keys()[0]).map(|lock| FairKeys::of(&lock))?;
        let held = keys.is_held(&world.server);
        let foreign = keys.entries(&world.server).into_iter().filter(|entry| world.jvms.thread_of(entry).is_some());
        let entries = foreign.filter_map(|entry| Some((entry.clone(), keys.score(&world.server, &entry)?))).collect();
        Some(ForeignEntries { keys, held, entries })
    }

    /// It has run: it has taken out no JVM but those that are overdue while the lock is free, and has told one whose turn it is.
    pub(super) fn check_foreign(&mut self, world: &mut World, call: &Call, result: &Result<Reply, ServerError>) {
        let Some(ForeignEntries { keys, held, entries }) = self.foreign.take() else { return };
        let script = call.script().name();
        let (now, skew) = (world.server.wall_millis(), world.plan.settings.fair.clock_skew.as_millis());
        let left = keys.entries(&world.server);
        for (entry, deadline) in entries.iter().filter(|(entry, _)| !left.contains(entry)) {
            let is_overdue = *deadline <= now - i64::try_from(skew).unwrap_or_default();
            let is_free = !held || script.ends_with("release");
            assert!(
                is_overdue && is_free || result.is_err(),
                "{script} took {entry:?} of a JVM out at {now}, due {deadline}"
            );
            note_dead_jvm(world, entry);
            self.fair_order.leave_at(&keys.lock, entry);
        }
        let code = match result {
            Ok(Reply::Int(code)) => *code,
            Ok(reply) => reply.array().ok().and_then(|parts| parts.first()?.int().ok()).unwrap_or(-1),
            Err(_) => return,
        };
        if code < 0 || keys.is_held(&world.server) {
            return;
        }
        let next = keys.head(&world.server).and_then(|head| world.jvms.thread_of(&head).map(|thread| (head, thread)));
        if let Some((head, thread)) = next
            && world.server.subscribers(&keys.channel_of(&head)) > 0
        {
            assert!(world.jvms.told.contains(&thread), "{script} left {head:?} of a JVM asleep before a free lock");
        }
    }

    /// A client of ours is granted a lock.
    pub(super) fn check_grant_beside_jvms(&mut self, world: &mut World, lock: &Bytes, id: &Bytes) {
        if world.jvms.is_empty() {
            return;
        }
        let now = world.server.wall_millis();
        let believer = (0..world.jvms.threads.len()).find(|thread| match &world.jvms.threads[*thread].phase {
            Phase::Holds(hold) => world.jvms.lives(*thread) && hold.lock.key() == lock && hold.until > now,
            Phase::Idle | Phase::Asks(_) => false,
        });
        assert_eq!(believer, None, "the server granted {lock:?} to {id:?}, and a JVM's thread believes that it has it");
        if self.note_side(lock, false) {
            world.stats.reach(Coverage::NativeAfterJvm);
        }
    }

    /// A JVM has taken a lock.
    pub(super) fn check_grant_to_jvm(&mut self, world: &mut World, thread: usize, lock: &Bytes) {
        let entry = world.jvms.threads[thread].entry.clone();
        let reached = self.fair_order.check(world, "fair/of-a-jvm", lock, &entry);
        world.stats.reach_all(reached.into_iter().flatten());
        self.exclusion.check_grant(world, "fair/of-a-jvm", lock, &entry);
        let holders = world.server.command(&[b"HLEN", lock]);
        assert_eq!(holders, Ok(Reply::Int(1)), "{lock:?} has one holder");
        self.grants.hand_over(lock.clone(), &entry, None);
        self.fair_order.leave_at(lock, &entry);
        if self.note_side(lock, true) {
            world.stats.reach(Coverage::JvmAfterNative);
        }
    }

    /// A JVM's command has taken an entry out because its deadline had passed: none of ours that lives, and is heard of in time.
    pub(super) fn check_taken_out_by_jvm(&mut self, world: &mut World, thread: usize, lock: &Bytes, entry: &Bytes) {
        let keeps = self.fair_order.keeps_its_place(world, lock, entry);
        let by = &world.jvms.threads[thread].entry;
        assert!(!keeps, "{by:?} of a JVM took {entry:?} out of the queue of {lock:?}, which lives");
        note_dead_jvm(world, entry);
        self.fair_order.leave_at(lock, entry);
    }

    /// A lock has a new holder, of a JVM or of ours. Whether the one before was of the other side.
    fn note_side(&mut self, lock: &Bytes, is_jvm: bool) -> bool {
        self.last_is_jvm.insert(lock.clone(), is_jvm) == Some(!is_jvm)
    }
}

/// Counts a dead JVM that stood in the way and does no more.
fn note_dead_jvm(world: &mut World, entry: &Bytes) {
    let is_dead = world.jvms.thread_of(entry).is_some_and(|thread| !world.jvms.lives(thread));
    world.stats.reach_all(is_dead.then_some(Coverage::DeadJvmSkipped));
}
