//! A hold that lingers: its last guard is gone, and it stays on the server for a while, so that the next request of its client has it at once.
//!
//! A hold that may linger has a mark in its name on the server. A client that finds the lock busy by such a name asks for the lock, and the
//! hold lingers no longer.

use crate::session::hold::Hold;
use crate::time::Instant;
use std::time::Duration;

/// For how many times its longest lingering a client keeps a hold from the server, guards aside: a JVM does not ask.
const TENURE: u32 = 10;

/// The longest head start of a client with a known request.
const MOST_HEAD_START: Duration = Duration::from_millis(250);

/// Whether a hold whose name on the server has the mark stays there when its last guard is gone. One without the mark does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linger {
    /// It may linger for so long.
    For(Duration),
    /// It does not: another client wants the lock, or its last request did not ask for it.
    Declined,
    /// The hold has lingered, and its release is in flight; its last guard has already ended.
    Left,
    /// It has no guard, and is kept for the next request.
    Lingers(Stay),
}

/// For how long a hold without a guard is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stay {
    until: Instant,
    /// When it was to be renewed, had its guard stayed.
    renew_at: Instant,
}

impl Hold {
    /// Its name on the server has the mark, and it may linger for so long.
    pub(crate) fn mark(&mut self, longest: Duration) {
        self.linger = Some(Box::new(Linger::For(longest.min(self.lease / 3))));
    }

    /// For how long it would be kept if its guard went now; `None` where it would be released.
    ///
    /// It is kept without a renewal, and longer than a third of its lease before its deadline.
    pub(crate) fn plan_stay(&self, now: Instant) -> Option<Stay> {
        let Linger::For(longest) = self.linger.as_deref().copied()? else { return None };
        let renew_at = self.renew_at?;
        let until = (now + longest).min(renew_at).min(self.tenure_began() + longest * TENURE);
        (until > now && self.may_be_handed_on(now)).then_some(Stay { until, renew_at })
    }

    /// Its guard goes, and it is kept.
    pub(crate) fn begin_stay(&mut self, stay: Stay) {
        self.linger = Some(Box::new(Linger::Lingers(stay)));
    }

    /// Whether it has no guard, and is kept.
    pub(crate) fn lingers(&self) -> bool {
        matches!(self.linger.as_deref(), Some(Linger::Lingers(_)))
    }

    /// Until when it is kept.
    pub(super) fn lingers_until(&self) -> Option<Instant> {
        match self.linger.as_deref() {
            Some(Linger::Lingers(stay)) => Some(stay.until),
            _ => None,
        }
    }

    /// Whether it has been kept for long enough.
    pub(crate) fn has_lingered(&self, now: Instant) -> bool {
        self.lingers_until().is_some_and(|until| until <= now)
    }

    /// When it is renewed next if a request has it from now on.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        match self.linger.as_deref() {
            Some(Linger::Lingers(stay)) => Some(stay.renew_at),
            _ => self.renew_at,
        }
    }

    /// Whether a request may have it: it is kept, nothing of it is on the way, and more than a third of its lease is left.
    pub(crate) fn may_be_resumed(&self, now: Instant) -> bool {
        let is_at_rest = self.change.is_none() && self.raising.is_none() && self.waiting.is_none();
        self.lingers()
            && !self.has_lingered(now)
            && is_at_rest
            && self.clean_up.is_at_rest()
            && self.cell.deadline().since(now) > self.lease / 3
    }

    /// Whether its client is to hear of others that want the lock.
    pub(crate) fn is_asked_for(&self) -> bool {
        match self.linger.as_deref() {
            Some(Linger::For(_)) => self.is_live(),
            Some(Linger::Lingers(_)) => true,
            Some(Linger::Declined | Linger::Left) | None => false,
        }
    }

    /// Whether the hold lingers, or will linger after its guard's release.
    pub(crate) fn may_linger(&self) -> bool {
        matches!(self.linger.as_deref(), Some(Linger::For(_) | Linger::Lingers(_)))
    }

    /// The head start of other clients after the release of a hold with the mark: two round trips, at most a quarter of
    /// a second after a known request, and less if there only `may_be` another client.
    pub(crate) fn head_start(&self, is_wanted: bool, may_be: bool) -> Option<Duration> {
        self.linger.as_deref()?;
        match (is_wanted, may_be && self.was_handed_on()) {
            (true, _) => Some(self.two_round_trips(MOST_HEAD_START)),
            (false, true) => Some(self.two_round_trips(super::hand_over::MOST_HEAD_START)),
            (false, false) => None,
        }
    }

    /// Whether the hold has lingered, and its release is in flight.
    pub(super) fn has_left(&self) -> bool {
        self.linger.as_deref() == Some(&Linger::Left)
    }

    /// It does not linger any more. Says whether it did: then it is to be released.
    pub(crate) fn decline_to_linger(&mut self) -> bool {
        let lingered = self.lingers();
        if let Some(linger) = &mut self.linger {
            **linger = if lingered { Linger::Left } else { Linger::Declined };
        }
        lingered
    }
}

impl Linger {
    /// The hold is the next request's, which would let it linger for `longest`.
    pub(super) fn pass_on(&mut self, longest: Option<Duration>, lease: Duration) {
        if !matches!(self, Self::Declined | Self::Left) {
            *self = longest.map_or(Self::Declined, |most| Self::For(most.min(lease / 3)));
        }
    }
}
