//! The part of a hold that is still to be taken back, and how long that is worth an attempt.

use crate::command::operation::MEMORY;
use crate::session::hold::Hold;
use crate::session::hold::change::CountChange;
use crate::session::{Ticket, retry};
use crate::time::Instant;
use std::time::Duration;

/// How far the lowering of a hold's count has come.
#[derive(Debug)]
pub(super) struct CleanUp {
    /// Whether the background lowers the count, and no caller does.
    by_background: bool,
    /// The background has as much to do as it may have under way: this one waits for room.
    is_queued: bool,
    /// The background does not try before.
    not_before: Instant,
    tries: u16,
    /// An earlier copy of the last release may have been applied.
    doubt: Option<ReleaseDoubt>,
    /// An earlier lowering, to whatever count, may have been applied.
    is_perhaps_lowered: bool,
    /// Some copy of a call may still come, because nothing could be proven: the release is repeated.
    is_unproven: bool,
    /// Whether the release has been done once, and is repeated for the sake of such copies.
    repeats: Repeats,
    /// By then the lease has run out on the server, if nothing renews it.
    until: Instant,
}

/// A copy of the last release that may have been applied, although no reply to it was seen.
#[derive(Clone, Copy, Debug)]
struct ReleaseDoubt {
    /// Whether it was sent before the deadline.
    sent_before_deadline: bool,
    since: Instant,
}

/// How a release that was carried out goes on for the sake of late copies of its acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repeats {
    /// It does not.
    No,
    /// It is repeated now and then, and once more when no copy can come any more.
    Until,
    /// It was repeated for the last time.
    Over,
}

/// What is to be done about a hold that has no change on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum NextStep {
    /// Nothing, now.
    Nothing,
    /// The server has nothing of it, or nothing that will not go by itself: it is forgotten.
    Forget,
    /// Its count is as wanted: requests that wait for that go on.
    GoOn,
    /// The background lowers its count.
    Lower,
}

/// What follows when no copy of a change can be applied any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum AfterSettling {
    /// The first acquire of this request is tried again.
    TryAgain(Ticket),
    /// The background takes back what may have been applied.
    TakeBack,
}

impl CleanUp {
    /// A clean-up of a hold that is begun now.
    pub(super) const fn new(now: Instant) -> Self {
        Self {
            by_background: false,
            is_queued: false,
            not_before: now,
            tries: 0,
            doubt: None,
            is_perhaps_lowered: false,
            is_unproven: false,
            repeats: Repeats::No,
            until: now,
        }
    }

    /// A clean-up of a hold that is begun now in the place of another one, which the server has had.
    pub(super) const fn after(now: Instant, other: &Self) -> Self {
        Self { until: other.until, ..Self::new(now) }
    }

    /// Whether there is nothing to be taken back, and no copy of a call is expected that might have to be.
    pub(super) fn is_at_rest(&self) -> bool {
        let Self { by_background, is_queued, doubt, is_perhaps_lowered, is_unproven, repeats, .. } = self;
        let is_doubted = doubt.is_some() || *is_perhaps_lowered || *is_unproven || *repeats != Repeats::No;
        !by_background && !is_queued && !is_doubted
    }
}

/// What is still to be done.
impl Hold {
    /// Whether the background is to lower the count. A lost hold is left to its guards until they are gone: their work may not have stopped
    /// yet, and no other client shall get the lock before its lease has ended.
    pub(crate) const fn is_for_background(&self) -> bool {
        self.is_high() && self.clean_up.by_background && (self.state.end().is_none() || !self.count.has_guards())
    }

    /// Whether a caller may send the release of the count that is too high.
    pub(crate) const fn is_for_caller(&self) -> bool {
        self.change.is_none() && self.is_high() && !self.clean_up.by_background
    }

    /// Whether its count is as wanted, and nothing is on its way.
    pub(crate) const fn is_settled(&self) -> bool {
        self.change.is_none() && !self.count.is_high()
    }

    /// What is to be done about it now.
    pub(crate) fn next_step(&self, now: Instant) -> NextStep {
        if self.change.is_some() {
            return NextStep::Nothing;
        }
        let repeats = self.owes_last_repeat(now);
        if self.is_abandoned() && (!self.count.is_high() || self.has_run_out(now)) && !repeats {
            return NextStep::Forget;
        }
        let is_time = repeats || now >= self.clean_up.not_before;
        if !self.is_high() {
            NextStep::GoOn
        } else if self.is_for_background() && !self.clean_up.is_queued && is_time {
            NextStep::Lower
        } else {
            NextStep::Nothing
        }
    }

    /// When the background is to lower the count next.
    pub(super) fn lowering_at(&self) -> Option<Instant> {
        let is_idle = self.change.is_none() && !self.clean_up.is_queued;
        (is_idle && self.is_for_background()).then(|| {
            let is_forgotten = self.is_abandoned() && !self.count.is_being_renewed();
            let forgotten = if is_forgotten { self.clean_up.until } else { Instant::FAR_FUTURE };
            self.clean_up.not_before.min(forgotten)
        })
    }

    /// Whether nothing needs it, and its lease has run out on the server unless something renewed it.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.is_abandoned() && self.has_run_out(now)
    }

    /// Whether its lease has run out on the server. False while a renewal is in flight, which may extend it.
    fn has_run_out(&self, now: Instant) -> bool {
        now >= self.clean_up.until && !self.count.is_being_renewed()
    }

    /// Whether the background releases the hold without a caller, and the server may still have it: its acquire was
    /// abandoned, or it has lingered.
    pub(crate) fn is_given_up(&self) -> bool {
        (!self.is_granted() || self.has_left()) && self.is_high() && self.clean_up.repeats == Repeats::No
    }

    /// Whether its release has been done once, and is repeated for the sake of late copies.
    pub(crate) fn is_repeated(&self) -> bool {
        self.clean_up.repeats != Repeats::No
    }

    /// Whether some copy of its calls may still come, because nothing could be proven.
    pub(crate) const fn is_unproven(&self) -> bool {
        self.clean_up.is_unproven
    }

    /// The same, while the lease lasts that such a copy could take, and nothing of it is wanted.
    pub(crate) fn may_come_back(&self, now: Instant) -> bool {
        self.clean_up.is_unproven && self.count.wanted() == 0 && now < self.clean_up.until
    }

    /// Whether an earlier lowering may have been applied, although no reply to it was seen.
    pub(crate) const fn is_perhaps_lowered(&self) -> bool {
        self.clean_up.is_perhaps_lowered
    }

    /// Whether a copy of its last release that was sent before the deadline may have been applied.
    pub(crate) fn was_perhaps_released_in_time(&self) -> bool {
        self.clean_up.doubt.is_some_and(|doubt| doubt.sent_before_deadline)
    }

    /// Whether a release may say that there is something to be given back even where the server has no record of it. It may not once a
    /// copy of it may have been applied so long ago that the record of that is gone: permits that are lost are better than permits that
    /// are given back twice.
    pub(crate) fn is_surely_granted(&self, now: Instant) -> bool {
        self.state.is_granted()
            && self.clean_up.repeats == Repeats::No
            && self.clean_up.doubt.is_none_or(|doubt| now.since(doubt.since) < MEMORY / 2)
    }

    /// Whether the release is now to be repeated for the last time. A copy that has come since the last one would keep the lock for a lease,
    /// and the client would know nothing of it.
    fn owes_last_repeat(&self, now: Instant) -> bool {
        self.clean_up.repeats == Repeats::Until && now >= self.clean_up.until && self.is_high()
    }
}

/// What happens to it.
impl Hold {
    /// The background lowers the count from here on.
    pub(crate) const fn leave_to_background(&mut self) {
        self.clean_up.by_background = true;
    }

    /// The lowering waits for room, or does not any more.
    pub(crate) const fn set_queued(&mut self, is_queued: bool) {
        self.clean_up.is_queued = is_queued;
    }

    /// The background sends the release.
    pub(crate) fn note_repeat(&mut self, now: Instant) {
        if self.owes_last_repeat(now) {
            self.clean_up.repeats = Repeats::Over;
        }
    }

    /// The lowering on the way may be applied, although no reply to it will be seen.
    pub(crate) fn doubt_lowering(&mut self) {
        let Some(change) = &self.change else { return };
        let CountChange::LowerTo(target) = change.aim() else { return };
        self.clean_up.is_perhaps_lowered = true;
        self.clean_up.by_background = true;
        if target == 0 {
            let sent_before_deadline = change.sent_at() < self.cell.deadline();
            self.clean_up.doubt.get_or_insert_with(|| ReleaseDoubt { sent_before_deadline, since: change.sent_at() });
        }
    }

    /// A copy of an acquire may still come: the release is repeated until the lease that it could take has ended.
    pub(crate) fn expect_late_copies(&mut self, not_before: Instant) {
        self.count.set_on_server(1);
        self.clean_up.by_background = true;
        self.clean_up.repeats = Repeats::Until;
        self.clean_up.not_before = not_before;
        // If nothing has a lease, copies are known for what they are only while there is a record of the hold.
        self.clean_up.until = self.clean_up.until.min(not_before + MEMORY);
    }

    /// The server has no more than `count` any longer. Says whether all that was to be given back is.
    pub(crate) fn note_lowered(&mut self, now: Instant, count: u32, in_places: bool) -> bool {
        self.count.set_on_server(count);
        self.cell.set_count(self.count.on_server());
        self.clean_up.tries = 0;
        self.clean_up.doubt = None;
        self.clean_up.is_perhaps_lowered = false;
        let done = !self.count.is_high();
        self.clean_up.by_background &= !done;
        // Whatever there was is gone: what may still come is a copy, which is not waited for longer than a lease.
        if self.state.leave_place() || in_places || self.count.on_server() == 0 {
            self.clean_up.until = self.clean_up.until.min(now + self.lease);
        }
        done
    }

    /// A lowering failed: the background repeats it after a pause, because clean-up is in no hurry.
    pub(crate) fn note_failed_lowering(&mut self, now: Instant) {
        self.clean_up.by_background = true;
        self.clean_up.tries = self.clean_up.tries.saturating_add(1);
        self.clean_up.not_before = now + retry::pause_before(u32::from(self.clean_up.tries) + 1);
    }

    /// The background may lower the count at once.
    pub(crate) const fn lower_at_once(&mut self, now: Instant) {
        self.clean_up.not_before = now;
    }

    /// No copy of the change can be applied any more, as far as that can be known.
    ///
    /// An entry is taken back before it is tried again: guards that are released must not wait for a future that is perhaps never polled.
    pub(crate) fn note_settled(&mut self, now: Instant, proven: bool) -> AfterSettling {
        self.change = None;
        self.clean_up.is_unproven |= !proven;
        self.clean_up.not_before = now;
        if let Some(ticket) = self.raising {
            if !self.state.is_granted() {
                return AfterSettling::TryAgain(ticket);
            }
            self.raising = None;
            self.wait(ticket);
        }
        self.clean_up.by_background = true;
        AfterSettling::TakeBack
    }

    /// The server may have given the hold, until now, what it or its change on the way asks for.
    pub(crate) fn extend_clean_up(&mut self, now: Instant) {
        let lease = self.lease_at_stake();
        self.keep_until(now + lease);
    }

    /// Something may keep it on the server until then.
    pub(crate) fn keep_until(&mut self, until: Instant) {
        self.clean_up.until = self.clean_up.until.max(until);
    }

    /// Until when it may be on the server.
    pub(crate) const fn kept_until(&self) -> Instant {
        self.clean_up.until
    }

    fn lease_at_stake(&self) -> Duration {
        self.change.as_ref().map_or(self.lease, |change| change.lease().max(self.lease))
    }
}

#[cfg(test)]
mod tests;
