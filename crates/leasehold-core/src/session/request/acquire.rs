//! The record of a request to acquire: where it stands, what it has begun, and how it ends.

use crate::error::AcquireError;
use crate::owner::HoldNumber;
use crate::session::ids::LockId;
use crate::session::trouble::Trouble;
use crate::session::{AcquireRequest, Granted};
use crate::time::Instant;
use bytes::Bytes;
use std::task::Waker;

/// The reports of a wait for the waiter's own client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Alarm {
    /// Nothing.
    #[default]
    Silent,
    /// That it waits.
    Noted,
    /// That it may wait for itself.
    Raised,
}

impl Acquire {
    /// A request that is made now, and stands nowhere yet.
    pub(crate) fn new(now: Instant, lock: LockId, wish: AcquireRequest) -> Self {
        Self {
            lock,
            wish,
            started: now,
            place: Place::Aside,
            beside: None,
            not_beside: None,
            hold: None,
            had_place: false,
            asks: 0,
            polls: 0,
            asks_backoff: false,
            dormant: false,
            last: false,
            trouble: Trouble::default(),
            overtaken: 0,
            invited: None,
            alarm: Alarm::default(),
            went_again: 0,
            retry_at: None,
            timer: None,
            waker: None,
            outcome: None,
            undoing: None,
            given_up: GivenUp::Nothing,
        }
    }

    /// Whether it sends nothing, because something that was begun is being taken back.
    pub(crate) const fn rests(&self) -> bool {
        self.undoing.is_some() || matches!(self.given_up, GivenUp::Awaited(..))
    }

    /// The hold of its own owner that it re-enters.
    pub(crate) const fn entering(&self) -> Option<HoldNumber> {
        match self.place {
            Place::Entering(number) => Some(number),
            Place::Line | Place::Aside => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Acquire {
    pub(crate) lock: LockId,
    pub(crate) wish: AcquireRequest,
    pub(crate) started: Instant,
    pub(crate) place: Place,
    /// The hold of the other half of a read-write lock beside which this one is taken.
    pub(crate) beside: Option<Bytes>,
    /// The hold of the other half beside which the server did not let it in: that one is lost, and its loss will be told.
    pub(crate) not_beside: Option<Bytes>,
    /// A hold of it had a place in the server's queue.
    pub(crate) had_place: bool,
    /// How often it has asked for a first grant.
    pub(crate) asks: u32,
    /// How often it found the lock busy, where waiting is by polling.
    pub(crate) polls: u32,
    /// The caller's own back-off is to be asked how long to wait after the last of these.
    pub(crate) asks_backoff: bool,
    /// The hold that this request has begun: a first grant of it may be on the way.
    pub(crate) hold: Option<HoldNumber>,
    /// The turn came and the future was not polled: others go first until it is.
    pub(crate) dormant: bool,
    /// The patience has ended; one last attempt is allowed.
    pub(crate) last: bool,
    /// Since when the server has been out of reach for this request, where it does not stand in the line.
    pub(crate) trouble: Trouble,
    /// How often its call was answered and its future not polled.
    pub(crate) overtaken: u32,
    /// The round in which it was invited to ask beside the contender.
    pub(crate) invited: Option<u64>,
    /// The reports that the same client holds the lock.
    pub(crate) alarm: Alarm,
    /// How often a call of it was not sent, and was sent again at once.
    pub(crate) went_again: u8,
    pub(crate) retry_at: Option<Instant>,
    pub(crate) timer: Option<Instant>,
    pub(crate) waker: Option<Waker>,
    pub(crate) outcome: Option<Result<Option<Granted>, AcquireError>>,
    /// It has ended, and what it began is being taken back.
    pub(crate) undoing: Option<Undoing>,
    /// The other holds of the same lock that are being taken back.
    pub(crate) given_up: GivenUp,
}

/// An acquire that has ended without the lock, and whose caller is told once the server has nothing of it any more.
#[derive(Debug)]
pub(crate) struct Undoing {
    pub(crate) outcome: Result<Option<Granted>, AcquireError>,
    /// The holds that are being taken back.
    pub(crate) holds: Vec<HoldNumber>,
    /// The caller is told by then, whatever the server says.
    pub(crate) until: Instant,
}

/// The holds of the same lock that others of this client have given up, and that the server may still have, while a request asks for it.
#[derive(Debug, Default)]
pub(crate) enum GivenUp {
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
pub(crate) enum Place {
    /// In the local line of its lock.
    Line,
    /// Not there: it has not joined it, or has left it; or it stands beside it, because its owner holds the other half, or because it tries
    /// once, without waiting.
    Aside,
    /// At a hold of its own owner, which it re-enters.
    Entering(HoldNumber),
}
