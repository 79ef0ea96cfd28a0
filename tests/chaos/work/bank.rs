//! The witnesses: money that moves between accounts, and articles that are sold, both under fencing tokens.

use super::{ACCOUNTS, ARTICLES, BANKS, Bench, Claim, DELIVERY, Manner, Till, acquire, end, hold};
use crate::history::Rule;
use crate::store::Fence;
use fastrand::Rng;
use leasehold::Guard;
use leasehold::kind::{Fenced, FencedFair};
use std::sync::Arc;
use std::time::Duration;

/// Moves money between two accounts of a bank, again and again. The sum of a bank never changes.
pub(super) async fn transfers(bench: Arc<Bench>, mut rng: Rng) {
    let mut till = Till::open(&bench).await;
    while !bench.is_resting() {
        let bank = format!("bank:{}", rng.u32(0..BANKS));
        let lock = bench.client.fenced_lock(&bank);
        let manner = Manner::any(&mut rng);
        let token = |guard: &Guard<Fenced>| guard.fencing_token().as_u64();
        let asked = acquire(&bench, (Rule::Alone, 1), &lock, |asked| asked, &manner, token);
        if let Some((op, guard)) = asked.await {
            let (token, holder) = (guard.fencing_token().as_u64(), guard.holder_id().into_string());
            let claim = Claim { fence: Fence::Full, group: &bank, token, holder };
            // The careless do not ask whether they still hold the lock. The store does.
            let careless = rng.u32(0..3) == 0;
            let work = async {
                let Some(read) = till.read(&claim).await else { return };
                tokio::time::sleep(Duration::from_millis(rng.u64(0..30))).await;
                let from = rng.usize(0..ACCOUNTS as usize);
                let to = (from + rng.usize(1..ACCOUNTS as usize)) % ACCOUNTS as usize;
                let amount = rng.i64(1..50);
                let changed = [(from, read.values[from] - amount), (to, read.values[to] + amount)];
                if till.write(&claim, &read, 0, &changed).await {
                    bench.journal.stored(op);
                }
            };
            let done = if careless {
                work.await;
                true
            } else {
                hold(&bench, op, &guard, work).await.is_some()
            };
            end(&bench, op, guard, &mut rng).await;
            if !done {
                // A request may be under way whose answer is never read.
                till = Till::open(&bench).await;
            }
        }
        bench.think(&mut rng, 60).await;
    }
}

/// Sells articles one by one, in the order in which the buyers come. Sold-out goods are delivered anew.
pub(super) async fn sales(bench: Arc<Bench>, mut rng: Rng) {
    let mut till = Till::open(&bench).await;
    while !bench.is_resting() {
        let article = format!("stock:{}", rng.u32(0..ARTICLES));
        let lock = bench.client.fair_lock(&article).fenced();
        let manner = Manner::any(&mut rng);
        let token = |guard: &Guard<FencedFair>| guard.fencing_token().as_u64();
        if let Some((op, guard)) = acquire(&bench, (Rule::Alone, 1), &lock, |asked| asked, &manner, token).await {
            let (token, holder) = (guard.fencing_token().as_u64(), guard.holder_id().into_string());
            let claim = Claim { fence: Fence::Full, group: &article, token, holder };
            let work = async {
                let Some(read) = till.read(&claim).await else { return };
                tokio::time::sleep(Duration::from_millis(rng.u64(0..20))).await;
                let (stocked, left) = if read.values[0] > 0 { (0, read.values[0] - 1) } else { (DELIVERY, DELIVERY) };
                if till.write(&claim, &read, stocked, &[(0, left)]).await && stocked == 0 {
                    bench.journal.stored(op);
                }
            };
            let done = hold(&bench, op, &guard, work).await;
            end(&bench, op, guard, &mut rng).await;
            if done.is_none() {
                till = Till::open(&bench).await;
            }
        }
        bench.think(&mut rng, 60).await;
    }
}
