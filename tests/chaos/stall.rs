//! A brake on the thread of the client's background, and on no other. The background wakes those who wait for a lock when it hears a notice;
//! their wakers are code of the application, and one of them takes its time.

use crate::client::Current;
use crate::moment::now;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

/// The brake of a client process.
pub(crate) struct Brake {
    /// For how long the next call of a waker by the background blocks; 0 for not at all.
    millis: AtomicU64,
    current: Current,
}

/// A waker that brakes, and wakes.
struct Braked {
    brake: Arc<Brake>,
    waker: Waker,
}

impl Brake {
    pub(crate) fn new(current: Current) -> Arc<Self> {
        Arc::new(Self { millis: AtomicU64::new(0), current })
    }

    /// Blocks the background when it calls a waker next.
    pub(crate) fn apply(&self, millis: u64) {
        self.millis.store(millis, Ordering::Release);
    }

    /// Polls a future with wakers that brake.
    pub(crate) async fn on<F: Future>(self: Arc<Self>, future: F) -> F::Output {
        let mut future = pin!(future);
        std::future::poll_fn(|context| {
            let waker = Waker::from(Arc::new(Braked { brake: self.clone(), waker: context.waker().clone() }));
            future.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    fn block(&self) {
        if std::thread::current().name() != Some("leasehold-background") {
            return;
        }
        let millis = self.millis.swap(0, Ordering::AcqRel);
        if millis > 0 {
            let from = now();
            std::thread::sleep(Duration::from_millis(millis));
            if let Some(bench) = &*self.current.lock().expect("nobody panics with it") {
                bench.journal.stuck(from);
            }
        }
    }
}

impl Wake for Braked {
    fn wake(self: Arc<Self>) {
        self.brake.block();
        self.waker.wake_by_ref();
    }
}
