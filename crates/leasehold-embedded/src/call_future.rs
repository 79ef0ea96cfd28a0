//! The future of a call.

use crate::delivery::{Begun, NotYet};
use crate::in_flight::{CallId, CallResult};
use crate::link::EmbeddedLink;
use leasehold_core::call::Call;
use leasehold_core::link::Plane;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A call under way.
pub(crate) struct EmbeddedCall {
    link: EmbeddedLink,
    plane: Plane,
    call: Call,
    progress: Progress,
}

enum Progress {
    New,
    /// It has waited once, and is to be sent.
    Stepped,
    /// Its reply is yet to come.
    Waits(CallId),
    /// It waits once more before it shows its result.
    Ended(CallResult),
    Shown,
}

impl Future for EmbeddedCall {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        match std::mem::replace(&mut self.progress, Progress::Shown) {
            Progress::New if self.link.is_stepped() => {
                self.progress = Progress::Stepped;
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            Progress::New => {
                let begun = self.link.with(|state| state.begin(self.link.id(), self.plane, &self.call));
                match begun {
                    Begun::Ended(result) => Poll::Ready(result),
                    Begun::Waits(id) => self.wait(id, cx),
                }
            }
            Progress::Stepped => {
                let begun = self.link.with(|state| state.begin(self.link.id(), self.plane, &self.call));
                match begun {
                    Begun::Ended(result) => {
                        self.progress = Progress::Ended(result);
                        cx.waker().wake_by_ref();
                        Poll::Pending
                    }
                    Begun::Waits(id) => self.wait(id, cx),
                }
            }
            Progress::Waits(id) => self.wait(id, cx),
            Progress::Ended(result) => Poll::Ready(result),
            Progress::Shown => panic!("a call was polled after it had ended"),
        }
    }
}

impl EmbeddedCall {
    /// A call that is sent when it is first polled.
    pub(crate) const fn new(link: EmbeddedLink, plane: Plane, call: Call) -> Self {
        Self { link, plane, call, progress: Progress::New }
    }

    fn wait(&mut self, id: CallId, cx: &mut Context<'_>) -> Poll<CallResult> {
        let mut waker = Some(cx.waker().clone());
        match self.link.with(|state| state.poll_waiting(id, &mut waker)) {
            Ok(result) => Poll::Ready(result),
            Err(NotYet) => {
                self.progress = Progress::Waits(id);
                Poll::Pending
            }
        }
    }
}

impl Drop for EmbeddedCall {
    fn drop(&mut self) {
        if let Progress::Waits(id) = self.progress {
            drop(self.link.with(|state| state.forget_waiting(id)));
        }
    }
}
