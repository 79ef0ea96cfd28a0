//! docs/tasks/java.md: a nested call under a lock that a JVM also uses, as `tryLock(5, 10, SECONDS)` does it in Java.

use leasehold::{Client, Error};
use std::time::Duration;

async fn deduct(client: &Client) -> Result<bool, Error> {
    let stock = client.lock("stock:1001");
    let owner = client.new_owner();
    owner
        .scope(async {
            let wait = stock.acquire().wait(Duration::from_secs(5)).lease(Duration::from_secs(10));
            let guard = match wait.await {
                Ok(guard) => guard,
                Err(Error::WaitElapsed { .. }) => return Ok(false), // where `tryLock` returns false
                Err(error) => return Err(error),
            };
            let nested = stock.acquire().await?; // re-enters, because the owner is the same
            nested.release().await?;
            guard.release().await?; // fails with `Lost` where Java's unlock throws
            Ok(true)
        })
        .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::from_env().await?;
    println!("{}", if deduct(&client).await? { "deducted" } else { "busy" });
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
