//! docs/tasks/tests.md: tests of code with locks, without a server and without waiting.

use leasehold::embedded::EmbeddedServer;
use leasehold::{Client, Error, LossReason};
use std::time::Duration;

/// The code under test: a one-hour job.
async fn job(client: &Client) -> Result<(), Error> {
    let guard = client.lock("job").acquire().await?;
    guard.run(tokio::time::sleep(Duration::from_secs(3_600))).await?;
    guard.release().await
}

#[tokio::test(start_paused = true)]
async fn two_jobs_run_one_after_the_other() {
    let start = tokio::time::Instant::now();
    let server = EmbeddedServer::paused();
    let one = Client::builder().embedded(&server).unwrap();
    let other = Client::builder().embedded(&server).unwrap();
    let (first, second) = tokio::join!(job(&one), job(&other));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert!(start.elapsed() >= Duration::from_secs(2 * 3_600)); // virtual time
}

#[tokio::test(start_paused = true)]
async fn job_stops_when_the_server_is_gone() {
    let server = EmbeddedServer::paused();
    let client = Client::builder().embedded(&server).unwrap();
    let outage = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        server.set_down(true);
    };
    let (ended, ()) = tokio::join!(job(&client), outage);
    assert!(matches!(ended, Err(Error::Lost { reason: LossReason::NotRenewed, .. })), "{ended:?}");
}

#[tokio::test]
async fn busy_lock_is_no_error() {
    let client = Client::embedded(); // a server of its own, on the machine's clock
    let held = client.lock("job").acquire().await.unwrap();
    assert!(client.lock("job").try_acquire().await.unwrap().is_none());
    held.release().await.unwrap();
}
