//! docs/tasks/leader.md: a process that works while it leads, and resigns on Ctrl-C or SIGTERM.

use leasehold::Client;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::builder().lease(Duration::from_secs(10)).connect_from_env().await?;
    let leader = client.leader("scheduler");
    let handle = leader.handle(); // `handle.is_leader()` for a health check
    let mut terminated = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        handle.resign().await;
    });
    let work = async |term: &leasehold::leader::Term| {
        println!("leads with the token {}", term.fencing_token());
        while !term.is_resigned() {
            tokio::time::sleep(Duration::from_millis(100)).await; // process one item
        }
    };
    leader.run(work).await?;
    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}
