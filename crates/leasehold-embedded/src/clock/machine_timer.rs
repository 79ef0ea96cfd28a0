//! Timers on the machine's clock.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;

/// A thread that sleeps until the next timer. Starts with the first timer, and ends with the last handle.
#[derive(Clone, Default)]
pub(crate) struct MachineTimer {
    /// `None` if the operating system cannot create a thread.
    thread: Arc<OnceLock<Option<Sender<Timer>>>>,
}

/// A waker and its instant.
type Timer = (Instant, Waker);

impl MachineTimer {
    /// Returns whether the thread exists or can be created.
    pub(crate) fn is_there(&self) -> bool {
        self.thread().is_some()
    }

    /// Wakes at `instant`.
    pub(crate) fn wake_at(&self, instant: Instant, waker: Waker) {
        if let Some(thread) = self.thread() {
            // The thread lives as long as this handle.
            let _ = thread.send((instant, waker));
        }
    }

    fn thread(&self) -> Option<&Sender<Timer>> {
        let start = || {
            let (sender, inbox) = channel();
            let thread = std::thread::Builder::new().name("leasehold-embedded".to_owned());
            thread.spawn(move || run(&inbox)).ok().map(|_detached| sender)
        };
        self.thread.get_or_init(start).as_ref()
    }
}

fn run(inbox: &Receiver<Timer>) {
    let mut timers: BTreeMap<Instant, Vec<Waker>> = BTreeMap::new();
    loop {
        let received = match timers.first_key_value() {
            Some((next, _)) => inbox.recv_timeout(next.saturating_duration_since(Instant::now())),
            None => inbox.recv().map_err(RecvTimeoutError::from),
        };
        match received {
            Ok((instant, waker)) => timers.entry(instant).or_default().push(waker),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let now = Instant::now();
        while let Some(first) = timers.first_entry().filter(|first| *first.key() <= now) {
            for waker in first.remove() {
                // A waker may panic, but must not end the thread.
                let _panic = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            }
        }
    }
}
