//! Grants and releases as the server sees them: who follows whom, what each hold was promised, and that no client believes to hold what
//! another is granted. Fencing tokens grow, locks stay busy for their least times, and permits add up.

use crate::terms::{CAPACITY, LockFamily};
use crate::world::client::{Guard, Outcome, TaskKind};
use crate::world::history::OF_NO_EPOCH;
use crate::world::stats::Coverage;
use crate::world::{World, trace};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::Kind;
use leasehold_core::command::permits::ID_BYTES;
use leasehold_core::reply::Reply;
use leasehold_core::time::Instant;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt;

/// The holds that the server has granted and ended.
#[derive(Debug, Default)]
pub(crate) struct Grants {
    /// The server's grants to each hold.
    granted: FxHashMap<Bytes, Grant>,
    /// The senders of calls about each hold.
    senders: FxHashMap<Bytes, usize>,
    /// The holder of each lock that excludes, on the server, and the one before if that was released.
    holders: FxHashMap<Bytes, Holder>,
    /// Holds that the server has ended by a release.
    released: FxHashSet<Bytes>,
    /// Holds that were handed on among the tasks of a client.
    handed_on: FxHashSet<Bytes>,
}

/// The holder of a lock on the server, so far as it was granted.
#[derive(Debug, Default)]
struct Holder {
    /// The last hold that was granted, unless it was released.
    hold: Option<Bytes>,
    /// The client that released it last, unless another got it since,
    released_by: Option<usize>,
    /// and whether that client had handed it on before.
    was_handed_on: bool,
}

/// The server's grant to a hold.
#[derive(Debug, Default)]
struct Grant {
    lock: Bytes,
    /// How often the server had lost its data, or its clock had been stepped, when the hold was granted.
    epoch: u32,
    /// How often when the server last said how much of the lease was left, to a grant or to an entry.
    told: u32,
    /// Until when a client may believe in that, if it was told without delay.
    until: Instant,
}

impl Grant {
    /// Nothing is promised of it any more.
    fn void(&mut self) {
        (self.epoch, self.told) = (OF_NO_EPOCH, OF_NO_EPOCH);
    }
}

impl Grants {
    /// A client sends a call about a hold.
    pub(crate) fn sent_by(&mut self, id: &Bytes, client: usize) {
        self.senders.entry(id.clone()).or_insert(client);
    }

    /// The server has granted a hold, or an entry to one, in this epoch of its data.
    pub(crate) fn begin(&mut self, lock: Bytes, id: Bytes, epoch: u32, entered: bool) {
        let grant = Grant { lock, epoch, ..Grant::default() };
        if entered {
            self.granted.entry(id).or_insert(grant);
        } else {
            self.granted.insert(id, grant);
        }
    }

    /// The server has told a holder that its lease lasts until then.
    pub(crate) fn promise(&mut self, id: &Bytes, until: Instant, epoch: u32) {
        if let Some(grant) = self.granted.get_mut(id) {
            (grant.told, grant.until) = (epoch, until);
        }
    }

    /// In which epoch a client was promised that it holds until then: when it was granted the hold; or, of an entry, when it was last told,
    /// if that promises all of what it believes.
    pub(crate) fn epoch_of_promise(&self, id: &Bytes, entry_until: Option<Instant>) -> u32 {
        let Some(grant) = self.granted.get(id) else { return 0 };
        if entry_until.is_some_and(|until| until <= grant.until) { grant.told } else { grant.epoch }
    }

    /// A lock that excludes others has a new holder.
    pub(crate) fn hand_over(&mut self, lock: Bytes, id: &Bytes, client: Option<usize>) -> [Option<Coverage>; 2] {
        match self.holders.insert(lock, Holder { hold: Some(id.clone()), ..Holder::default() }) {
            Some(Holder { hold: Some(other), .. }) if other != id => [Some(Coverage::TakeOver), None],
            Some(Holder { released_by: Some(other), was_handed_on, .. }) if Some(other) != client => {
                [Some(Coverage::HandOver), was_handed_on.then_some(Coverage::LetIn)]
            }
            _ => [None, None],
        }
    }

    /// A hold was handed on among the tasks of its client.
    pub(crate) fn note_handed_on(&mut self, id: Bytes) {
        self.handed_on.insert(id);
    }

    /// The holder of a lock has released it.
    pub(crate) fn free(&mut self, lock: &Bytes, id: &Bytes, client: Option<usize>) {
        if let Some(holder) = self.holders.get_mut(lock)
            && holder.hold.as_ref() == Some(id)
        {
            *holder = Holder { hold: None, released_by: client, was_handed_on: self.handed_on.contains(id) };
        }
    }

    /// A release of a hold was carried out.
    pub(crate) fn release(&mut self, id: Bytes) {
        self.released.insert(id);
    }

    pub(crate) fn is_released(&self, id: &Bytes) -> bool {
        self.released.contains(id)
    }

    /// The holders are not known any more.
    pub(crate) fn forget_holders(&mut self) {
        self.holders.clear();
    }

    /// The holder of a lock is not known any more.
    pub(crate) fn forget_holder(&mut self, lock: &Bytes) {
        self.holders.remove(lock);
    }

    /// Nothing is promised any more of one hold,
    pub(crate) fn void(&mut self, id: Bytes) {
        self.granted.entry(id).or_default().void();
    }

    /// of those of a lock,
    pub(crate) fn void_lock(&mut self, lock: &Bytes) {
        self.granted.values_mut().filter(|grant| grant.lock == lock).for_each(Grant::void);
    }

    /// or of those of a client.
    pub(crate) fn void_client(&mut self, client: usize) {
        let of_client = self.granted.iter_mut().filter(|(id, _)| self.senders.get(*id) == Some(&client));
        of_client.for_each(|(_, grant)| grant.void());
    }
}

/// The last fencing token of each lock.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    last: FxHashMap<Bytes, i64>,
}

impl Tokens {
    /// A token must be greater than the last, unless the server has lost that and the time at which it was issued: then it falls by no more
    /// than the server's clock was put back.
    pub(crate) fn check(&self, world: &World, lock: &Bytes, id: &Bytes, token: i64) {
        let last = self.last.get(lock).copied();
        let put_back = i64::try_from(world.server.put_back.as_micros()).unwrap_or(i64::MAX);
        let back = if world.doubts.lost_tokens { put_back } else { 0 };
        assert!(
            last.is_none_or(|last| last < token.saturating_add(back)),
            "{id:?} got the token {token} of {lock:?} after {last:?}"
        );
    }

    pub(crate) fn issue(&mut self, lock: Bytes, token: i64) {
        self.last.insert(lock, token);
    }
}

/// The locks that are to stay busy, by the callers that were told of their release.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    by_lock: FxHashMap<Bytes, (Instant, Bytes)>,
}

impl Kept {
    /// No lock is to stay busy any more.
    pub(crate) fn forget(&mut self) {
        self.by_lock.clear();
    }

    /// A release has this outcome: what was held to the end keeps its lock busy from here on.
    pub(crate) fn note(&mut self, world: &World, client: usize, task: usize, outcome: &Outcome) {
        let TaskKind::Release { guard, held: true, last: true, handed_on: false, .. } =
            world.clients[client].tasks[task].kind
        else {
            return;
        };
        let (guard, state) = (&world.guards[guard], &world.clients[client]);
        // The time is on the client's clock. The server may have lost the lock before the future reads its outcome.
        let was_forgotten = state.tasks[task].reign != world.server.reign();
        if state.clock_left_margin || state.clock_jumped.is_some() || was_forgotten {
            return;
        }
        let of_hold = world.guards.iter().filter(|other| (other.client, other.hold) == (client, guard.hold));
        let until = of_hold.filter_map(|guard| guard.busy_until).max();
        let is_left = world.detached_of(client, guard.hold) > 0 || guard.fell_back;
        if let Some(until) = until.filter(|_| *outcome == Outcome::Released && !is_left) {
            let (lock, id) = (guard.name.to_key(), guard.wire_id.clone());
            self.by_lock.insert(lock, (until, id));
        }
    }

    /// The server grants a lock.
    pub(crate) fn check(&mut self, world: &mut World, grants: &Grants, lock: &Bytes) {
        let Some((until, id)) = self.by_lock.remove(lock) else { return };
        // What the server has lost since, or was told to end, does not keep it busy.
        if grants.epoch_of_promise(&id, None) != world.server.data_epoch {
            return;
        }
        assert!(world.now >= until, "{lock:?} is granted at {:?}, and was to stay busy until {until:?}", world.now);
        world.stats.reach(Coverage::GrantedAfterLeastTime);
    }
}

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
pub(crate) fn check_grant_of_permits(world: &World, call: &Call, lock: &Bytes, id: &Bytes) {
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

/// Exclusion: no client believes to hold what another is granted.
#[derive(Debug, Default)]
pub(crate) struct Exclusion {
    /// A grant beside another one is no fault.
    pub(crate) is_waived: bool,
}

impl Exclusion {
    /// No client believes to hold what the server grants to another.
    pub(crate) fn check_grant(&self, world: &World, script: &str, lock: &Bytes, id: &Bytes) {
        if self.is_waived || !world.plan.family.excludes() {
            return;
        }
        let reads = script.starts_with("read");
        let client = world.client_of(id);
        let believer = world.guards.iter().find(|guard| {
            let beside =
                guard.owner.is_some() && Some(guard.client) == client && matches!(guard.kind, Kind::Read | Kind::Write);
            guard.alive
                && guard.name.key() == lock
                && guard.wire_id != id
                && !(reads && guard.kind == Kind::Read)
                && !beside
                && world.is_believed(guard)
        });
        if let Some(guard) = believer {
            trace!(world, "the server grants {id:?} beside {guard:?}");
            broken(format_args!(
                "the server granted {lock:?} to {id:?}, and client {} still believes in {:?} until {:?}",
                guard.client,
                guard.hold,
                guard.cell.deadline()
            ));
        }
    }

    /// Wants no other guard to believe that it has what was just granted, so far as the kind excludes it. Belief only ends between one
    /// grant and the next.
    pub(crate) fn check_belief(&self, world: &World, guard: &Guard) {
        let believers = world.guards.iter().filter(|other| {
            other.alive
                && other.name.key() == guard.name.key()
                && (other.client, other.hold) != (guard.client, guard.hold)
                && is_held_to_exclude(world, guard, other)
                && world.believes(other)
        });
        if matches!(guard.kind, Kind::Semaphore | Kind::Permits) {
            let taken: u32 = believers.map(|other| other.permits).sum::<u32>() + guard.permits;
            if taken > CAPACITY && !self.is_waived {
                broken(format_args!("{taken} permits of {} are held", guard.name));
            }
            return;
        }
        if self.is_waived {
            return;
        }
        let other = believers.map(|other| (other.client, other.hold, other.kind, other.owner)).find(|other| {
            let both_read = guard.kind == Kind::Read && other.2 == Kind::Read;
            let halves = guard.kind != other.2 && other.3 == guard.owner;
            let one_owner = halves && guard.owner.is_some() && other.0 == guard.client;
            !both_read && !one_owner
        });
        if let Some(other) = other {
            broken(format_args!("{other:?} has {} beside {:?} of client {}", guard.name, guard.hold, guard.client));
        }
    }
}

/// Whether two guards must not be believed in at once, so far as it depends on when and how they were granted. Without the server, one
/// excludes the other tasks of its client, and no other process.
fn is_held_to_exclude(world: &World, guard: &Guard, other: &Guard) -> bool {
    if guard.passes_through || other.passes_through {
        return false;
    }
    if guard.cell.is_degraded() || other.cell.is_degraded() {
        return guard.client == other.client;
    }
    let is_wrong = |guard: &Guard| world.clients[guard.client].clock_is_wrong;
    other.epoch_of_data == guard.epoch_of_data
        && other.epoch_of_data != OF_NO_EPOCH
        && !is_wrong(other)
        && (!is_wrong(guard) || world.plan.family.counts())
}

/// Exclusion is broken. It is checked at the server's grant and where a client comes to believe in it, and is one rule, with one place in
/// the code.
fn broken(words: fmt::Arguments<'_>) -> ! {
    panic!("{words}")
}
