//! Locks that guard nothing but their own exclusion: whose holders believe what, and when.

use super::held::{Held as _, no_token, word};
use super::{Bench, CAPACITY, Manner, acquire, end, hold, nanos};
use crate::client::LEASE;
use crate::history::{Rule, Wish};
use crate::moment::now;
use fastrand::Rng;
use leasehold::kind::{LockKind, Reentrant};
use leasehold::{Acquire, Lock};
use std::sync::Arc;
use std::time::Duration;

/// Plain locks: renewed and with fixed leases, re-entered, released, dropped, and given up.
pub(super) async fn locks(bench: Arc<Bench>, mut rng: Rng) {
    while !bench.is_resting() {
        let lock = bench.client.lock(format!("plain:{}", rng.u32(0..3)));
        let manner = Manner::any(&mut rng);
        let fixed = (rng.u32(0..5) == 0).then(|| Duration::from_millis(rng.u64(100..1_500)));
        let describe = |asked: Acquire<Reentrant>| match fixed {
            Some(lease) => asked.lease(lease),
            None => asked,
        };
        if let Some((op, guard)) = acquire(&bench, (Rule::Alone, 1), &lock, describe, &manner, no_token).await {
            let reenters = rng.u32(0..4) == 0;
            // Now and then for longer than a lease.
            let most = if rng.u32(0..20) == 0 { 2_500 } else { 60 };
            let pause = Duration::from_millis(rng.u64(0..most));
            // If the server is out of reach, a re-entry takes longer than the hold may last.
            let work = async {
                let _inner = if reenters { guard.reenter().await.ok() } else { None };
                tokio::time::sleep(pause).await;
            };
            hold(&bench, op, &guard, work).await;
            end(&bench, op, guard, &mut rng).await;
        }
        bench.think(&mut rng, 60).await;
    }
}

/// A fair lock without tokens, a simple lock with its fixed lease, and a spin lock.
pub(super) async fn others(bench: Arc<Bench>, mut rng: Rng) {
    let client = &bench.client;
    let (fair, simple, spin) =
        (client.fair_lock("fair:0"), client.simple_lock("simple:0", LEASE), client.spin_lock("spin:0"));
    while !bench.is_resting() {
        match rng.u32(0..4) {
            0 => once(&bench, &fair, |asked| asked, &mut rng).await,
            1 => once(&bench, &simple, |asked| asked, &mut rng).await,
            2 => once(&bench, &simple, Acquire::renewed, &mut rng).await,
            _ => once(&bench, &spin, |asked| asked, &mut rng).await,
        }
        bench.think(&mut rng, 60).await;
    }
}

async fn once<K: LockKind>(bench: &Bench, lock: &Lock<K>, describe: impl Fn(Acquire<K>) -> Acquire<K>, rng: &mut Rng) {
    let manner = Manner::any(rng);
    if let Some((op, guard)) = acquire(bench, (Rule::Alone, 1), lock, describe, &manner, no_token).await {
        hold(bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..60)))).await;
        end(bench, op, guard, rng).await;
    }
}

/// Both halves of a read-write lock; writers become readers now and then.
pub(super) async fn halves(bench: Arc<Bench>, mut rng: Rng) {
    while !bench.is_resting() {
        let lock = bench.client.read_write_lock("halves:0").prefer_writers();
        let manner = Manner::any(&mut rng);
        if rng.u32(0..3) > 0 {
            let read = acquire(&bench, (Rule::Read, 1), &lock.read(), |asked| asked, &manner, no_token).await;
            if let Some((op, guard)) = read {
                hold(&bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..50)))).await;
                end(&bench, op, guard, &mut rng).await;
            }
        } else {
            let write = acquire(&bench, (Rule::Write, 1), &lock.write(), |asked| asked, &manner, no_token).await;
            if let Some((op, guard)) = write {
                hold(&bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..30)))).await;
                let wish = Wish { lock: lock.read().name().to_owned(), rule: Rule::Read, share: 1, bound: None };
                let reading = if rng.u32(0..4) == 0 {
                    let read = bench.journal.invoked(&wish);
                    match guard.read().await {
                        Ok(guard) => Some((read, guard)),
                        Err(error) => {
                            bench.journal.refused(read, word(&error));
                            None
                        }
                    }
                } else {
                    None
                };
                end(&bench, op, guard, &mut rng).await;
                if let Some((op, guard)) = reading {
                    // From here on there is no writer, and others may read.
                    let at = now();
                    bench.journal.granted(op, at + nanos(guard.remaining()), no_token(&guard), &guard.hold());
                    hold(&bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..30)))).await;
                    end(&bench, op, guard, &mut rng).await;
                }
            }
        }
        bench.think(&mut rng, 80).await;
    }
}

/// Permits, one or two at a time. A server that has lost its data has lost the capacity, too: it is set again for as long as any task works
/// here, also while all wait.
pub(super) async fn permits(bench: Arc<Bench>, mut rng: Rng) {
    let semaphore = bench.client.semaphore("permits:0");
    let keeper = async {
        loop {
            // A failed operation is tried again.
            drop(semaphore.try_set_permits(CAPACITY).await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let worker = async {
        while !bench.is_resting() {
            let share = rng.u32(1..3);
            let manner = Manner::any(&mut rng);
            let describe = |asked: Acquire<leasehold::kind::Permit>| asked.permits(share);
            let asked = acquire(&bench, (Rule::Permits, share), &semaphore, describe, &manner, no_token).await;
            if let Some((op, guard)) = asked {
                hold(&bench, op, &guard, tokio::time::sleep(Duration::from_millis(rng.u64(0..80)))).await;
                end(&bench, op, guard, &mut rng).await;
            }
            bench.think(&mut rng, 60).await;
        }
    };
    tokio::select! {
        () = worker => {}
        () = keeper => {}
    }
}
