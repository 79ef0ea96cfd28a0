//! The ground of the tests of scripts: servers, locks of one kind with the outcomes of what is asked of them, and locks whose replies are
//! compared as they are.

mod bench;
mod desk;
mod world;

pub(crate) use bench::{Bench, Ear};
pub(crate) use desk::Desk;
pub(crate) use world::{Wish, World, each};

use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::{AcquireArgs, HoldKey, Keys, Kind, ReleaseArgs, Renewal};
use leasehold_core::name::LockName;
use leasehold_core::reply::{DecodeError, Reply};
use leasehold_core::settings::Settings;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The lease of the tests.
pub(crate) const LEASE: Duration = Duration::from_millis(30_000);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn unused() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The kind of a key that is not of the expected kind.
#[track_caller]
pub(crate) fn conflict<T: Debug>(result: Result<T, DecodeError>) -> String {
    match result {
        Err(DecodeError::OtherKind(kind)) => kind,
        other => panic!("{other:?}"),
    }
}

/// The client of holds and operations that are used once.
pub(crate) const CLIENT: &str = "6f0c0000-0000-4000-8000-000000000001";

/// The id of a hold, or of an operation, that is used once.
pub(crate) fn once() -> Bytes {
    Bytes::from(format!("{CLIENT}:{}", unused()))
}

/// A hold that has not been used.
pub(crate) fn hold(permits: u32) -> HoldKey {
    HoldKey::new(once(), permits)
}

/// The hold of this name.
pub(crate) fn named(field: &str) -> HoldKey {
    HoldKey::new(Bytes::copy_from_slice(field.as_bytes()), 1)
}

pub(crate) fn publish() -> Bytes {
    Bytes::from_static(b"PUBLISH")
}

/// One lock, as the calls name it.
#[derive(Clone, Copy)]
pub(crate) struct Lock<'a> {
    pub(crate) kind: Kind,
    pub(crate) name: &'a LockName,
    pub(crate) keys: &'a Keys,
    pub(crate) settings: &'a Settings,
}

impl Lock<'_> {
    /// An acquire: it waits, has the lease of the tests, and is changed by `change`.
    pub(crate) fn ask<'a>(&'a self, hold: &'a HoldKey, change: impl FnOnce(&mut AcquireArgs<'a>)) -> Call {
        let mut ask = AcquireArgs {
            name: self.name,
            keys: self.keys,
            hold,
            beside: None,
            count: 1,
            lease: LEASE,
            not_after: None,
            waits: true,
            placed: false,
            prefer_writers: None,
            settings: self.settings,
        };
        change(&mut ask);
        self.kind.protocol().acquire(&ask)
    }

    pub(crate) fn give(&self, hold: &HoldKey, count: u32, granted: bool) -> Call {
        self.give_and_keep(hold, count, granted, Duration::ZERO)
    }

    /// A release that leaves the lock busy for so long.
    pub(crate) fn give_and_keep(&self, hold: &HoldKey, count: u32, granted: bool, keep: Duration) -> Call {
        let (name, keys, settings) = (self.name, self.keys, self.settings);
        self.kind.protocol().release(&ReleaseArgs { name, keys, hold, count, granted, keep, settings })
    }

    /// Renews, each hold by its own lease.
    pub(crate) fn renewal(&self, holds: impl IntoIterator<Item = (HoldKey, Duration)>) -> Call {
        let mut renewal = Renewal { publish: self.settings.publish.clone(), ..Renewal::default() };
        for (hold, lease) in holds {
            self.kind.protocol().renew(&mut renewal, self.name, self.keys, &hold, lease);
        }
        Call::new(self.kind.protocol().renewal().expect("this kind is renewed"), renewal.keys, renewal.args)
    }
}

/// A reply in few characters: `nil`, `3`, `"text"`, `[1, "a"]`.
pub(crate) fn show(reply: &Reply) -> String {
    match reply {
        Reply::Nil => "nil".into(),
        Reply::Int(value) => value.to_string(),
        Reply::Bulk(text) => format!("\"{}\"", String::from_utf8_lossy(text)),
        Reply::Array(parts) => format!("[{}]", parts.iter().map(show).collect::<Vec<_>>().join(", ")),
        other => format!("{other:?}"),
    }
}
