//! Locks of several: all of some on one place, and a majority of servers that know nothing of each other.

use super::held::{ask, no_token};
use super::{Bench, Manner, acquire, end, hold};
use crate::client::UNREACHABLE;
use crate::history::{Rule, SEVERAL, Wish};
use fastrand::Rng;
use leasehold::{MultiLock, QuorumLock};
use std::future::IntoFuture as _;
use std::sync::Arc;
use std::time::Duration;

/// The things that are locked together: as locks of their own, and as what falls on stripes.
const THINGS: [&str; 3] = ["multi:0", "multi:1", "multi:2"];

/// Two things at once, in any order, beside those who take one of them alone.
pub(super) async fn several(bench: Arc<Bench>, mut rng: Rng) {
    let stripes = bench.client.striped_lock("stripes", 3);
    while !bench.is_resting() {
        let mut things = THINGS;
        rng.shuffle(&mut things);
        let (first, both) = (things[0], &things[..2]);
        let manner = Manner::any(&mut rng);
        let work = tokio::time::sleep(Duration::from_millis(rng.u64(0..60)));
        let striped = rng.bool();
        if rng.bool() {
            let lock = if striped { stripes.of(first) } else { bench.client.lock(first) };
            if let Some((op, guard)) = acquire(&bench, (Rule::Alone, 1), &lock, |asked| asked, &manner, no_token).await
            {
                hold(&bench, op, &guard, work).await;
                end(&bench, op, guard, &mut rng).await;
            }
        } else {
            let members = both.iter().map(|thing| bench.client.lock(thing));
            let lock = if striped { stripes.all_of(both) } else { MultiLock::new(members) };
            // Each of its members may take as long to answer as a single lock.
            let bound = manner.bound().map(|bound| bound.saturating_add(UNREACHABLE));
            let wish = Wish { lock: lock.name().replace(" + ", SEVERAL), rule: Rule::Alone, share: 1, bound };
            let asked = |wait: Option<Duration>| match wait {
                Some(wait) => lock.acquire().wait(wait).into_future(),
                None => lock.acquire().into_future(),
            };
            if let Some((op, guard)) = ask(&bench, &wish, &manner, asked, no_token).await {
                hold(&bench, op, &guard, work).await;
                end(&bench, op, guard, &mut rng).await;
            }
        }
        bench.think(&mut rng, 60).await;
    }
}

/// Locks on a majority of the servers, renewed and with fixed leases.
pub(super) async fn majorities(bench: Arc<Bench>, mut rng: Rng) {
    while !bench.is_resting() {
        let lock = QuorumLock::new(bench.clients.clone(), format!("quorum:{}", rng.u32(0..4)));
        let manner = Manner::any(&mut rng);
        let fixed = (rng.u32(0..5) == 0).then(|| Duration::from_millis(rng.u64(100..1_500)));
        let asked = |wait: Option<Duration>| {
            let mut asked = lock.acquire();
            if let Some(wait) = wait {
                asked = asked.wait(wait);
            }
            if let Some(lease) = fixed {
                asked = asked.lease(lease);
            }
            asked.into_future()
        };
        let wish = Wish { lock: lock.name().to_owned(), rule: Rule::Alone, share: 1, bound: manner.bound() };
        if let Some((op, guard)) = ask(&bench, &wish, &manner, asked, no_token).await {
            // Now and then for longer than a lease.
            let most = if rng.u32(0..20) == 0 { 4_000 } else { 80 };
            hold(&bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..most)))).await;
            end(&bench, op, guard, &mut rng).await;
        }
        bench.think(&mut rng, 60).await;
    }
}
