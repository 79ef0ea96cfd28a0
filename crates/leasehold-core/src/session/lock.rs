//! The state that a client keeps about a lock: its waiters, its turn, and what the client holds of it.

use crate::command::{Keys, Kind};
use crate::name::LockName;
use crate::owner::{ClientId, HoldNumber};
use crate::session::ids::LockId;
use crate::session::lock::heartbeat::Heartbeat;
use crate::session::lock::invitations::Invitations;
use crate::session::trouble::Trouble;
use crate::time::Instant;
use std::collections::BTreeSet;

pub(super) mod heartbeat;
pub(super) mod invitations;
pub(super) mod line;
pub(super) mod locks;
pub(super) mod wait_queue;

/// The state that the client keeps about a lock while it holds it, waits for it, or listens for it.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) name: LockName,
    pub(super) kind: Kind,
    pub(super) keys: Keys,
    /// How many holds and requests refer to this.
    pub(super) refs: usize,
    /// How many holds of this client are held.
    pub(super) held: usize,
    /// How many permits these have together: one each, where it is no semaphore.
    pub(super) permits: u64,
    /// The requests that wait.
    pub(super) line: line::Line,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    pub(super) invitations: Invitations,
    pub(super) trouble: Trouble,
    pub(super) heartbeat: Heartbeat,
    /// Every request takes the lock within this client first.
    pub(super) local: bool,
    /// Another lock with the same name: the other half of a read-write lock, or a lock of another kind.
    pub(super) sibling: Option<LockId>,
    /// Holds that were given up before they were granted, and that the server may still have.
    pub(super) given_up: BTreeSet<HoldNumber>,
    /// When it was last said that a task of this client may wait for itself.
    pub(super) alarmed_at: Instant,
    /// The reason that a waiter was told why it waits in vain.
    pub(super) anomaly: Option<Anomaly>,
    pub(super) timer: Option<Instant>,
}

/// A state that no lease and no release of a hold ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anomaly {
    /// The server has the lock without a time to live.
    Endless,
    /// There is no such semaphore.
    Unset,
}

impl Lock {
    pub(super) fn new(name: LockName, kind: Kind, client: &ClientId) -> Self {
        Self {
            keys: kind.verbs().keys(&name, client),
            kind,
            name,
            refs: 0,
            held: 0,
            permits: 0,
            line: line::Line::default(),
            invitations: Invitations::new(),
            trouble: Trouble::default(),
            heartbeat: Heartbeat::default(),
            local: false,
            sibling: None,
            given_up: BTreeSet::new(),
            alarmed_at: Instant::from_nanos(0),
            anomaly: None,
            timer: None,
        }
    }
}
