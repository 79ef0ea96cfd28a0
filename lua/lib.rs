//! The Lua scripts of leasehold, as text.
//!
//! A folder is a kind of lock, a file is a verb. Each file opens with its contract: purpose, `KEYS`, `ARGV`, returns and an
//! example. Code that several scripts share stands in `shared/` and is put in front of the scripts that use it.
//!
//! This crate only includes the files; what they mean is known to `leasehold-core`, and a test holds the two together.
//! It is internal to leasehold and has no stability promise of its own.

#![no_std]

/// A script of the fair lock that reads: what all of them begin with, and its own files.
macro_rules! fair {
    ($($file:literal),+ $(,)?) => {
        concat!(
            include_str!("shared/kind.lua"),
            include_str!("shared/clock.lua"),
            include_str!("shared/fair_entries.lua"),
            include_str!("shared/fair_open.lua"),
            $(include_str!($file),)+
        )
    };
}

/// A script of the fair lock that may change the queue.
macro_rules! fair_change {
    ($($file:literal),+ $(,)?) => {
        fair!(
            "shared/fair_queue.lua",
            "shared/fair_walk.lua",
            "shared/fair_upkeep.lua",
            $($file),+
        )
    };
}

/// The reentrant lock.
pub mod lock {
    /// Takes the lock, or raises a hold count.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("lock/acquire.lua"),
    );
    /// Lowers a hold count, or ends a hold.
    pub const RELEASE: &str = concat!(include_str!("shared/kind.lua"), include_str!("lock/release.lua"));
    /// Renews many leases in one call.
    pub const RENEW: &str =
        concat!(include_str!("shared/kind.lua"), include_str!("shared/lease.lua"), include_str!("lock/renew.lua"),);
    /// Ends the hold of a named holder.
    pub const FORCE_RELEASE: &str = concat!(include_str!("shared/kind.lua"), include_str!("lock/force_release.lua"));
    /// Tells who holds the lock.
    pub const INSPECT: &str = concat!(include_str!("shared/kind.lua"), include_str!("lock/inspect.lua"));
}

/// The fair lock. Its holds are renewed by [`lock::RENEW`].
pub mod fair {
    /// Takes the lock, raises a hold count, or takes a place in the queue.
    pub const ACQUIRE: &str = fair_change!("shared/lease.lua", "shared/fair_acquire.lua", "fair/acquire.lua");
    /// Lowers a hold count, or ends a hold and its place.
    pub const RELEASE: &str = fair_change!("shared/fair_leave.lua", "fair/release.lua");
    /// Says that a process lives, and asks whether it is its turn.
    pub const BEAT: &str = fair_change!("fair/beat.lua");
    /// Ends the hold of a named holder.
    pub const FORCE_RELEASE: &str = fair_change!("fair/force_release.lua");
    /// Tells who holds the lock, and who waits.
    pub const INSPECT: &str = fair!("fair/inspect.lua");
}

/// The fair lock with fencing tokens. The other verbs are those of [`fair`].
pub mod fenced_fair {
    /// Takes the lock with a token, raises a hold count, or takes a place in the queue.
    pub const ACQUIRE: &str =
        fair_change!("shared/lease.lua", "shared/token.lua", "shared/fair_acquire.lua", "fenced_fair/acquire.lua",);
}
