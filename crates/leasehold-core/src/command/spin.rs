//! The commands of the spin lock: the reentrant lock's, but without release notices.

use super::lock::{self, Lock};
use super::outcome::{Acquired, Released};
use super::protocol::{AcquireArgs, HoldKey, Keys, KindProtocol, ReleaseArgs, Renewal, WaitPolicy};
use crate::call::Call;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::reply::{DecodeError, Reply};
use crate::script::Script;
use bytes::Bytes;
use std::time::Duration;

/// The argument that replaces a publish command.
const SILENT: Bytes = Bytes::from_static(b"SILENT");

/// The spin lock, on the wire.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "it has no state")]
pub struct Spin;

impl KindProtocol for Spin {
    fn kind_name(&self) -> &'static str {
        "spin lock"
    }

    fn wait_policy(&self) -> WaitPolicy {
        WaitPolicy::Exclusive
    }

    fn keys(&self, name: &LockName, _client: &ClientId) -> Keys {
        Keys { keys: Box::new([name.to_key()]), channel: None }
    }

    fn acquire(&self, ask: &AcquireArgs<'_>) -> Call {
        lock::acquire(ask, &SILENT)
    }

    fn acquired(&self, reply: &Reply) -> Result<Acquired, DecodeError> {
        Lock.acquired(reply)
    }

    fn release(&self, give: &ReleaseArgs<'_>) -> Call {
        lock::release(give, &SILENT)
    }

    fn released(&self, reply: &Reply) -> Result<Released, DecodeError> {
        Lock.released(reply)
    }

    fn may_be_kept(&self) -> bool {
        true
    }

    fn renewal(&self) -> Option<&'static Script> {
        Lock.renewal()
    }

    fn renew(&self, into: &mut Renewal, name: &LockName, keys: &Keys, hold: &HoldKey, lease: Duration) {
        Lock.renew(into, name, keys, hold, lease);
    }
}

/// Ends the hold of `holder` for any caller. [`lock::forced`] decodes the reply.
pub fn force_release(lock: &LockName, holder: &str) -> Call {
    lock::force_release(lock, holder, &SILENT)
}
