//! A waker of our own between a task and the session.

use futures_util::task::AtomicWaker;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
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
        let task = Arc::new(Task { waker: AtomicWaker::new(), stage: AtomicU8::new(IDLE) });
        let waker = Waker::from(task.clone());
        Self { work, task, waker }
    }
}

impl<F: Future + Unpin> Future for Relayed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.task.waker.register(cx.waker());
        loop {
            this.task.stage.store(POLLED, Ordering::Release);
            let polled = Pin::new(&mut this.work).poll(&mut Context::from_waker(&this.waker));
            // The embedded engine may reply within the poll that sends the call.
            let woken = this.task.stage.swap(IDLE, Ordering::AcqRel) == WOKEN;
            if polled.is_ready() || !woken {
                return polled;
            }
        }
    }
}

/// The waker between the session and the task. A wake-up during a poll repeats the poll, without waking the task.
struct Task {
    waker: AtomicWaker,
    stage: AtomicU8,
}

/// Values of [`Task::stage`].
const IDLE: u8 = 0;
const POLLED: u8 = 1;
const WOKEN: u8 = 2;

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let stage = self.stage.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if stage == Err(IDLE) {
            self.waker.wake();
        }
    }
}
