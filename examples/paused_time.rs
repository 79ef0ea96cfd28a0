//! Tests of code with locks, without waits and without a server.
//!
//! `cargo run --example paused_time`.
//!
//! The engine, the clients and the test share a clock. tokio's paused clock advances whenever all tasks sleep; a test
//! advances a manual clock. An hour of renewals takes a few milliseconds, and the outcome is deterministic.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

use leasehold::embedded::{EmbeddedServer, ManualClock};
use leasehold::{Client, LossReason};
use std::error::Error;
use std::time::Duration;

type Story = Result<(), Box<dyn Error>>;

/// The code under test: a job that takes an hour, under a lock.
async fn job(client: &Client) -> Result<&'static str, leasehold::Error> {
    let guard = client.lock("job").acquire().await?;
    guard.run(tokio::time::sleep(Duration::from_secs(3_600))).await?;
    guard.release().await?;
    Ok("done")
}

/// Uses tokio's paused clock. In your own test, write `#[tokio::test(start_paused = true)]`.
async fn under_tokios_clock() -> Story {
    let zero = tokio::time::Instant::now();
    let server = EmbeddedServer::paused();
    let client = || Client::builder().embedded(&server);
    let (one, other) = (client()?, client()?);

    // Two workers want the same job, and run it in sequence.
    let (first, second) = tokio::join!(job(&one), job(&other));
    assert_eq!((first?, second?), ("done", "done"));
    assert!(zero.elapsed() >= Duration::from_secs(7_200));
    println!("two jobs of an hour in sequence: {} hours by the clock", zero.elapsed().as_secs() / 3_600);

    // A lease without renewals ends on time.
    let guard = one.lock("report").acquire().lease(Duration::from_secs(10)).await?;
    let begun = zero.elapsed();
    assert_eq!(guard.lost().await.reason(), LossReason::LeaseExpired);
    println!("a lease of ten seconds was lost after {:?}", zero.elapsed() - begun);
    Ok(())
}

/// Uses a manual clock, without a runtime.
async fn under_a_manual_clock() -> Story {
    let clock = ManualClock::new();
    let server = EmbeddedServer::with_clock(clock.clone());
    let client = Client::builder().embedded(&server)?;

    let guard = client.lock("report").acquire().await?;
    clock.advance(Duration::from_secs(24 * 3_600));
    assert!(guard.is_held());
    println!("a day later the lock is still held, after many renewals");

    server.set_down(true);
    clock.advance(Duration::from_secs(31));
    assert!(!guard.is_held());
    println!("half a minute without a server, and the lock is lost: {}", guard.lost().await);
    Ok(())
}

fn main() -> Story {
    let begun = std::time::Instant::now();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(under_tokios_clock())?;
    runtime.block_on(under_a_manual_clock())?;
    assert!(begun.elapsed() < Duration::from_secs(30));
    println!("all examples took {:?}", begun.elapsed());
    Ok(())
}
