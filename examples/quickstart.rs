//! The life of one lock: acquired, re-entered, renewed far beyond its lease, and released to a waiter.
//!
//! `cargo run --example quickstart`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example quickstart`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

mod support;

use leasehold::Error;
use std::time::{Duration, Instant};
use support::Stage;

/// Short, to show renewals within seconds. The default is 30 seconds.
const LEASE: Duration = Duration::from_secs(1);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stage = Stage::open("Two clients, A and B, want the same lock.");
    // Two clients exclude each other as two processes would.
    let a = stage.client(stage.builder().lease(LEASE)).await?;
    let b = stage.client(stage.builder().lease(LEASE)).await?;

    let stock = a.lock("stock:1001");
    let guard = stock.acquire().await?;
    stage.tell(format_args!("A holds the lock, with a lease of {LEASE:?}"));

    let again = guard.reenter().await?;
    stage.tell(format_args!("A re-enters the lock: hold count {}", again.hold_count()));
    assert_eq!(again.hold_count(), 2, "a re-entry increments the hold count");
    again.release().await?;
    stage.tell(format_args!("A releases the inner guard: hold count {}", guard.hold_count()));
    assert_eq!(guard.hold_count(), 1, "a release decrements the hold count");

    let wanted = b.lock("stock:1001");
    assert!(wanted.try_acquire().await?.is_none(), "A holds it");
    stage.tell("B tries the lock: busy, which is not an error");
    let waiter = tokio::spawn(async move {
        let guard = wanted.acquire().wait(LEASE * 30).await?;
        let granted = Instant::now();
        guard.release().await?;
        Ok::<_, Error>(granted)
    });
    stage.tell("B waits for the release notice, without polling");

    for _ in 0..3 {
        tokio::time::sleep(LEASE).await;
        let left = guard.remaining();
        stage.tell(format_args!("A works; the lease was renewed, {} ms left", left.as_millis()));
        assert!(guard.is_held(), "the lease is renewed in the background");
    }

    let holder = stock.inspect().await?.expect("A holds it");
    stage.tell(format_args!("the server shows the holder {}, hold count {}", holder.id, holder.hold_count));
    assert!(holder.id.is_of(&a.id()), "a holder's id starts with the id of its client");

    let releasing = Instant::now();
    guard.release().await?;
    stage.tell("A releases the lock; `Ok` proves that A held it to the end");
    let granted = waiter.await??;
    let gap = granted.saturating_duration_since(releasing);
    stage.tell(format_args!("the release notice wakes B: granted after {} ms", gap.as_millis()));
    assert!(gap < LEASE / 2, "B gets the lock by the notice, not by the end of a lease");

    a.shutdown(Duration::from_secs(5)).await?;
    b.shutdown(Duration::from_secs(5)).await?;
    stage.tell("both clients are shut down; nothing is left on the server");
    Ok(())
}
