//! The future of a reply.

use crate::link::EmbeddedLink;
use crate::server::delivery::NotYet;
use crate::server::in_flight::{CallId, CallResult};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The call is on its way, and its reply is yet to come.
pub(crate) struct ReplyFuture {
    link: EmbeddedLink,
    /// `None` once the reply is shown.
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
