//! docs/tasks/nightly-job.md: a job that each server starts and one server runs.

use leasehold::Client;
use leasehold::once::{Occurrence, Period};
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The scheduled date, equal on all servers: `nightly 2026-11-28`.
    let date = std::env::args().nth(1).ok_or("usage: nightly DATE")?;
    let client = Client::from_env().await?;
    let report = client.once("report", Period::key(date));
    match report.run(async |_held| println!("writes the report")).await? {
        Occurrence::Ran(()) => println!("done"),
        Occurrence::AlreadyDone => println!("another server has done it"),
        Occurrence::Elsewhere(holder) => println!("{} is doing it", holder.id),
    }
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
