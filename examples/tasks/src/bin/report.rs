//! docs/tasks/migration.md: a lock that programs with `SET NX PX` respect.

use leasehold::Client;
use std::time::Duration;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env().await?;
    let lock = client.simple_lock("report", Duration::from_secs(30));
    let guard = lock.acquire().renewed().wait(Duration::from_secs(10)).await?;
    println!("holds the lock");
    guard.run(tokio::time::sleep(Duration::from_secs(1))).await?; // do the work
    guard.release().await?;
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
