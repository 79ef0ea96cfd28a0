//! A model of an inline background with work from several threads.

use super::*;
use loom::sync::atomic::AtomicU32;
use loom::thread;
use std::task::Poll;

#[test]
fn a_background_that_is_polled_elsewhere_sees_later_work() {
    loom::model(|| {
        let work = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
        let (asked, done) = (work.clone(), work.clone());
        let takes = std::future::poll_fn(move |_| {
            done.1.store(done.0.load(Ordering::Acquire), Ordering::Release);
            Poll::Pending
        });
        let pump = Arc::new(Pump {
            background: Mutex::new(Some(Box::pin(takes))),
            woken: Arc::new(Flag(AtomicBool::new(false))),
        });
        let give = |pump: &Pump, work: &(AtomicU32, AtomicU32)| {
            work.0.fetch_add(1, Ordering::AcqRel);
            pump.woken.clone().wake();
            pump.run();
        };
        let other = pump.clone();
        let gives = thread::spawn(move || give(&other, &asked));
        give(&pump, &work);
        gives.join().expect("its work is taken");
        assert_eq!(work.1.load(Ordering::Acquire), 2, "work waits until the clock is moved");
    });
}
