//! A lock from beginning to end: taken, re-entered, renewed far beyond its lease, and handed over to a waiter.
//!
//! `cargo run --example quickstart`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example quickstart`.

#![expect(clippy::print_stdout, reason = "an example tells its story on stdout")]

mod support;

use leasehold::Error;
use std::time::{Duration, Instant};
use support::Stage;

/// Short, so that the story is. The default is 30 seconds.
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
    stage.tell(format_args!("A has re-entered it: hold count {}", again.hold_count()));
    assert_eq!(again.hold_count(), 2, "a re-entry adds one");
    again.release().await?;
    stage.tell(format_args!("A has left the inner part: hold count {}", guard.hold_count()));
    assert_eq!(guard.hold_count(), 1, "a release takes one away");

    let wanted = b.lock("stock:1001");
    assert!(wanted.try_acquire().await?.is_none(), "A holds it");
    stage.tell("B has tried to take it and was told that it is busy, which is no error");
    let waiter = tokio::spawn(async move {
        let guard = wanted.acquire().wait(LEASE * 30).await?;
        let granted = Instant::now();
        guard.release().await?;
        Ok::<_, Error>(granted)
    });
    stage.tell("B waits for it, without asking again and again");

    for _ in 0..3 {
        tokio::time::sleep(LEASE).await;
        let left = guard.remaining();
        stage.tell(format_args!("A works; the lease was renewed and has {} ms left", left.as_millis()));
        assert!(guard.is_held(), "the lease is renewed in the background");
    }

    let holder = stock.inspect().await?.expect("A holds it");
    stage.tell(format_args!("the server says: held {} time by {}", holder.hold_count, holder.id));
    assert!(holder.id.is_of(&a.id()), "the holder's name begins with its client's");

    let releasing = Instant::now();
    guard.release().await?;
    stage.tell("A has released it, and the server says that A held it to the end");
    let granted = waiter.await??;
    let gap = granted.saturating_duration_since(releasing);
    stage.tell(format_args!("B was woken by the release notice and held it {gap:.1?} after A let go"));
    assert!(gap < LEASE / 2, "a notice wakes B, and not the end of a lease");

    a.shutdown(Duration::from_secs(5)).await?;
    b.shutdown(Duration::from_secs(5)).await?;
    stage.tell("both clients are shut down; nothing is left on the server");
    Ok(())
}
