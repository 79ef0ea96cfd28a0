//! What has no lease: permits that are a bare counter, and latches. A killed process takes its permits with it, and a failover that forgets a
//! count leaves a latch closed. So the next ones take their place every few seconds, under a name that all processes know.

use super::held::no_token;
use super::{Bench, CAPACITY, Manner, acquire, end, hold, nanos};
use crate::check::{BARE, GENERATION};
use crate::history::{Rule, Wish};
use crate::moment::now;
use fastrand::Rng;
use leasehold::Error;
use std::sync::Arc;
use std::time::Duration;

/// A wait that ends.
fn bounded(rng: &mut Rng) -> Manner {
    match Manner::any(rng) {
        Manner::Patient => Manner::Wait(Duration::from_secs(2)),
        manner => manner,
    }
}

/// One permit at a time of a bare semaphore.
pub(super) async fn counters(bench: Arc<Bench>, mut rng: Rng) {
    while !bench.is_resting() {
        let semaphore = bench.client.bare_semaphore(format!("{BARE}{}", now() / GENERATION));
        if semaphore.try_set_permits(CAPACITY).await.is_ok() {
            let manner = bounded(&mut rng);
            let asked = acquire(&bench, (Rule::Permits, 1), &semaphore, |asked| asked, &manner, no_token);
            if let Some((op, guard)) = asked.await {
                hold(&bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..80)))).await;
                end(&bench, op, guard, &mut rng).await;
            }
        }
        bench.think(&mut rng, 80).await;
    }
}

/// Latches: some count down, all wait.
pub(super) async fn latches(bench: Arc<Bench>, mut rng: Rng) {
    while !bench.is_resting() {
        let latch = bench.client.count_down_latch(format!("latch:{}", now() / GENERATION));
        if latch.try_set_count(3).await.is_ok() {
            if rng.bool() {
                // One that fails may have counted.
                drop(latch.count_down().await);
            }
            let bound = Duration::from_millis(rng.u64(0..2_000));
            let wish = Wish { lock: latch.name().to_owned(), rule: Rule::Open, share: 1, bound: Some(bound) };
            let op = bench.journal.invoked(&wish);
            match latch.opened().wait(bound).await {
                Ok(()) => {
                    let second = Duration::from_secs(1);
                    bench.journal.granted(op, now() + nanos(second), 0, "-");
                    bench.journal.ending(op, second);
                    bench.journal.ended(op, "ok");
                }
                Err(error @ Error::WaitElapsed { .. }) => bench.journal.refused(op, super::held::word(&error)),
                Err(error) => {
                    bench.journal.refused(op, super::held::word(&error));
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
        bench.think(&mut rng, 200).await;
    }
}
