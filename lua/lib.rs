//! The Lua scripts of leasehold, as text.
//!
//! A folder is a kind of lock, a file is a verb. Each file starts with its contract: purpose, `KEYS`, `ARGV`, replies
//! and an example. Preludes in `shared/` precede the scripts that use them. Fast paths in `short/` handle the most
//! frequent cases of a script, and return before the rest is built.
//!
//! This crate only includes the files. `leasehold-core` defines their meaning, and a test compares both. The crate is
//! internal to leasehold, without a stability promise.

#![no_std]

/// A script of the fair lock: its start, the shared preludes, and the rest.
macro_rules! fair {
    ([$($front:literal),* $(,)?] $($file:literal),+ $(,)?) => {
        concat!(
            include_str!("shared/clock.lua"),
            include_str!("shared/fair_names.lua"),
            $(include_str!($front),)*
            include_str!("shared/kind.lua"),
            include_str!("shared/fair_entries.lua"),
            include_str!("shared/fair_open.lua"),
            $(include_str!($file),)+
        )
    };
}

/// A script of the fair lock that may change the queue.
macro_rules! fair_change {
    ([$($front:literal),* $(,)?] $($file:literal),+ $(,)?) => {
        fair!(
            [$($front),*]
            "shared/fair_queue.lua",
            "shared/fair_walk.lua",
            "shared/fair_upkeep.lua",
            $($file),+
        )
    };
}

/// The shared preludes. Each script starts with some of them, and ends with its own file.
pub const PRELUDES: &[&str] = &[
    include_str!("shared/clock.lua"),
    include_str!("shared/deadline.lua"),
    include_str!("shared/fair_acquire.lua"),
    include_str!("shared/fair_entries.lua"),
    include_str!("shared/fair_leave.lua"),
    include_str!("shared/fair_names.lua"),
    include_str!("shared/fair_open.lua"),
    include_str!("shared/fair_plain.lua"),
    include_str!("shared/fair_queue.lua"),
    include_str!("shared/fair_short.lua"),
    include_str!("shared/fair_upkeep.lua"),
    include_str!("shared/fair_walk.lua"),
    include_str!("shared/fence.lua"),
    include_str!("shared/free.lua"),
    include_str!("shared/give.lua"),
    include_str!("shared/grant.lua"),
    include_str!("shared/hold.lua"),
    include_str!("shared/hold_left.lua"),
    include_str!("shared/ids.lua"),
    include_str!("shared/kind.lua"),
    include_str!("shared/lease.lua"),
    include_str!("shared/once.lua"),
    include_str!("shared/permits.lua"),
    include_str!("shared/readers.lua"),
    include_str!("shared/renewal.lua"),
    include_str!("shared/text.lua"),
    include_str!("shared/token.lua"),
    include_str!("shared/whole.lua"),
];

/// The loop of a batch, which runs functions built from other scripts.
pub const BATCH: &str = include_str!("batch/run.lua");

/// The reentrant lock.
pub mod lock {
    /// Grants the lock, or raises a hold count.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/give.lua"),
        include_str!("short/lock_acquire.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold.lua"),
        include_str!("shared/grant.lua"),
        include_str!("shared/free.lua"),
        include_str!("lock/acquire.lua"),
    );
    /// Lowers a hold count, or ends a hold.
    pub const RELEASE: &str =
        concat!(include_str!("shared/kind.lua"), include_str!("shared/whole.lua"), include_str!("lock/release.lua"));
    /// Renews many leases in one call.
    pub const RENEW: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/renewal.lua"),
        include_str!("lock/renew.lua"),
    );
    /// Ends the hold of a named holder.
    pub const FORCE_RELEASE: &str = concat!(include_str!("shared/kind.lua"), include_str!("lock/force_release.lua"));
    /// Returns the holder of the lock.
    pub const INSPECT: &str = concat!(include_str!("shared/kind.lua"), include_str!("lock/inspect.lua"));
}

/// The fair lock. Its holds are renewed by [`lock::RENEW`].
pub mod fair {
    /// Grants the lock, raises a hold count, or queues the hold.
    pub const ACQUIRE: &str = fair_change!(
        ["shared/fair_plain.lua", "shared/fair_short.lua", "shared/give.lua", "shared/grant.lua", "short/fair_acquire.lua"]
        "shared/whole.lua",
        "shared/lease.lua",
        "shared/hold.lua",
        "shared/fair_acquire.lua",
        "fair/acquire.lua",
    );
    /// Lowers a hold count, or ends a hold and its place in the queue.
    pub const RELEASE: &str = fair_change!(
        ["shared/fair_plain.lua", "short/fair_release.lua"]
        "shared/whole.lua",
        "shared/fair_leave.lua",
        "fair/release.lua",
    );
    /// Records a heartbeat, and returns whether the process is next.
    pub const BEAT: &str = fair_change!(["shared/fair_plain.lua", "short/fair_beat.lua"] "fair/beat.lua");
    /// Ends the hold of a named holder.
    pub const FORCE_RELEASE: &str = fair_change!([] "fair/force_release.lua");
    /// Returns the holder of the lock and its waiters.
    pub const INSPECT: &str = fair!([] "fair/inspect.lua");
}

/// The fair lock with fencing tokens. The other verbs are those of [`fair`].
pub mod fenced_fair {
    /// Grants the lock with a token, raises a hold count, or queues the hold.
    pub const ACQUIRE: &str = fair_change!(
        [
            "shared/fair_plain.lua",
            "shared/fair_short.lua",
            "shared/give.lua",
            "shared/grant.lua",
            "shared/text.lua",
            "shared/token.lua",
            "short/fenced_fair_acquire.lua",
        ]
        "shared/whole.lua",
        "shared/lease.lua",
        "shared/hold.lua",
        "shared/fair_acquire.lua",
        "fenced_fair/acquire.lua",
    );
}

/// The fenced lock. The reentrant lock's scripts release, renew and inspect it.
pub mod fenced {
    /// Grants the lock or raises a hold count, and returns the fencing token.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/give.lua"),
        include_str!("shared/token.lua"),
        include_str!("short/fenced_acquire.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold.lua"),
        include_str!("shared/grant.lua"),
        include_str!("shared/free.lua"),
        include_str!("fenced/acquire.lua"),
    );
}

/// The simple lock, which shares its keys with go-zero.
pub mod simple {
    /// Grants the lock, or extends its lease.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("simple/acquire.lua"),
    );
    /// Ends a hold.
    pub const RELEASE: &str = concat!(
        include_str!("short/simple_release.lua"),
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("simple/release.lua"),
    );
    /// Renews many leases in one call.
    pub const RENEW: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("simple/renew.lua"),
    );
    /// Returns the holder of the lock.
    pub const INSPECT: &str =
        concat!(include_str!("shared/text.lua"), include_str!("shared/kind.lua"), include_str!("simple/inspect.lua"));
}

/// The read half of the read-write lock.
pub mod read {
    /// Grants the read half, or raises a hold count.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read/acquire.lua"),
    );
    /// Lowers a hold count, or ends a hold.
    pub const RELEASE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read/release.lua"),
    );
    /// Renews many holds in one call.
    pub const RENEW: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read/renew.lua"),
    );
}

/// The write half of the read-write lock. The reentrant lock's script renews it.
pub mod write {
    /// Grants the write half, raises a hold count, or leaves a mark.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("shared/readers.lua"),
        include_str!("write/acquire.lua"),
    );
    /// Lowers a hold count, or ends a hold and removes its mark.
    pub const RELEASE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("shared/readers.lua"),
        include_str!("write/release.lua"),
    );
}

/// Both halves of the read-write lock.
pub mod read_write {
    /// Returns the holder of the lock.
    pub const INSPECT: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("read_write/inspect.lua"),
    );
}

/// The semaphore: a bare counter of permits.
pub mod semaphore {
    /// Takes permits.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/once.lua"),
        include_str!("semaphore/acquire.lua"),
    );
    /// Returns the permits of a hold.
    pub const RELEASE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("semaphore/release.lua"),
    );
    /// Sets the number of permits if it is not set.
    pub const SET: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("semaphore/set.lua"),
    );
    /// Adds permits, or removes permits permanently.
    pub const ADD: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/once.lua"),
        include_str!("semaphore/add.lua"),
    );
    /// Takes all available permits.
    pub const DRAIN: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/once.lua"),
        include_str!("semaphore/drain.lua"),
    );
    /// Returns the number of available permits.
    pub const INSPECT: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("semaphore/inspect.lua"),
    );
}

/// The leased semaphore: permits with ids and leases.
pub mod permits {
    /// Takes permits.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/ids.lua"),
        include_str!("shared/deadline.lua"),
        include_str!("shared/permits.lua"),
        include_str!("permits/acquire.lua"),
    );
    /// Returns the permits of a hold.
    pub const RELEASE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/ids.lua"),
        include_str!("shared/permits.lua"),
        include_str!("permits/release.lua"),
    );
    /// Returns permits by their ids.
    pub const GIVE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/ids.lua"),
        include_str!("shared/permits.lua"),
        include_str!("permits/give.lua"),
    );
    /// Renews the leases of many holds in one call.
    pub const RENEW: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/ids.lua"),
        include_str!("shared/deadline.lua"),
        include_str!("permits/renew.lua"),
    );
    /// Sets the capacity if it is not set.
    pub const SET: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("permits/set.lua"),
    );
    /// Sets the capacity, even while permits are held.
    pub const RESIZE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/once.lua"),
        include_str!("shared/permits.lua"),
        include_str!("permits/resize.lua"),
    );
    /// Returns the numbers of available and held permits.
    pub const INSPECT: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("permits/inspect.lua"),
    );
    /// Returns the remaining lease of a permit.
    pub const LEASE: &str =
        concat!(include_str!("shared/kind.lua"), include_str!("shared/clock.lua"), include_str!("permits/lease.lua"),);
}

/// The count-down latch.
pub mod latch {
    /// Returns whether the latch is open.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("latch/acquire.lua"),
    );
    /// Sets the count of an open latch.
    pub const SET: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("latch/set.lua"),
    );
    /// Counts a latch down.
    pub const COUNT_DOWN: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/once.lua"),
        include_str!("latch/count_down.lua"),
    );
    /// Returns the count of a latch.
    pub const INSPECT: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("latch/inspect.lua"),
    );
    /// Deletes a latch, which opens it.
    pub const DELETE: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("latch/delete.lua"),
    );
}

/// Locks of unknown kind.
pub mod any {
    /// Returns the kind of lock under a name, its holds and its waiters.
    pub const INSPECT: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/fair_names.lua"),
        include_str!("shared/hold_left.lua"),
        include_str!("any/inspect.lua"),
    );
}

/// Records of clients.
pub mod record {
    /// Writes a client's record.
    pub const PUT: &str =
        concat!(include_str!("shared/kind.lua"), include_str!("shared/clock.lua"), include_str!("record/put.lua"),);
    /// Returns a client's record.
    pub const GET: &str =
        concat!(include_str!("shared/kind.lua"), include_str!("shared/clock.lua"), include_str!("record/get.lua"),);
    /// Removes the record of a client.
    pub const REMOVE: &str = concat!(include_str!("shared/kind.lua"), include_str!("record/remove.lua"),);
}

/// The mark between a script and its `WAIT`.
pub mod durable {
    /// Rewrites the lease of a lock.
    pub const MARK: &str = include_str!("durable/mark.lua");
}

/// Holds that move to another process.
pub mod ticket {
    /// Stores the secret of a ticket for a hold.
    pub const OFFER: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/lease.lua"),
        include_str!("ticket/offer.lua"),
    );
    /// Adopts the hold of a ticket.
    pub const ADOPT: &str = concat!(
        include_str!("shared/text.lua"),
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/token.lua"),
        include_str!("ticket/adopt.lua"),
    );
}

/// Values guarded by fencing tokens.
pub mod store {
    /// Reads a guarded value.
    pub const READ: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/fence.lua"),
        include_str!("store/read.lua"),
    );
    /// Writes a guarded value.
    pub const WRITE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/fence.lua"),
        include_str!("store/write.lua"),
    );
    /// Registers a fencing token for a value guarded elsewhere.
    pub const CHECK: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/whole.lua"),
        include_str!("shared/fence.lua"),
        include_str!("store/check.lua"),
    );
}
