//! The requests of callers to a session, and its answers to their futures.

use super::ids::LockId;
use super::own_client::Alarm;
use super::{FlightId, retry};
use crate::backoff::Backoff;
use crate::call::{Call, Replicas};
use crate::command::Kind;
use crate::error::{AcquireError, ReleaseError};
use crate::hold_cell::HoldCell;
use crate::link::{Epoch, Plane};
use crate::name::LockName;
use crate::owner::{HoldNumber, OwnerId};
use crate::time::Instant;
use bytes::Bytes;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

/// Names a request. The future that made it holds it, and either sees it done or abandons it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(super) u64);

/// How long a caller waits for a lock that others hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to wait")]
pub enum Patience {
    /// Not at all: busy is an answer.
    Try,
    /// Until an instant, at which one last attempt is made.
    Until(Instant),
    /// As long as it takes.
    Forever,
}

/// The behaviour of an acquire once the server has been out of reach for too long. Only an acquire that certainly was not applied falls
/// back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "there is no other way to go on")]
pub enum Fallback {
    /// It fails.
    #[default]
    Fail,
    /// It takes the lock within this client: other tasks of the client are excluded, other processes are not. When the server is back, the
    /// guard becomes one that the server knows, or is lost. With this, every acquire takes the lock within the client first, whether the
    /// server is in reach or not.
    Local,
    /// It gets a guard that excludes no other.
    PassThrough,
}

/// A wish to hold a lock.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it, and must decide on every field")]
pub struct AcquireRequest {
    /// The lock.
    pub name: LockName,
    /// Its kind.
    pub kind: Kind,
    /// How many permits to take; 1 for locks.
    pub permits: u32,
    /// The class under which losses of this lock are counted.
    pub class: Arc<str>,
    /// The owner that may re-enter; `None` for an owner of its own.
    pub owner: Option<OwnerId>,
    /// The hold to be re-entered, by whatever owner.
    pub reenter: Option<HoldNumber>,
    /// The lease, in whole milliseconds.
    pub lease: Duration,
    /// Whether the lease is renewed.
    pub renewed: bool,
    /// The longest time for which the lock is to be held.
    pub max_hold: Option<Duration>,
    /// How long to wait.
    pub patience: Patience,
    /// How to poll, where the kind has no notices; as [`Backoff::default`] says where it is `None`.
    pub backoff: Option<Arc<Backoff>>,
    /// The hold of the other half of a read-write lock beside which this one may be taken, by whatever owner.
    pub beside: Option<HoldNumber>,
    /// The name of the hold on the server, where the kind lets the caller choose it.
    pub field: Option<Bytes>,
    /// The fallback without the server.
    pub fallback: Fallback,
    /// Whether waiting writers keep new readers out, and for how long a mark of such a writer counts.
    pub prefer_writers: Option<Duration>,
    /// The replicas that must acknowledge the hold, and its renewals. A re-entry of a hold that has such a condition is under it as well.
    pub replicas: Option<Replicas>,
}

impl AcquireRequest {
    /// A wish without an owner, for a lease that is renewed, as long as it takes.
    pub fn new(name: LockName, kind: Kind, lease: Duration) -> Self {
        Self {
            name,
            kind,
            permits: 1,
            class: Arc::default(),
            owner: None,
            reenter: None,
            lease,
            renewed: true,
            max_hold: None,
            patience: Patience::Forever,
            backoff: None,
            beside: None,
            field: None,
            fallback: Fallback::Fail,
            prefer_writers: None,
            replicas: None,
        }
    }
}

/// The plane of a call that a caller's future is about to send. Read the epoch before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the runtime builds it")]
pub struct Via {
    /// The plane.
    pub plane: Plane,
    /// Its epoch.
    pub epoch: Epoch,
}

impl Via {
    /// The way that a call takes, where those without replicas go this one. The plane of durable calls has several connections, so no
    /// one epoch stands for it: settling covers every one up to the present.
    pub(super) const fn for_call(self, call: &Call) -> Self {
        match call.plane(self.plane) {
            Plane::Durable => Self { plane: Plane::Durable, epoch: Epoch(u64::MAX) },
            _ => self,
        }
    }
}

/// The next step of a request's future.
#[derive(Debug)]
#[expect(clippy::exhaustive_enums, reason = "a future must handle every step")]
pub enum Step<T> {
    /// Send the call, and hand in its outcome under this name.
    Send(FlightId, Call),
    /// Wait until woken.
    Wait,
    /// It is done; the ticket is void.
    Done(T),
}

/// A lock was acquired: one guard's worth of a hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Granted {
    /// The hold.
    pub hold: HoldNumber,
    /// The part of it that its guards know.
    pub cell: Arc<HoldCell>,
    /// The hold count that this guard raised it to.
    pub count: u32,
    /// Whether the guard wants the hold to be renewed.
    pub renewed: bool,
}

/// The request behind a ticket.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "an acquire is the usual one, and must not cost another allocation")]
pub(super) enum Request {
    Acquire(Acquire),
    Release(Release),
    Pause(Pause),
}

#[derive(Debug)]
pub(super) struct Acquire {
    pub(super) lock: LockId,
    pub(super) wish: AcquireRequest,
    pub(super) started: Instant,
    pub(super) place: Place,
    /// The hold of the other half of a read-write lock beside which this one is taken.
    pub(super) beside: Option<Bytes>,
    /// The hold of the other half beside which the server did not let it in: that one is lost, and its loss will be told.
    pub(super) not_beside: Option<Bytes>,
    /// A hold of it had a place in the server's queue.
    pub(super) had_place: bool,
    /// How often it has asked for a first grant.
    pub(super) asks: u32,
    /// How often it found the lock busy, where waiting is by polling.
    pub(super) polls: u32,
    /// The caller's own back-off is to be asked how long to wait after the last of these.
    pub(super) asks_backoff: bool,
    /// The hold that this request has begun: a first grant of it may be on the way.
    pub(super) hold: Option<HoldNumber>,
    /// The turn came and the future was not polled: others go first until it is.
    pub(super) dormant: bool,
    /// The patience has ended; one last attempt is allowed.
    pub(super) last: bool,
    /// Since when the server has been out of reach for this request, where it does not stand in the line.
    pub(super) trouble: Trouble,
    /// How often its call was answered and its future not polled.
    pub(super) overtaken: u32,
    /// The round in which it was invited to ask beside the contender.
    pub(super) invited: Option<u64>,
    /// The reports that the same client holds the lock.
    pub(super) alarm: Alarm,
    /// How often a call of it was not sent, and was sent again at once.
    pub(super) went_again: u8,
    pub(super) retry_at: Option<Instant>,
    pub(super) timer: Option<Instant>,
    pub(super) waker: Option<Waker>,
    pub(super) outcome: Option<Result<Option<Granted>, AcquireError>>,
    /// It has ended, and what it began is being taken back.
    pub(super) undoing: Option<Undoing>,
    /// The other holds of the same lock that are being taken back.
    pub(super) given_up: GivenUp,
}

/// An acquire that has ended without the lock, and whose caller is told once the server has nothing of it any more.
#[derive(Debug)]
pub(super) struct Undoing {
    pub(super) outcome: Result<Option<Granted>, AcquireError>,
    /// The holds that are being taken back.
    pub(super) holds: Vec<HoldNumber>,
    /// The caller is told by then, whatever the server says.
    pub(super) until: Instant,
}

/// The holds of the same lock that others of this client have given up, and that the server may still have, while a request asks for it.
#[derive(Debug, Default)]
pub(super) enum GivenUp {
    /// There was nothing of it when the request asked last.
    #[default]
    Nothing,
    /// There was something when the request asked, which may be why it finds the lock busy.
    Crossed,
    /// The request has found the lock busy, and asks once more when these holds are gone; it asks no more after this instant.
    Awaited(Vec<HoldNumber>, Instant),
    /// It has asked once more.
    Over,
}

/// The place of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the local line of its lock.
    Line,
    /// Not there: it has not joined it, or has left it; or it stands beside it, because its owner holds the other half, or because it tries
    /// once, without waiting.
    Aside,
    /// At a hold of its own owner, which it re-enters.
    Entering(HoldNumber),
}

/// A server that does not do its part.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    pub(super) since: Option<Instant>,
    pub(super) tries: u32,
    pub(super) why: String,
    /// Whether a call of this request has an outcome that is not known.
    pub(super) unsure: bool,
    /// The server is a replica that refuses writes.
    pub(super) demotion: Option<Box<Demotion>>,
}

/// A server that refuses writes, because it is a replica.
#[derive(Clone, Debug, Default)]
pub(super) struct Demotion {
    /// Its last words.
    text: String,
    /// The connections on which it did, the first one of each plane.
    met: Vec<(Plane, Epoch)>,
}

impl Trouble {
    pub(super) fn note(&mut self, now: Instant, why: &str) {
        self.since.get_or_insert(now);
        self.tries = self.tries.saturating_add(1);
        self.why.clear();
        self.why.push_str(why);
    }

    /// Notes that a replica refused to write. Whether a connection that was made since its first refusal leads to a replica, too: a primary
    /// that has taken its place would have been found.
    pub(super) fn note_demotion(&mut self, text: &str, plane: Plane, epoch: Epoch) -> bool {
        let demotion = self.demotion.get_or_insert_default();
        text.clone_into(&mut demotion.text);
        match demotion.met.iter().find(|(known, _)| *known == plane) {
            Some((_, first)) => epoch > *first,
            None => {
                demotion.met.push((plane, epoch));
                false
            }
        }
    }

    /// The last failure, and whether the server was seen to be a replica.
    pub(super) fn in_words(&self) -> String {
        match &self.demotion {
            None => self.why.clone(),
            Some(demotion) if demotion.text == self.why => {
                format!("its address leads to a replica that may only be read: {}", self.why)
            }
            Some(_) => format!("{}; before that, its address led to a replica that may only be read", self.why),
        }
    }

    /// How long to leave the server in peace: 10 ms, doubled with every failure, at most half a second.
    pub(super) fn pause(&self) -> Duration {
        retry::pause_before(self.tries)
    }
}

#[derive(Debug)]
pub(super) struct Release {
    pub(super) hold: HoldNumber,
    pub(super) timer: Option<Instant>,
    pub(super) waker: Option<Waker>,
    pub(super) outcome: Option<Result<(), ReleaseError>>,
}

/// A caller that waits for time to pass, without a timer of its runtime.
#[derive(Debug)]
pub(super) struct Pause {
    pub(super) until: Instant,
    pub(super) timer: Option<Instant>,
    pub(super) waker: Option<Waker>,
}

impl Request {
    pub(super) const fn waker(&mut self) -> &mut Option<Waker> {
        match self {
            Self::Acquire(acquire) => &mut acquire.waker,
            Self::Release(release) => &mut release.waker,
            Self::Pause(pause) => &mut pause.waker,
        }
    }

    pub(super) const fn timer(&mut self) -> &mut Option<Instant> {
        match self {
            Self::Acquire(acquire) => &mut acquire.timer,
            Self::Release(release) => &mut release.timer,
            Self::Pause(pause) => &mut pause.timer,
        }
    }
}
