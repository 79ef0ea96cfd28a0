//! A future that a test polls by hand.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future with a waker that only takes notes.
pub(crate) struct Polled<'a, T> {
    future: Pin<Box<dyn Future<Output = T> + 'a>>,
    woken: Arc<Note>,
}

struct Note(AtomicBool);

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Release);
    }
}

impl<'a, T> Polled<'a, T> {
    pub(crate) fn new(future: impl Future<Output = T> + 'a) -> Self {
        Self { future: Box::pin(future), woken: Arc::new(Note(AtomicBool::new(true))) }
    }

    /// Polls once, wanted or not.
    pub(crate) fn poll(&mut self) -> Poll<T> {
        self.woken.0.store(false, Ordering::Release);
        let waker = Waker::from(self.woken.clone());
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    /// Whether it was woken since it was last polled, or was never polled.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Acquire)
    }
}
