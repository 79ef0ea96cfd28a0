//! The steps of a session, for tests that replace the driver, and tests of its small parts.

use super::*;
use crate::error::ReleaseError;
use crate::session::request::AcquireOutcome;
use std::task::Poll;

mod client;

/// The result of polling a request.
#[derive(Debug)]
pub(super) enum Step<T> {
    /// It sends a call.
    Send(CallId, Call),
    Wait,
    /// It has an outcome.
    Done(T),
}

/// A call or an action of the background.
#[derive(Debug)]
pub(super) enum Deed {
    Call { id: CallId, call: Call },
    Settle { id: CallId },
    Subscribe { channel: Bytes },
    Unsubscribe { channel: Bytes },
}

impl Session {
    pub(super) fn step_acquire(&mut self, now: Instant, ticket: Ticket, waker: &Waker) -> Step<AcquireOutcome> {
        let polled = self.poll_acquire(now, ticket, waker);
        self.step(polled)
    }

    pub(super) fn step_release(
        &mut self,
        now: Instant,
        ticket: Ticket,
        waker: &Waker,
    ) -> Step<Result<(), ReleaseError>> {
        let polled = self.poll_release(now, ticket, waker);
        self.step(polled)
    }

    fn step<T>(&mut self, polled: Poll<T>) -> Step<T> {
        match polled {
            Poll::Ready(outcome) => Step::Done(outcome),
            Poll::Pending => match self.poll_call_of(true) {
                Some((id, call)) => Step::Send(id, call),
                None => Step::Wait,
            },
        }
    }

    /// The next call of a request, or of the background.
    pub(super) fn poll_call_of(&mut self, request: bool) -> Option<(CallId, Call)> {
        let at = self.out.calls.iter().position(|(id, _)| self.is_of_request(*id) == request)?;
        self.out.calls.remove(at)
    }

    /// The background's next call or action.
    pub(super) fn poll_deed(&mut self) -> Option<Deed> {
        if let Some((id, call)) = self.poll_call_of(false) {
            return Some(Deed::Call { id, call });
        }
        Some(match self.poll_action()? {
            Action::Settle { id, .. } => Deed::Settle { id },
            Action::Subscribe { channel } => Deed::Subscribe { channel },
            Action::Unsubscribe { channel } => Deed::Unsubscribe { channel },
        })
    }
}

mod parts {
    use crate::hold_cell::HoldCell;
    use crate::session::AcquireRequest;
    use crate::session::hold::Hold;
    use crate::session::lock::Lock;
    use crate::session::request::Request;

    /// A client may hold a hundred thousand locks, and as many of its tasks may wait: each of these has one of its own.
    #[test]
    fn what_there_is_much_of_is_small() {
        let sizes = [
            ("a hold", size_of::<Hold>(), 240),
            ("its cell", size_of::<HoldCell>(), 128),
            ("a lock", size_of::<Lock>(), 96),
            ("a request", size_of::<Request>(), 200),
            ("its parameters", size_of::<AcquireRequest>(), 216),
        ];
        for (what, size, most) in sizes {
            assert!(size <= most, "{what} has {size} bytes, and may have {most}");
        }
    }
}

mod window {
    use super::*;

    #[test]
    fn window_grows_while_replies_are_quick() {
        let round_trip = Duration::from_millis(100);
        let mut window = Window::new(64..=1_024);
        let answered = |window: &mut Window, took, more| {
            window.begin();
            window.end(Some(took), more);
        };
        assert_eq!(window.size, 64);
        (0..2_000).for_each(|_| answered(&mut window, round_trip, true));
        assert_eq!(window.size, 1_024, "it has another end");
        (0..24).for_each(|_| answered(&mut window, round_trip * 2 + Duration::from_millis(1), true));
        assert_eq!(window.size, 1_000, "a queue at the server does not make it smaller");
        window.begin();
        window.end(None, true);
        assert_eq!(window.size, 64, "a reply that is missing does not close it");
        (0..10).for_each(|_| answered(&mut window, round_trip, true));
        answered(&mut window, round_trip, false);
        assert_eq!(window.size, 64, "the next crowd does not begin anew");
        answered(&mut window, round_trip * 3, true);
        assert_eq!(window.size, 65, "the next crowd is measured by the last one's round trip");
        (0..65).for_each(|_| window.begin());
        assert!(!window.has_room());
    }
}

mod retry {
    use super::*;

    #[test]
    fn pauses_double_up_to_half_a_second() {
        let pauses = [0, 1, 2, 3, 6, 7, u32::MAX].map(|attempt| pause_before(attempt).as_millis());
        assert_eq!(pauses, [10, 10, 20, 40, 320, 500, 500]);
    }
}
