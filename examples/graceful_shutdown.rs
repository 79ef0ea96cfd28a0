//! Ending a process without leaving a lock behind: a service that awaits `shutdown`, and a cron job without a runtime.
//!
//! `cargo run --example graceful_shutdown`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example graceful_shutdown`.

#![expect(clippy::print_stdout, reason = "an example tells its story on stdout")]

mod support;

use leasehold::{Error, HoldEnd, LossReason, blocking};
use std::time::{Duration, Instant};
use support::{Place, Stage};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stage = Stage::open("A service and a cron job end, and leave no lock behind.");
    service(&stage)?;
    cron_job(&stage)
}

/// A service on tokio. In a program of its own this is `main`.
#[tokio::main]
async fn service(stage: &Stage) -> Result<(), Box<dyn std::error::Error>> {
    let client = stage.client(stage.builder()).await?;
    let neighbour = stage.client(stage.builder()).await?;

    let reports = client.lock("reports").acquire().await?;
    let job = tokio::spawn({
        // The guard moves into the job; the token tells the job when to stop.
        let ended = reports.cancellation_token();
        async move {
            let end = ended.cancelled().await;
            (end, reports.release().await)
        }
    });
    let orders = neighbour.lock("orders").acquire().await?;
    let waiter = tokio::spawn(client.lock("orders").acquire().into_future());
    stage.tell("the service holds \"reports\" and waits for \"orders\", which a neighbour holds");
    while client.stats().requests == 0 {
        tokio::task::yield_now().await;
    }

    // Here a service would wait for a signal.
    stage.tell("the service is told to stop, and awaits client.shutdown(…)");
    client.shutdown(Duration::from_secs(5)).await?;

    let (end, release) = job.await?;
    stage.tell(format_args!("its job was told: {end}"));
    assert_eq!(end, HoldEnd::Lost(LossReason::ShutDown));
    assert!(matches!(release, Err(Error::Lost { reason: LossReason::ShutDown, .. })), "and the release says so too");
    let told = waiter.await?.expect_err("a client that is shut down grants nothing");
    stage.tell(format_args!("its waiter was told: {told}"));
    assert!(matches!(told, Error::ShutDown { .. }));
    assert_eq!(neighbour.lock("reports").inspect().await?, None, "shutdown waits for the release");
    stage.tell("\"reports\" is free on the server, long before its lease of 30 s has run out");

    orders.release().await?;
    neighbour.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// A job without a runtime, which ends by returning from `main`.
fn cron_job(stage: &Stage) -> Result<(), Box<dyn std::error::Error>> {
    let client = thread_client(stage)?;
    let Some(guard) = client.lock("nightly").try_acquire()? else {
        stage.tell("another machine runs the nightly job");
        return Ok(());
    };
    stage.tell("the cron job holds \"nightly\" and works");
    std::thread::sleep(Duration::from_millis(100));
    assert!(guard.is_held());

    // At the end of `main` both are dropped, in the reverse order.
    let begun = Instant::now();
    drop(guard);
    drop(client);
    let took = begun.elapsed();
    stage.tell(format_args!(
        "it has ended; the last handle waited {took:.1?} for the release, and never more than 250 ms"
    ));

    let witness = thread_client(stage)?;
    // A drop that has waited for as long as it may says nothing about the release.
    let flushed = took < Duration::from_millis(250);
    assert!(
        !flushed || witness.lock("nightly").inspect()?.is_none(),
        "the drop of the last handle flushes the release"
    );
    stage.tell("\"nightly\" is free on the server");
    witness.shutdown(Duration::from_secs(5))?;
    Ok(())
}

/// A client for threads.
fn thread_client(stage: &Stage) -> Result<blocking::Client, leasehold::ConnectError> {
    match &stage.place {
        Place::Server(url) => blocking::Client::build(stage.builder(), url),
        Place::Process(server) => Ok(blocking::Client::from(stage.builder().embedded(server)?)),
    }
}
