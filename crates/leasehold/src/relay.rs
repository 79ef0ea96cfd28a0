//! A waker of our own between a task and the session.

use futures_util::task::AtomicWaker;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

/// Gives futures a waker that hands on to that of their task.
///
/// A task's waker is foreign code: its clone or drop may run an executor's code, and drop a task with guards in it, which take the lock of
/// their session. So no session ever has one. It has clones of ours, the last of which is dropped here: **a relay is dropped after the
/// future that it runs**, which takes back what it left in the session.
pub(crate) struct Relay {
    task: Arc<Task>,
    waker: Waker,
}

impl Relay {
    pub(crate) fn new() -> Self {
        let task = Arc::new(Task(AtomicWaker::new()));
        let waker = Waker::from(task.clone());
        Self { task, waker }
    }

    /// Polls `work` with the waker of this relay. It is borrowed, so that no future has it twice.
    pub(crate) async fn run<T>(&self, mut work: Pin<&mut impl Future<Output = T>>) -> T {
        poll_fn(|cx| {
            self.task.0.register(cx.waker());
            work.as_mut().poll(&mut Context::from_waker(&self.waker))
        })
        .await
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
