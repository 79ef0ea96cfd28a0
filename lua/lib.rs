//! The Lua scripts of leasehold, as text.
//!
//! A folder is a kind of lock, a file is a verb. Each file opens with its contract: purpose, `KEYS`, `ARGV`, returns and an
//! example. Code that several scripts share stands in `shared/` and is put in front of the scripts that use it.
//!
//! This crate only includes the files; what they mean is known to `leasehold-core`, and a test holds the two together.
//! It is internal to leasehold and has no stability promise of its own.

#![no_std]

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

/// The fenced lock, which is released, renewed and inspected by the scripts of the reentrant lock.
pub mod fenced {
    /// Takes the lock, or raises a hold count, and tells the fencing token.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/token.lua"),
        include_str!("fenced/acquire.lua"),
    );
    /// Tells the last fencing token.
    pub const TOKEN: &str = concat!(include_str!("shared/kind.lua"), include_str!("fenced/token.lua"));
}

/// The simple lock, which shares its keys with go-zero.
pub mod simple {
    /// Takes the lock, or lengthens its lease.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("simple/acquire.lua"),
    );
    /// Ends a hold.
    pub const RELEASE: &str = concat!(include_str!("shared/kind.lua"), include_str!("simple/release.lua"));
    /// Renews many leases in one call.
    pub const RENEW: &str =
        concat!(include_str!("shared/kind.lua"), include_str!("shared/lease.lua"), include_str!("simple/renew.lua"),);
    /// Tells who holds the lock.
    pub const INSPECT: &str = concat!(include_str!("shared/kind.lua"), include_str!("simple/inspect.lua"));
}

/// The read half of the read-write lock.
pub mod read {
    /// Takes it, or raises a hold count.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read/acquire.lua"),
    );
    /// Lowers a hold count, or ends a hold.
    pub const RELEASE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read/release.lua"),
    );
    /// Renews many holds in one call.
    pub const RENEW: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read/renew.lua"),
    );
}

/// The write half of the read-write lock, which is renewed by the script of the reentrant lock.
pub mod write {
    /// Takes it, raises a hold count, or leaves a mark.
    pub const ACQUIRE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/lease.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/readers.lua"),
        include_str!("write/acquire.lua"),
    );
    /// Lowers a hold count, or ends a hold, and takes a mark back.
    pub const RELEASE: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/readers.lua"),
        include_str!("write/release.lua"),
    );
}

/// Both halves of the read-write lock.
pub mod read_write {
    /// Tells who holds the lock.
    pub const INSPECT: &str = concat!(
        include_str!("shared/kind.lua"),
        include_str!("shared/clock.lua"),
        include_str!("shared/readers.lua"),
        include_str!("read_write/inspect.lua"),
    );
}
