//! One lock, and the outcomes of what is asked of it.

use super::{Bench, Lock};
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::{Acquired, HoldKey, Keys, Kind, Released, Renewed};
use leasehold_core::name::LockName;
use leasehold_core::owner::ClientId;
use leasehold_core::settings::Settings;
use std::time::Duration;

pub(crate) struct Desk<'a> {
    pub(crate) bench: &'a Bench,
    pub(crate) kind: Kind,
    pub(crate) name: LockName,
    pub(crate) keys: Keys,
    pub(crate) settings: Settings,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(bench: &'a Bench, kind: Kind, name: LockName, settings: Settings) -> Self {
        let keys = kind.protocol().keys(&name, &ClientId::new(uuid::Uuid::nil()));
        Self { bench, kind, name, keys, settings }
    }

    pub(crate) fn lock(&self) -> Lock<'_> {
        Lock { kind: self.kind, name: &self.name, keys: &self.keys, settings: &self.settings }
    }

    pub(crate) fn ask(&self, hold: &HoldKey, count: u32, lease: Duration, not_after: Option<u64>) -> Call {
        self.lock().ask(hold, |ask| (ask.count, ask.lease, ask.not_after) = (count, lease, not_after))
    }

    pub(crate) fn give(&self, hold: &HoldKey, count: u32, granted: bool) -> Call {
        self.lock().give(hold, count, granted)
    }

    #[track_caller]
    pub(crate) fn acquired(&self, call: &Call) -> Acquired {
        self.kind.protocol().acquired(&self.bench.run(call)).expect("the reply is understood")
    }

    #[track_caller]
    pub(crate) fn acquire(&self, hold: &HoldKey) -> Acquired {
        self.acquired(&self.lock().ask(hold, |_| {}))
    }

    #[track_caller]
    pub(crate) fn gets(&self, hold: &HoldKey) -> bool {
        matches!(self.acquire(hold), Acquired::Held { .. })
    }

    #[track_caller]
    pub(crate) fn release(&self, hold: &HoldKey) -> Released {
        self.released(&self.give(hold, 0, true))
    }

    /// Releases a hold that is not known to have been granted.
    #[track_caller]
    pub(crate) fn withdraw(&self, hold: &HoldKey) -> Released {
        self.released(&self.give(hold, 0, false))
    }

    #[track_caller]
    pub(crate) fn released(&self, call: &Call) -> Released {
        self.kind.protocol().released(&self.bench.run(call)).expect("the reply is understood")
    }

    #[track_caller]
    pub(crate) fn renew(&self, hold: &HoldKey, lease: Duration) -> Renewed {
        let call = self.lock().renewal([(hold.clone(), lease)]);
        Renewed::decode(&self.bench.run(&call), 1).expect("the reply is understood")[0]
    }

    pub(crate) fn channel(&self) -> &Bytes {
        self.keys.channel.as_ref().expect("the kind has a channel")
    }

    /// The number on the server.
    #[track_caller]
    pub(crate) fn number(&self) -> String {
        self.bench.get(self.name.key())
    }
}
