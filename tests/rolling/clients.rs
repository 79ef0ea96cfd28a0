//! Clients of two versions, which differ in the texts that they send.

use crate::place::Place;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::lock::{self, Forced, Inspected};
use leasehold_core::command::{Acquired, Ask, Give, HoldKey, Keys, Kind, Released, Renewal, Renewed};
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::reply::Reply;
use leasehold_core::settings::Settings;
use std::time::Duration;
use uuid::Uuid;

/// Whose scripts a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    /// The first that there were: of the reentrant lock alone.
    First,
    /// Those of this source.
    Present,
}

impl Version {
    /// The text that a client of this version sends where one of today calls the script.
    pub(crate) fn text(self, call: &Call) -> &'static str {
        match (self, call.script().name()) {
            (Self::Present, _) => call.script().source(),
            (Self::First, "lock/acquire") => include_str!("scripts/lock_acquire.lua"),
            (Self::First, "lock/release") => include_str!("scripts/lock_release.lua"),
            (Self::First, "lock/renew") => include_str!("scripts/lock_renew.lua"),
            (Self::First, "lock/force_release") => include_str!("scripts/lock_force_release.lua"),
            (Self::First, "lock/inspect") => include_str!("scripts/lock_inspect.lua"),
            (Self::First, other) => panic!("the first version had no {other}"),
        }
    }
}

/// A client at a lock.
pub(crate) struct Client<'a> {
    place: &'a Place,
    version: Version,
    pub(crate) name: LockName,
    keys: Keys,
    hold: HoldKey,
    settings: Settings,
}

pub(crate) const LEASE: Duration = Duration::from_secs(30);

impl<'a> Client<'a> {
    /// Clients with different numbers are different clients.
    pub(crate) fn new(place: &'a Place, version: Version, number: u8, name: &str) -> Self {
        let name = LockName::new("", name).expect("the name is valid");
        let id = ClientId::new(Uuid::from_u128(u128::from(number)));
        let keys = Kind::Lock.verbs().keys(&name, &id);
        let hold = HoldKey { field: Bytes::from(format!("{id}:1")), permits: 1 };
        Self { place, version, name, keys, hold, settings: Settings::default() }
    }

    #[track_caller]
    fn run(&self, call: &Call) -> Reply {
        self.place.eval(self.version.text(call), call.keys(), call.args())
    }

    /// The client's name of its hold on the server.
    pub(crate) fn field(&self) -> &Bytes {
        &self.hold.field
    }

    pub(crate) fn asking(&self, count: u32, lease: Duration) -> Call {
        Kind::Lock.verbs().acquire(&Ask {
            name: &self.name,
            keys: &self.keys,
            hold: &self.hold,
            beside: None,
            count,
            lease,
            not_after: None,
            waits: true,
            placed: false,
            prefer_writers: None,
            settings: &self.settings,
        })
    }

    pub(crate) fn giving(&self, count: u32) -> Call {
        let give = Give {
            name: &self.name,
            keys: &self.keys,
            hold: &self.hold,
            count,
            granted: true,
            settings: &self.settings,
        };
        Kind::Lock.verbs().release(&give)
    }

    pub(crate) fn renewing(&self, lease: Duration) -> Call {
        let mut renewal = Renewal::default();
        Kind::Lock.verbs().renew(&mut renewal, &self.name, &self.keys, &self.hold, lease);
        let script = Kind::Lock.verbs().renewal().expect("holds have a lease");
        Call::new(script, renewal.keys, renewal.args)
    }

    pub(crate) fn forcing(&self, holder: &Bytes) -> Call {
        lock::force_release(&self.name, &String::from_utf8_lossy(holder), &self.settings.publish)
    }

    #[track_caller]
    pub(crate) fn acquire(&self, count: u32) -> Acquired {
        Kind::Lock.verbs().acquired(&self.run(&self.asking(count, LEASE))).expect("the reply is understood")
    }

    /// Acquires, and has got the lock if the answer is yes.
    #[track_caller]
    pub(crate) fn gets(&self, count: u32) -> bool {
        match self.acquire(count) {
            Acquired::Held { left, .. } => left == LEASE,
            Acquired::Busy { .. } => false,
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    pub(crate) fn release(&self, count: u32) -> Released {
        Kind::Lock.verbs().released(&self.run(&self.giving(count))).expect("the reply is understood")
    }

    #[track_caller]
    pub(crate) fn renew(&self) -> Renewed {
        Renewed::decode(&self.run(&self.renewing(LEASE)), 1).expect("the reply is understood")[0]
    }

    #[track_caller]
    pub(crate) fn force(&self, holder: &Bytes) -> Forced {
        lock::forced(&self.run(&self.forcing(holder))).expect("the reply is understood")
    }

    #[track_caller]
    pub(crate) fn inspect(&self) -> Inspected {
        lock::inspected(&self.run(&lock::inspect(&self.name))).expect("the reply is understood")
    }
}
