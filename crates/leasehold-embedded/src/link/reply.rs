//! Delivers replies to a future or to the session.

use crate::link::{EmbeddedLink, Inner};
use crate::server::delivery::NotYet;
use crate::server::in_flight::{CallId, CallResult};
use leasehold_core::link::Arrival;
use leasehold_core::session::CallId as SessionCall;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

/// A call in flight, as a future.
pub(crate) struct ReplyFuture {
    link: EmbeddedLink,
    /// `None` after the reply.
    id: Option<CallId>,
}

impl ReplyFuture {
    pub(crate) const fn new(link: EmbeddedLink, id: CallId) -> Self {
        Self { link, id: Some(id) }
    }
}

impl Future for ReplyFuture {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        let Some(id) = self.id else { panic!("a call was polled after it had ended") };
        let mut waker = Some(cx.waker().clone());
        match self.link.with(|state| state.poll_waiting(id, &mut waker)) {
            Ok(result) => {
                self.id = None;
                Poll::Ready(result)
            }
            Err(NotYet) => Poll::Pending,
        }
    }
}

impl Drop for ReplyFuture {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            drop(self.link.with(|state| state.forget_waiting(id)));
        }
    }
}

/// Delivers the reply to a session's call on wake-up.
pub(super) struct Answering {
    /// Weak, because a silent server must not keep the link alive.
    link: Weak<Inner>,
    waiting: CallId,
    id: SessionCall,
}

impl Answering {
    /// Starts waiting. Delivers an available reply at once.
    pub(super) fn begin(link: &Arc<Inner>, waiting: CallId, id: SessionCall) {
        Arc::new(Self { link: Arc::downgrade(link), waiting, id }).wake();
    }
}

impl Wake for Answering {
    fn wake(self: Arc<Self>) {
        let Some(inner) = self.link.upgrade() else { return };
        let mut waker = Some(Waker::from(Arc::clone(&self)));
        if let Ok(result) = inner.server.with(|state| state.poll_waiting(self.waiting, &mut waker))
            && let Some(receiver) = inner.receiver.get().and_then(Weak::upgrade)
        {
            receiver.receive(&mut vec![Arrival::Outcome(self.id, result)]);
        }
    }
}
