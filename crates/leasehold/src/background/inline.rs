//! A background without a thread, for manual clocks.
//!
//! The embedded engine replies at once, or at an instant of its clock, so its background only waits for the clock. It is polled whenever the
//! clock advances, and whenever a client on that clock has work for its background.

#[cfg(all(test, leasehold_loom))]
mod interleavings;

use crate::client::inner::ClientInner;
use crate::runtime::sync::{AtomicBool, Mutex};
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
        // The callback lives as long as the background.
        drop(step);
    }));
    pump.run();
}

struct Pump {
    background: Mutex<Option<BoxFuture<'static, ()>>>,
    woken: Arc<Flag>,
}

impl Pump {
    /// Polls the background until it is idle. If another thread is polling it, that thread polls again.
    fn run(&self) {
        let waker = Waker::from(self.woken.clone());
        let mut cx = Context::from_waker(&waker);
        while self.woken.is_set() {
            let Some(mut background) = self.background.try_lock() else { return };
            self.woken.0.swap(false, Ordering::AcqRel);
            let over = background.as_mut().is_some_and(|future| future.as_mut().poll(&mut cx).is_ready());
            if over {
                // Dropping its contents may run user code.
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
    /// Reads the flag with a read-modify-write. A plain load may return an old value: the polling thread would stop, although the thread that has
    /// just set the flag relies on it.
    fn is_set(&self) -> bool {
        self.0.fetch_or(false, Ordering::AcqRel)
    }
}

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.swap(true, Ordering::AcqRel);
    }
}
