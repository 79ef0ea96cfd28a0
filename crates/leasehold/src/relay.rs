//! A waker of our own between a task and the session.

use futures_util::task::AtomicWaker;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled with a waker of ours, which hands on to that of its task.
///
/// A task's waker is foreign code: its clone or drop may run an executor's code, and drop a task with guards in it, which take the lock of
/// their session. So no session ever has one. It has clones of ours, the last of which is dropped here, **after the future**, which takes back
/// what it left in the session.
pub(crate) struct Relayed<F> {
    // The order matters: fields are dropped from the first to the last.
    work: F,
    task: Arc<Task>,
    waker: Waker,
}

impl<F> Relayed<F> {
    pub(crate) fn new(work: F) -> Self {
        let task = Arc::new(Task(AtomicWaker::new()));
        let waker = Waker::from(task.clone());
        Self { work, task, waker }
    }
}

impl<F: Future + Unpin> Future for Relayed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.task.0.register(cx.waker());
        Pin::new(&mut this.work).poll(&mut Context::from_waker(&this.waker))
    }
}

struct Task(AtomicWaker);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.wake();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.wake();
    }
}
