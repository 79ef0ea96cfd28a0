//! Two processes that release their locks when they end: a service that awaits `shutdown`, and a cron job without a
//! runtime.
//!
//! `cargo run --example graceful_shutdown`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example graceful_shutdown`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

mod support;

use leasehold::Error;
use leasehold::blocking::wait;
use std::time::{Duration, Instant};
use support::{Place, Stage};
use tokio::sync::oneshot;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stage = Stage::open("A service and a cron job end, and leave no lock behind.");
    service(&stage)?;
    cron_job(&stage)
}

/// A service on tokio. In a separate program this is `main`.
#[tokio::main]
async fn service(stage: &Stage) -> Result<(), Box<dyn std::error::Error>> {
    let client = stage.client(stage.builder()).await?;
    let neighbour = stage.client(stage.builder()).await?;

    let reports = client.lock("reports").acquire().await?;
    let (stop, told) = oneshot::channel::<()>();
    let job = tokio::spawn({
        // Move the guard into the job, which stops at a suitable point after the signal.
        async move {
            drop(told.await);
            let held = reports.is_held();
            (held, reports.release().await)
        }
    });
    let orders = neighbour.lock("orders").acquire().await?;
    let waiter = tokio::spawn(client.lock("orders").acquire().into_future());
    stage.tell("the service holds \"reports\" and waits for \"orders\", which a neighbour holds");
    while client.stats().requests == 0 {
        tokio::task::yield_now().await;
    }

    // Here a service would wait for a signal, and stop its server.
    stage.tell("the service stops: it signals its job, and awaits client.shutdown(…), which waits for the job");
    drop(stop);
    client.shutdown(Duration::from_secs(5)).await?;

    let (held, release) = job.await?;
    stage.tell("its job ended under the lock, which it released");
    assert!(held && release.is_ok());
    let told = waiter.await?.expect_err("a client in shutdown grants no lock");
    stage.tell(format_args!("its waiter fails: {told}"));
    assert!(matches!(told, Error::ShutDown { .. }));
    assert_eq!(neighbour.lock("reports").inspect().await?, None, "shutdown waits for the release");
    stage.tell("\"reports\" is free on the server, long before the end of its lease of 30 s");

    orders.release().await?;
    neighbour.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// A job without a runtime, which returns from `main`.
fn cron_job(stage: &Stage) -> Result<(), Box<dyn std::error::Error>> {
    let client = thread_client(stage)?;
    let Some(guard) = wait(client.lock("nightly").try_acquire())? else {
        stage.tell("another machine runs the nightly job");
        return Ok(());
    };
    stage.tell("the cron job holds \"nightly\" and works");
    std::thread::sleep(Duration::from_millis(100));
    assert!(guard.is_held());

    // The end of `main` drops guard and client, in reverse order.
    let begun = Instant::now();
    drop(guard);
    drop(client);
    let took = begun.elapsed();
    stage.tell(format_args!(
        "the cron job has ended; the last handle waited {took:.1?} for the release, and never more than 250 ms"
    ));

    let witness = thread_client(stage)?;
    // A drop that waited for the full 250 ms proves nothing about the release.
    let flushed = took < Duration::from_millis(250);
    assert!(
        !flushed || wait(witness.lock("nightly").inspect())?.is_none(),
        "the drop of the last handle flushes the release"
    );
    stage.tell("\"nightly\" is free on the server");
    wait(witness.shutdown(Duration::from_secs(5)))?;
    Ok(())
}

/// Creates a client for threads.
fn thread_client(stage: &Stage) -> Result<leasehold::Client, leasehold::ConnectError> {
    match &stage.place {
        Place::Server(url) => wait(stage.builder().connect(url)),
        Place::Process(server) => stage.builder().embedded(server),
    }
}
