//! Delivers messages in transit when the clock wakes the server.

use crate::server::EmbeddedServer;
use crate::server::state::State;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::task::{Wake, Waker};

/// Delivers due messages when the clock wakes it. Does not keep the server alive.
pub(super) struct Courier(Weak<Mutex<State>>);

impl Courier {
    pub(super) fn waker(server: &Arc<Mutex<State>>) -> Waker {
        Waker::from(Arc::new(Self(Arc::downgrade(server))))
    }
}

impl Wake for Courier {
    fn wake(self: Arc<Self>) {
        let Some(server) = self.0.upgrade().map(|state| EmbeddedServer { state }) else { return };
        let woken = server.locked(|state| state.transit.alarm_rang()).1;
        for waker in woken {
            // A panicking waker must not stop other wake-ups or the clock.
            let _panic = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}
