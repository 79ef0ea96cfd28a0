//! A job keeps its lock for five times its lease, even while it blocks its executor. It stops when an operator force-releases the lock.
//!
//! `cargo run --example long_job`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example long_job`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

mod support;

use leasehold::{Guard, LossReason};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};
use support::Stage;

/// Short, to show renewals within seconds. The default is 30 seconds.
const LEASE: Duration = Duration::from_secs(1);
/// The number of worker threads of the executor. The job blocks all of them.
const WORKERS: usize = 2;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stage = Arc::new(Stage::open("A long job holds a lock, and blocks every thread of its executor."));
    let worker = stage.client(stage.builder().lease(LEASE)).await?;
    let operator = stage.client(stage.builder()).await?;

    let guard = worker.lock("nightly-report").acquire().await?;
    stage.tell(format_args!("the job holds its lock, with a lease of {LEASE:?}"));

    // The job runs on a worker thread of the executor, under the guard.
    let begun = Instant::now();
    let (telling, watching) = (stage.clone(), operator.lock("nightly-report"));
    let job = tokio::spawn(async move {
        guard.run(long_job(&telling)).await?;
        assert!(guard.is_held(), "the background renewed the lock");
        let holder = watching.inspect().await.expect("the server answers").expect("the job holds the lock");
        telling.tell(format_args!("the server agrees: holder {}, hold count {}", holder.id, holder.hold_count));
        Ok::<Guard, leasehold::Lost>(guard)
    });
    let guard = job.await??;
    let took = begun.elapsed();
    stage.tell(format_args!("the job took {took:.1?} under a lease of {LEASE:?} and kept its lock"));
    assert!(took >= LEASE * 5, "the job outlives its lease");

    stage.tell("the job starts again, without an end");
    let steps = Arc::new(AtomicUsize::new(0));
    let counted = steps.clone();
    let job = tokio::spawn(async move {
        guard
            .run(async {
                loop {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    counted.fetch_add(1, Ordering::SeqCst);
                }
            })
            .await
    });
    tokio::time::sleep(LEASE).await;
    let seen = operator.lock("nightly-report").force_release().await?.expect("the job holds the lock");
    stage.tell(format_args!("the operator has force-released the lock of {}", seen.id));

    let lost = match job.await? {
        Err(lost) => lost,
        Ok(endless) => endless,
    };
    stage.tell(format_args!("the job was stopped: {lost}"));
    assert_eq!(lost.reason(), LossReason::Removed, "the next renewal detects the reason");
    let stopped_at = steps.load(Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(steps.load(Ordering::SeqCst), stopped_at, "the job is not polled again");
    stage.tell(format_args!("the job made {stopped_at} steps, and no further step"));

    worker.shutdown(Duration::from_secs(5)).await?;
    operator.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// Five leases of work. During two of them every worker thread is blocked, so no task of the executor runs.
async fn long_job(stage: &Stage) {
    tokio::time::sleep(LEASE).await;
    stage.tell("the job reads its input, as async code should");

    stage.tell(format_args!("the job blocks all {WORKERS} worker threads for {:?}", LEASE * 2));
    let all_blocked = Arc::new(Barrier::new(WORKERS));
    let blocking: Vec<_> = std::iter::repeat_with(|| {
        let all_blocked = all_blocked.clone();
        tokio::spawn(async move {
            // Each task blocks one worker thread, so all threads are blocked once every task arrives.
            all_blocked.wait();
            std::thread::sleep(LEASE * 2);
        })
    })
    .take(WORKERS)
    .collect();
    for blocked in blocking {
        blocked.await.expect("the task does not panic");
    }
    stage.tell("the executor runs again; a task of this executor could not have renewed the lease");

    tokio::time::sleep(LEASE * 2).await;
    stage.tell("the job writes its output");
}
