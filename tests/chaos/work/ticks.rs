//! Jobs of schedules: at every tick one process of all runs the job, and the others find it done or under way.

use super::held::{Held as _, hold, nanos, word};
use super::{Bench, TICK};
use crate::history::{Rule, Wish};
use crate::moment::now;
use fastrand::Rng;
use leasehold::once::{Occurrence, Period};
use leasehold::{Error, Guard, WithError};
use std::sync::Arc;
use std::time::Duration;

/// The time from one tick to the next.
const EVERY: Duration = Duration::from_millis(400);

/// How long the server knows that a job is done. The last process comes sooner, unless it is stopped.
const KEEP: Duration = Duration::from_secs(3);

/// How much sooner a process is certain of that, for clocks that do not go alike.
const MARGIN: Duration = Duration::from_millis(100);

/// Comes for the job of each tick of a schedule, a little late or early as timers are.
pub(super) async fn comes(bench: Arc<Bench>, number: u32, mut rng: Rng) {
    while !bench.is_resting() {
        let tick = now() / nanos(EVERY) + 2;
        let at = (tick * nanos(EVERY)).saturating_add_signed(rng.i64(-50_000_000..50_000_000));
        tokio::time::sleep(Duration::from_nanos(at.saturating_sub(now()))).await;
        come(&bench, &format!("{TICK}{number}"), tick, Duration::from_millis(rng.u64(0..300))).await;
    }
}

async fn come(bench: &Bench, name: &str, tick: u64, length: Duration) {
    let once = bench.client.once(name, Period::key(tick.to_string()).keep(KEEP));
    let wish = Wish { lock: once.lock().name().to_owned(), rule: Rule::Alone, share: 1, bound: None };
    let op = bench.journal.invoked(&wish);
    let job = async |guard: &Guard| {
        let at = now();
        bench.journal.granted(op, at + nanos(guard.remaining()), 0, &guard.hold());
        hold(bench, op, guard, tokio::time::sleep(length)).await.map(|()| now())
    };
    let journal = &bench.journal;
    match bench.brake.clone().on(once.run(job)).await {
        // The mark is made after the job, so it lasts at least until then.
        Ok(Occurrence::Ran(Some(done_at))) => journal.kept(op, done_at + nanos(KEEP - MARGIN)),
        Ok(Occurrence::AlreadyDone) => journal.refused(op, "done"),
        Ok(Occurrence::Elsewhere(_)) => journal.refused(op, "elsewhere"),
        Ok(Occurrence::Ran(None)) => ended(bench, op, "lost"),
        Err(WithError::NotAcquired(error)) => journal.refused(op, word(&error)),
        Err(WithError::Lost { reason, .. }) => {
            journal.lost(op, reason.as_str());
            ended(bench, op, "lost");
        }
        Err(error) => ended(bench, op, word(&Error::from(error))),
    }
}

/// The job was done or stopped, and it is not certain that the server knows of it.
fn ended(bench: &Bench, op: u64, how: &str) {
    bench.journal.ending(op, Duration::ZERO);
    bench.journal.ended(op, how);
}
