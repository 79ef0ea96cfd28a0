//! The part of a hold that is still to be taken back, and how long that is worth an attempt.

use crate::command::operation::MEMORY;
use crate::session::hold::Hold;
use crate::session::hold::change::Aim;
use crate::time::Instant;

/// How far the lowering of a hold's count has come.
#[derive(Debug)]
pub(crate) struct CleanUp {
    /// Whether the lifeline lowers the count, and no caller does.
    pub(crate) by_lifeline: bool,
    /// The lifeline has as much to do as it may have under way: this one waits for room.
    pub(crate) queued: bool,
    /// The lifeline does not try before.
    pub(crate) not_before: Instant,
    pub(crate) tries: u32,
    /// An earlier copy of the last release may have been applied, and was sent before (`true`) or after the deadline.
    pub(crate) unsure: Option<bool>,
    /// Since when an earlier copy of the last release may have been applied.
    pub(crate) doubted_since: Option<Instant>,
    /// An earlier lowering, to whatever count, may have been applied.
    pub(crate) perhaps_lowered: bool,
    /// Some copy of a call may still come, because nothing could be proven: the release is repeated.
    pub(crate) unproven: bool,
    /// Whether the release has been done once, and is repeated for the sake of such copies.
    pub(crate) repeats: Repeats,
    /// By then the lease has run out on the server, if nothing renews it.
    pub(crate) until: Instant,
}

/// How a release that was carried out goes on for the sake of late copies of its acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// It does not.
    No,
    /// It is repeated now and then, and once more when no copy can come any more.
    Until,
    /// It was repeated for the last time.
    Over,
}

impl CleanUp {
    /// A clean-up of a hold that is begun now.
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            by_lifeline: false,
            queued: false,
            not_before: now,
            tries: 0,
            unsure: None,
            doubted_since: None,
            perhaps_lowered: false,
            unproven: false,
            repeats: Repeats::No,
            until: now,
        }
    }
}

impl Hold {
    /// Notes that the lowering on the way may be applied, although no reply to it will be seen.
    pub(crate) fn doubt_lowering(&mut self) {
        let Some(change) = &self.change else { return };
        let Aim::Lower(target) = change.aim else { return };
        self.clean_up.perhaps_lowered = true;
        self.clean_up.by_lifeline = true;
        if target == 0 {
            self.clean_up.unsure.get_or_insert_with(|| change.sent_at < self.cell.deadline());
            self.clean_up.doubted_since.get_or_insert(change.sent_at);
        }
    }

    /// A copy of an acquire may still come: the release is repeated until the lease that it could take has ended.
    pub(crate) fn expect_late_copies(&mut self, not_before: Instant) {
        self.count.set_on_server(1);
        self.clean_up.by_lifeline = true;
        self.clean_up.repeats = Repeats::Until;
        self.clean_up.not_before = not_before;
        // If nothing has a lease, copies are known for what they are only while there is a record of the hold.
        self.clean_up.until = self.clean_up.until.min(not_before + MEMORY);
    }

    /// Whether a release may say that there is something to be given back even where the server has no record of it. It may not once a
    /// copy of it may have been applied so long ago that the record of that is gone: permits that are lost are better than permits that
    /// are given back twice.
    pub(crate) fn is_surely_granted(&self, now: Instant) -> bool {
        let doubt = self.clean_up.doubted_since;
        self.state.is_granted()
            && self.clean_up.repeats == Repeats::No
            && doubt.is_none_or(|since| now.since(since) < MEMORY / 2)
    }

    /// Whether the release is now to be repeated for the last time. A copy that has come since the last one would keep the lock for a lease,
    /// and the client would know nothing of it.
    pub(crate) fn owes_last_repeat(&self, now: Instant) -> bool {
        self.clean_up.repeats == Repeats::Until && now >= self.clean_up.until && self.is_high()
    }

    /// The server has no more than `count` any longer. Says whether all that was to be given back is.
    pub(crate) fn note_lowered(&mut self, now: Instant, count: u32, in_places: bool) -> bool {
        self.count.set_on_server(count);
        self.cell.set_count(self.count.on_server());
        self.clean_up.tries = 0;
        self.clean_up.unsure = None;
        self.clean_up.doubted_since = None;
        self.clean_up.perhaps_lowered = false;
        let done = !self.count.is_high();
        self.clean_up.by_lifeline &= !done;
        // Whatever there was is gone: what may still come is a copy, which is not waited for longer than a lease.
        if self.state.leave_place() || in_places || self.count.on_server() == 0 {
            self.clean_up.until = self.clean_up.until.min(now + self.lease);
        }
        done
    }

    /// Notes that the release is sent by the lifeline.
    pub(crate) fn note_repeat(&mut self, now: Instant) {
        if self.owes_last_repeat(now) {
            self.clean_up.repeats = Repeats::Over;
        }
    }

    /// The server may have given the hold, until now, what it or its change on the way asks for.
    pub(crate) fn touch(&mut self, now: Instant) {
        let lease = self.change.as_ref().map_or(self.lease, |change| change.lease.max(self.lease));
        self.clean_up.until = self.clean_up.until.max(now + lease);
    }
}
