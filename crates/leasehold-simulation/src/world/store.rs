//! A store beside the server, to which holders go to read a value, work on it, and write it back. It has three registers for each lock:
//! one that checks fencing tokens at reads and writes, one that checks them at writes alone, and one that checks nothing.

use crate::world::name;
use bytes::Bytes;
use leasehold_core::call::Call;
use leasehold_core::command::store::{Claim, Fenced, Written, read, read_done, write, written};
use leasehold_core::name::LockName;
use leasehold_core::owner::HoldNumber;
use leasehold_core::time::Instant;
use leasehold_embedded::{EmbeddedServer, ServerClock};
use rustc_hash::{FxHashMap, FxHashSet};

/// The number of a write.
pub(crate) type Version = u64;

/// The value that a holder has read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    /// The value of the register that checks every access, if that admitted the reader.
    pub(crate) fenced: Option<Version>,
    pub(crate) at_writes: Version,
    pub(crate) bare: Version,
}

#[derive(Default)]
pub(crate) struct Registers {
    pub(crate) by_lock: FxHashMap<Bytes, Register>,
    /// Holds that are at work.
    pub(crate) at_work: FxHashSet<(usize, HoldNumber)>,
    pub(crate) writes: Version,
    pub(crate) reference: ReferenceStore,
}

impl Registers {
    /// A store whose reference goes on with the Lua state of this engine.
    pub(crate) fn with_engine(engine: Option<EmbeddedServer>) -> Self {
        Self { reference: ReferenceStore::with_engine(engine), ..Self::default() }
    }
}

/// The store's content for one lock.
#[derive(Debug, Default)]
pub(crate) struct Register {
    pub(crate) fence: Fence,
    pub(crate) fenced: Version,
    /// The greatest token that has written.
    pub(crate) writer: u64,
    pub(crate) at_writes: Version,
    pub(crate) bare: Version,
}

/// The greatest token that was shown, and who showed it first.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    token: u64,
    owner: Bytes,
}

/// The answer of a fence to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Admitted,
    Stale,
    /// It was issued to another as well.
    Twice,
}

impl Fence {
    pub(crate) fn admit(&mut self, token: u64, owner: &Bytes) -> Admission {
        if token < self.token {
            return Admission::Stale;
        }
        if token == self.token && self.owner != owner {
            return Admission::Twice;
        }
        self.token = token;
        self.owner = owner.clone();
        Admission::Admitted
    }
}

/// The access to a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    /// It is read, and must be this, if the token is admitted; 0 where nothing was written.
    Read(u64),
    /// This is written.
    Write(u64),
}

/// The store's own scripts on a server that loses nothing: every access that the model of the store has a fence for goes there as well, and
/// both must say the same.
#[derive(Default)]
pub(crate) struct ReferenceStore {
    /// Most worlds have no use for it.
    server: Option<EmbeddedServer>,
    /// The parts of the server.
    engine: Option<EmbeddedServer>,
    last_writes: FxHashMap<Bytes, Call>,
}

impl ReferenceStore {
    /// A reference whose server goes on with the Lua state of this one.
    pub(crate) fn with_engine(engine: Option<EmbeddedServer>) -> Self {
        Self { engine, ..Self::default() }
    }

    pub(crate) fn into_engine(self) -> Option<EmbeddedServer> {
        self.server.or(self.engine)
    }

    /// Shows a token to the register of a lock's value, and wants it to be treated as the model says.
    pub(crate) fn check(&mut self, lock: &LockName, token: u64, owner: &Bytes, access: Access, model: Admission) {
        let value = name(&format!("value of {lock}"));
        let claim = Claim { token, owner, keep: None };
        if let Some(last) = self.last_writes.get(lock.key()).cloned() {
            // A copy of the last write comes late, and never counts again.
            let reply = written(&self.execute(&last)).expect("a reply that the script promises");
            assert!(!matches!(reply, Fenced::Admitted(Written::Now)), "{value} was written twice by {last:?}");
        }
        let said = match access {
            Access::Read(version) => {
                let reply = read_done(&self.execute(&read(&value, &claim))).expect("a reply that the script promises");
                if let Fenced::Admitted(found) = &reply {
                    let wanted = (version > 0).then(|| Bytes::from(version.to_string()));
                    assert_eq!(*found, wanted, "the content of {value}");
                }
                admission(&reply)
            }
            Access::Write(version) => {
                let call = write(&value, &claim, version, version.to_string().into(), None);
                let reply = written(&self.execute(&call)).expect("a reply that the script promises");
                if matches!(reply, Fenced::Admitted(_)) {
                    assert_eq!(reply, Fenced::Admitted(Written::Now), "{value} was not written");
                    self.last_writes.insert(lock.to_key(), call);
                }
                admission(&reply)
            }
        };
        assert_eq!(said, model, "the store's script and its model differ about the token {token} of {owner:?}");
    }

    fn execute(&mut self, call: &Call) -> leasehold_core::reply::Reply {
        let engine = &mut self.engine;
        let server = self.server.get_or_insert_with(|| {
            let nothing_ends = ServerClock::from_fn(|| Instant::from_nanos(0));
            match engine.take() {
                Some(old) => EmbeddedServer::in_place_of(old, nothing_ends),
                None => EmbeddedServer::with_clock(nothing_ends),
            }
        });
        server.execute(call).expect("the store refuses nothing")
    }
}

fn admission<T>(reply: &Fenced<T>) -> Admission {
    match reply {
        Fenced::Admitted(_) => Admission::Admitted,
        Fenced::Stale { .. } => Admission::Stale,
        Fenced::Twice { .. } => Admission::Twice,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_refuses_a_lower_token_and_an_equal_one_of_another() {
        let mut fence = Fence::default();
        let [one, other] = [Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        assert_eq!(fence.admit(7, &one), Admission::Admitted);
        assert_eq!(fence.admit(7, &one), Admission::Admitted);
        assert_eq!(fence.admit(7, &other), Admission::Twice);
        assert_eq!(fence.admit(6, &one), Admission::Stale);
        assert_eq!(fence.admit(8, &other), Admission::Admitted);
        assert_eq!(fence.admit(7, &one), Admission::Stale);
    }

    #[test]
    fn script_and_model_say_the_same_and_a_difference_is_found() {
        let (mut store, lock) = (ReferenceStore::default(), name("lock"));
        let [one, other] = [Bytes::from_static(b"a"), Bytes::from_static(b"b")];
        store.check(&lock, 7, &one, Access::Read(0), Admission::Admitted);
        store.check(&lock, 7, &one, Access::Write(1), Admission::Admitted);
        store.check(&lock, 7, &other, Access::Read(1), Admission::Twice);
        store.check(&lock, 8, &other, Access::Read(1), Admission::Admitted);
        store.check(&lock, 7, &one, Access::Write(2), Admission::Stale);
        let differs =
            std::panic::AssertUnwindSafe(|| store.check(&lock, 7, &one, Access::Write(3), Admission::Admitted));
        assert!(std::panic::catch_unwind(differs).is_err());
    }

    #[test]
    fn a_write_that_counts_again_is_found() {
        let (mut store, lock) = (ReferenceStore::default(), name("lock"));
        let owner = Bytes::from_static(b"a");
        store.check(&lock, 7, &owner, Access::Write(1), Admission::Admitted);
        // The store forgets who has written.
        store.server = None;
        let again =
            std::panic::AssertUnwindSafe(|| store.check(&lock, 8, &owner, Access::Read(1), Admission::Admitted));
        let panic = std::panic::catch_unwind(again).expect_err("nothing was found");
        assert!(panic.downcast_ref::<String>().is_some_and(|text| text.contains("written twice")));
    }
}
