//! A background without a thread, for clocks that a test moves by hand.
//!
//! The embedded engine answers at once, or at an instant of its clock, so a background on it never waits for anything but the clock. It is polled whenever
//! the clock moves, and whenever a client on that clock has given its background something to do.

#[cfg(all(test, leasehold_loom))]
mod interleavings;

use crate::client_inner::ClientInner;
use crate::sync::{AtomicBool, Mutex};
use futures_util::future::BoxFuture;
use leasehold_embedded::ManualClock;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Wake, Waker};

/// Runs the background of `inner` at each step of `clock`.
pub(crate) fn start(inner: &Arc<ClientInner>, clock: &ManualClock) {
    let pump = Arc::new(Pump { background: Mutex::new(None), woken: Arc::new(Flag(AtomicBool::new(true))) });
    let driven = pump.clone();
    let step: Arc<dyn Fn() + Send + Sync> = Arc::new(move || driven.run());
    clock.on_step(Arc::downgrade(&step));
    let background = inner.clone();
    *pump.background.lock() = Some(Box::pin(async move {
        super::run(background).await;
        // The callback lives as long as the background does.
        drop(step);
    }));
    pump.run();
}

struct Pump {
    background: Mutex<Option<BoxFuture<'static, ()>>>,
    woken: Arc<Flag>,
}

impl Pump {
    /// Polls the background until it has nothing left to do. If it is being polled already, that poll goes on for this one.
    fn run(&self) {
        let waker = Waker::from(self.woken.clone());
        let mut cx = Context::from_waker(&waker);
        while self.woken.is_set() {
            let Some(mut background) = self.background.try_lock() else { return };
            self.woken.0.swap(false, Ordering::AcqRel);
            let over = background.as_mut().is_some_and(|future| future.as_mut().poll(&mut cx).is_ready());
            if over {
                // Its contents may run code of their own when they are dropped.
                let ended = background.take();
                drop(background);
                drop(ended);
                return;
            }
        }
    }
}

struct Flag(AtomicBool);

impl Flag {
    /// Whether it is set, as the last thread has left it. A plain load may still see what it was before: the thread that polls would go, and
    /// the one that has just set it, and cannot poll meanwhile, would rely on that thread.
    fn is_set(&self) -> bool {
        self.0.fetch_or(false, Ordering::AcqRel)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.swap(true, Ordering::AcqRel);
    }
}
