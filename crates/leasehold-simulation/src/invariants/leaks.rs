//! What the server has against what clients have: hold counts agree, no hold is without a holder, and clients that have gone leave nothing.

use crate::terms::{CAPACITY, FaultMix, LEASE, LockFamily};
use crate::world::World;
use crate::world::client::Guard;
use crate::world::events::{Message, WorldEvent};
use crate::world::stats::Coverage;
use bytes::Bytes;
use leasehold_core::error::HoldEnd;
use leasehold_core::name::LockName;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use leasehold_core::time::Instant;
use std::time::Duration;

/// When nothing is waited for any more.
const AT_THE_END: &str = "at the end";

impl World {
    /// Wants hold counts to agree, where nothing has gone wrong for so long.
    pub(crate) fn check_counts(&mut self, fault_free_for: Duration) {
        let compared = compare_counts(self, fault_free_for);
        self.stats.reach_all(compared.then_some(Coverage::CountsCompared));
    }

    /// Wants no hold to be of nobody.
    pub(crate) fn check_strays(&mut self) {
        let sought = seek_strays(self);
        self.stats.reach_all(sought.then_some(Coverage::StraysSought));
    }

    /// Wants nothing to be left of any client, here and on the server.
    pub(crate) fn check_nothing_left(&self) {
        for (number, client) in self.clients.iter().enumerate().filter(|(_, client)| !client.dead) {
            let census = client.session.stats();
            assert_eq!(census, leasehold_core::session::ClientStats::default(), "of client {number}");
            assert_eq!(client.session.poll_timeout(), None, "client {number} waits for time to pass");
            assert!(!client.session.has_clean_up());
        }
        self.check_left(AT_THE_END);
    }

    /// Wants no listener, and nothing to be left but what may be left.
    pub(crate) fn check_left(&self, when: &str) {
        self.check_keys_left(when);
        assert_eq!(self.server.subscriptions(), 0, "somebody listens {when}");
    }

    /// Wants what is left on the server to be what may be left: fencing tokens, counters that the user made, and what expires by itself.
    pub(crate) fn check_keys_left(&self, when: &str) {
        for key in self.server.keys() {
            let int = |command: &[u8]| match self.server.command(&[command, &key]) {
                Ok(Reply::Int(value)) => value,
                other => panic!("{other:?}"),
            };
            let text = String::from_utf8_lossy(&key);
            let token = text.starts_with("redisson_lock_token:");
            let counter = self.plan.family.counts() && self.plan.lock_names().any(|lock| key == *lock.key());
            if self.plan.family == LockFamily::Permits && text.ends_with(":timeout") {
                check_expired(self, &key, when);
                continue;
            }
            // A late copy may have put a hold into a queue again, whose process is silent by now.
            let queue = (self.plan.copies || self.doubts.leftovers || !self.jvms.is_empty())
                && text.starts_with("redisson_lock_");
            let expires = (queue || text.starts_with("leasehold:1:")) && int(b"PTTL") >= 0;
            let kept = self.plan.least_times.is_some()
                && int(b"PTTL") >= 0
                && matches!(self.server.command(&[b"HKEYS", &key]), Ok(Reply::Array(fields))
                    if matches!(&fields[..], [Reply::Bulk(field)] if field.ends_with(b"!")));
            let of_jvms = when != AT_THE_END && self.is_queue_of_jvms(&key);
            let dump = [b"LRANGE".as_slice(), b"ZRANGE"].map(|read| self.server.command(&[read, &key, b"0", b"-1"]));
            assert!(token || counter || expires || kept || of_jvms, "{text} is left {when}: {dump:?}");
            if counter && self.plan.family == LockFamily::Semaphore {
                let left = self.server.command(&[b"GET", &key]).expect("a counter");
                assert_eq!(left, Reply::Bulk(CAPACITY.to_string().into()), "all permits of {text} are back {when}");
            }
        }
    }
}

/// Wants the server to have of every live hold what its guards stand for, where a client has nothing in flight and nothing has gone
/// wrong for it for so long.
fn compare_counts(world: &World, fault_free_for: Duration) -> bool {
    let mut compared = false;
    for guard in world.guards.iter().filter(|guard| guard.alive && world.believes(guard)) {
        let client = &world.clients[guard.client];
        if client.paused_until.is_some()
            || client.clock_is_wrong
            || !world.has_been_fault_free(guard.client, fault_free_for)
        {
            continue;
        }
        let flying = client.tasks.iter().any(|task| task.call.is_some());
        if flying || !world.net.is_idle(guard.client) || guard.epoch_of_data != world.server.data_epoch {
            continue;
        }
        let field = &guard.field;
        let guards = world.guards_of(guard.client, guard.hold) + world.detached_of(guard.client, guard.hold);
        if guard.fell_back {
            // The server is asked for one, whatever was entered without it; and for none while it is away or where the hold passes through.
            let has = guard.cell.is_degraded() || world.count_on_server(guard).is_none_or(|count| count > 0);
            assert!(has, "the server has nothing of {field:?}, which was restored");
            continue;
        }
        let expected = guards + client.session.unread_grants(guard.hold);
        if let Some(count) = world.count_on_server(guard) {
            assert!(count as usize == expected, "the server's count of {field:?} is {count}, and not {expected}");
        }
        let count = guard.cell.count();
        assert!(count as usize == expected, "the local count of {field:?} is {count}, and not {expected}");
        compared |= world.last_fault_of(guard.client) > Instant::default();
    }
    compared
}

/// Wants every hold that the server has of a client to be one that the client has, or has lost: where the client waits for nothing, has
/// nothing to clean up, and nothing that it has sent can still arrive. The entries of a simple lock or a permit on the server do not
/// name its client; these are looked for when all have gone.
fn seek_strays(world: &World) -> bool {
    // A copy of an acquire that comes after its release may bring a hold about again, which ends with its lease; and so may older data. One
    // that was only not proven dead is expected by its client, for as long as the lease that it asks for.
    let fields = world.plan.family.excludes() && world.plan.family != LockFamily::Simple;
    if !fields || world.plan.mix.has(FaultMix::Copies) || world.doubts.restored {
        return false;
    }
    let mut sought = false;
    for lock in world.plan.lock_names() {
        let Ok(Reply::Array(fields)) = world.server.command(&[b"HKEYS", lock.key()]) else { continue };
        for field in fields {
            let Reply::Bulk(field) = field else { continue };
            if field.ends_with(b"!") {
                // It is no hold: the lock stays busy after one.
                continue;
            }
            let Some(client) = world.client_of(&field).filter(|client| is_at_rest(world, *client)) else {
                continue;
            };
            let of_hold = field.strip_suffix(b":write").unwrap_or(&field);
            let is_of = |guard: &Guard| {
                let lost = matches!(guard.cell.would_end(world.local(client)), Some(HoldEnd::Lost(_)));
                guard.client == client && guard.field == of_hold && (guard.alive || guard.detached || lost)
            };
            assert!(
                world.guards.iter().any(is_of)
                    || may_still_arrive(world, client)
                    || is_of_a_reader_whose_lease_is_over(world, &lock, &field)
                    || is_about_to_end(world, &lock, &field)
                    || world.doubts.outlasted.contains(&field)
                    || leaves_to_leases(world, client),
                "{lock} is held by {field:?}, of which client {client} knows nothing"
            );
            sought |= world.last_fault_of(client) > Instant::default();
        }
    }
    sought
}

/// Whether a client waits for nothing and has nothing to clean up.
fn is_at_rest(world: &World, client: usize) -> bool {
    let state = &world.clients[client];
    state.runs()
        && state.tasks.iter().all(|task| task.outcome.is_some())
        && world.net.is_idle(client)
        && !state.session.has_clean_up()
}

/// The lease of a reader is a key of its own, and its field stays until another client comes to the lock after that.
fn is_of_a_reader_whose_lease_is_over(world: &World, lock: &LockName, field: &Bytes) -> bool {
    if !matches!(world.plan.family, LockFamily::ReadWrite | LockFamily::PreferWriters) || field.ends_with(b":write") {
        return false;
    }
    world.server.command(&[b"EXISTS", &lease_of_reader(lock, field)]) == Ok(Reply::Int(0))
}

fn lease_of_reader(lock: &LockName, field: &Bytes) -> Vec<u8> {
    [b"{", lock.key(), b"}:", field, b":rwlock_timeout:1"].concat()
}

/// Whether a client believes that what it could not take back has ended with its lease, because its clock jumped ahead.
fn leaves_to_leases(world: &World, client: usize) -> bool {
    // Its last messages may have arrived a little later, with a lease of their own.
    world.clients[client].clock_jumped.is_some_and(|jumped| world.now < jumped + LEASE * 4)
}

/// Whether the lease of a lock is in its last moments. A client that is out of reach takes back what it can for one lease, by a clock
/// that may be faster than the server's.
fn is_about_to_end(world: &World, lock: &LockName, field: &Bytes) -> bool {
    let early = if world.plan.keeps_data { Settings::margin(LEASE) } else { LEASE / 4 };
    // Other readers keep the key of a lock; a reader's own lease is a key of its own.
    let ends = |key: &[u8]| match world.server.command(&[b"PTTL", key]) {
        Ok(Reply::Int(left @ 0..)) => Duration::from_millis(left.unsigned_abs()) <= early,
        _ => false,
    };
    ends(lock.key()) || ends(&lease_of_reader(lock, field))
}

/// Whether a command of a client is on its way to the server.
fn may_still_arrive(world: &World, client: usize) -> bool {
    let is_of_it = |what: &WorldEvent| match what {
        WorldEvent::Message(Message::Arrive { client: other, .. } | Message::NoScript { client: other, .. }) => {
            *other == client
        }
        _ => false,
    };
    world.events.queue.values().any(is_of_it)
}

/// Wants every permit that is left to have expired: the next command takes it back.
fn check_expired(world: &World, key: &Bytes, when: &str) {
    let now = world.server.wall_millis();
    let later = format!("({now}");
    let alive = world.server.command(&[b"ZCOUNT", key, later.as_bytes(), b"+inf"]).expect("a sorted set");
    assert_eq!(alive, Reply::Int(0), "permits of {key:?} are held {when}");
}
