//! A waker between a task and the session.

use futures_util::task::AtomicWaker;
use std::cell::Cell;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// A future that is polled with a waker of this crate, which forwards to the waker of its task.
///
/// A task's waker is user code: its clone or drop may run code of an executor, and drop a task with guards in it, which lock their
/// session. A session therefore stores clones of this waker. The last clone is dropped here, **after the future**, which removes
/// its entries from the session.
pub(crate) struct IsolatedWaker<F> {
    // Fields drop in this order: see above.
    work: F,
    waker: Waker,
    task: KeptTask,
}

impl<F> IsolatedWaker<F> {
    pub(crate) fn new(work: F) -> Self {
        let spare = SPARE.try_with(Cell::take).ok().flatten();
        let task = spare.unwrap_or_else(|| Arc::new(Task { waker: AtomicWaker::new(), stage: AtomicU8::new(IDLE) }));
        let waker = Waker::from(task.clone());
        Self { work, waker, task: KeptTask(task) }
    }
}

thread_local! {
    /// The task of the last future on this thread, for reuse.
    static SPARE: Cell<Option<Arc<Task>>> = const { Cell::new(None) };
}

/// A task that the thread keeps for its next future, unless a session still stores its waker.
struct KeptTask(Arc<Task>);

impl Drop for KeptTask {
    fn drop(&mut self) {
        drop(self.0.waker.take());
        if Arc::get_mut(&mut self.0).is_some() {
            let _ = SPARE.try_with(|spare| spare.set(Some(self.0.clone())));
        }
    }
}

impl<F: Future + Unpin> Future for IsolatedWaker<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.get_mut();
        this.task.0.waker.register(cx.waker());
        loop {
            this.task.0.stage.store(POLLED, Ordering::Release);
            let polled = Pin::new(&mut this.work).poll(&mut Context::from_waker(&this.waker));
            // The embedded engine may reply within the poll that sends the call.
            let woken = this.task.0.stage.swap(IDLE, Ordering::AcqRel) == WOKEN;
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
        let waker = self.note_woken();
        // The woken future can reuse the task only if this reference is gone.
        drop(self);
        waker.into_iter().for_each(Waker::wake);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.note_woken().into_iter().for_each(Waker::wake);
    }
}

impl Task {
    /// Records a wake-up. Returns the waker of the task, unless a current poll is repeated.
    fn note_woken(&self) -> Option<Waker> {
        let stage = self.stage.compare_exchange(POLLED, WOKEN, Ordering::AcqRel, Ordering::Acquire);
        if stage == Err(IDLE) { self.waker.take() } else { None }
    }
}
