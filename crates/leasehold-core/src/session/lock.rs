//! The state that a client keeps about a lock: its waiters, its turn, and what the client holds of it.

use crate::command::Keys;
use crate::command::Kind;
use crate::name::LockName;
use crate::owner::ClientId;
use crate::owner::HoldNumber;
use crate::session::Ticket;
use crate::session::ids::LockId;
use crate::session::lock::invitations::Invitations;
use crate::session::lock::wait_queue::WaitQueue;
use crate::session::request::trouble::Trouble;
use crate::time::Instant;
use std::collections::BTreeSet;

pub(super) mod invitations;
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
    /// The requests that wait, the contender aside.
    pub(super) queue: WaitQueue,
    pub(super) contender: Option<Ticket>,
    /// The waiters that may ask beside the contender, if several may hold the lock.
    pub(super) invitations: Invitations,
    pub(super) phase: Phase,
    /// A notice came while the contender's command was under way.
    pub(super) again: bool,
    pub(super) trouble: Trouble,
    /// When the server is told next that the waiters live, where it wants to be told.
    pub(super) beat_at: Option<Instant>,
    /// A beat is on the way.
    pub(super) beating: bool,
    /// Another beat is wanted as soon as the one that is on the way has been answered.
    pub(super) beat_again: bool,
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

/// The activity of the contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No request waits.
    Idle,
    /// It may try, and has until then to be polled; for ever, if all waiting futures are never polled.
    Due(Instant),
    /// Its command is under way, or being settled.
    Trying,
    /// It waits for the server to confirm the subscription.
    Subscribing,
    /// It waits for a notice, until then at most.
    Sleeping(Instant),
    /// It leaves the server in peace until then.
    BackingOff(Instant),
    /// It waits for another task of this client to let go.
    Gated,
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
            queue: WaitQueue::default(),
            contender: None,
            invitations: Invitations::new(),
            phase: Phase::Idle,
            again: false,
            trouble: Trouble::default(),
            beat_at: None,
            beating: false,
            beat_again: false,
            local: false,
            sibling: None,
            given_up: BTreeSet::new(),
            alarmed_at: Instant::from_nanos(0),
            anomaly: None,
            timer: None,
        }
    }
}
