//! The part of a hold that is still to be taken back, and how long that is worth an attempt.

use super::hold::{Aim, Hold};
use crate::command::operation::MEMORY;
use crate::time::Instant;

/// How far the lowering of a hold's count has come.
#[derive(Debug)]
pub(super) struct CleanUp {
    /// Whether the lifeline lowers the count, and no caller does.
    pub(super) by_lifeline: bool,
    /// The lifeline has as much to do as it may have under way: this one waits for room.
    pub(super) queued: bool,
    /// The lifeline does not try before.
    pub(super) not_before: Instant,
    pub(super) tries: u32,
    /// An earlier copy of the last release may have been applied, and was sent before (`true`) or after the deadline.
    pub(super) unsure: Option<bool>,
    /// Since when an earlier copy of the last release may have been applied.
    pub(super) doubted_since: Option<Instant>,
    /// An earlier lowering, to whatever count, may have been applied.
    pub(super) perhaps_lowered: bool,
    /// Some copy of a call may still come, because nothing could be proven: the release is repeated.
    pub(super) unproven: bool,
    /// Whether the release has been done once, and is repeated for the sake of such copies.
    pub(super) repeats: Repeats,
    /// By then the lease has run out on the server, if nothing renews it.
    pub(super) until: Instant,
}

/// How a release that was carried out goes on for the sake of late copies of its acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeats {
    /// It does not.
    No,
    /// It is repeated now and then, and once more when no copy can come any more.
    Until,
    /// It was repeated for the last time.
    Over,
}

impl CleanUp {
    /// A clean-up of a hold that is begun now.
    pub(super) const fn new(now: Instant) -> Self {
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
    pub(super) fn doubt_lowering(&mut self) {
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
    pub(super) fn expect_late_copies(&mut self, not_before: Instant) {
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
    pub(super) fn is_surely_granted(&self, now: Instant) -> bool {
        let doubt = self.clean_up.doubted_since;
        self.granted && self.clean_up.repeats == Repeats::No && doubt.is_none_or(|since| now.since(since) < MEMORY / 2)
    }

    /// Whether the release is now to be repeated for the last time. A copy that has come since the last one would keep the lock for a lease,
    /// and the client would know nothing of it.
    pub(super) fn owes_last_repeat(&self, now: Instant) -> bool {
        self.clean_up.repeats == Repeats::Until && now >= self.clean_up.until && self.is_high()
    }

    /// Notes that the release is sent by the lifeline.
    pub(super) fn note_repeat(&mut self, now: Instant) {
        if self.owes_last_repeat(now) {
            self.clean_up.repeats = Repeats::Over;
        }
    }

    /// The server may have given the hold, until now, what it or its change on the way asks for.
    pub(super) fn touch(&mut self, now: Instant) {
        let lease = self.change.as_ref().map_or(self.lease, |change| change.lease.max(self.lease));
        self.clean_up.until = self.clean_up.until.max(now + lease);
    }
}

#[cfg(test)]
mod tests {
    use crate::call::Call;
    use crate::command::Kind;
    use crate::link::{Epoch, Plane, Settled};
    use crate::name::LockName;
    use crate::owner::ClientId;
    use crate::reply::Reply;
    use crate::session::{AcquireRequest, Action, CallId, Session, Step, Via};
    use crate::settings::Settings;
    use crate::time::Instant;
    use std::task::Waker;
    use std::time::Duration;

    const NOW: Instant = Instant::from_nanos(1_000_000_000);

    fn release(session: &mut Session) -> Option<(CallId, Call)> {
        std::iter::from_fn(|| session.poll_action()).find_map(|action| match action {
            Action::Call { id, call } => Some((id, call)),
            _ => None,
        })
    }

    #[test]
    fn a_late_copy_is_taken_back_that_comes_just_before_its_lease_is_over() {
        // With and without a repetition before that.
        for lease in [250, 4_000].map(Duration::from_millis) {
            let mut session = Session::new(ClientId::new(uuid::Uuid::nil()), Settings::default(), 1);
            let name = LockName::new("", "stock").expect("a name");
            let ticket = session.acquire(NOW, AcquireRequest::new(name, Kind::Lock, lease));
            let via = Via { plane: Plane::Foreground, epoch: Epoch(1) };
            let step = session.poll_acquire(NOW, ticket, via, Waker::noop());
            assert!(matches!(step, Step::Send(..)), "{step:?}");
            session.abandon_acquire(NOW, ticket);
            let settles = std::iter::from_fn(|| session.poll_action()).find_map(|action| match action {
                Action::Settle { id, .. } => Some(id),
                _ => None,
            });
            session.handle_settled(NOW, settles.expect("a settlement"), Ok(Settled::Unproven));
            let (mut now, mut last) = (NOW, None);
            loop {
                while let Some((id, call)) = release(&mut session) {
                    assert_eq!(call.script().name(), "lock/release");
                    // The server has nothing of it yet.
                    session.handle_called(now, id, Epoch(1), Ok(Reply::Int(-1)));
                    last = Some(now);
                }
                let Some(next) = session.poll_timeout() else { break };
                now = next;
                session.handle_timeout(now);
            }
            assert!(last >= Some(NOW + lease), "{last:?} is before the end of the lease of {lease:?}");
            assert_eq!(session.stats().cleaning_up, 0, "it ends");
        }
    }
}
