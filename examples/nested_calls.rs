//! Three functions that call each other and each take the same lock; and two branches that must not share it.
//!
//! `cargo run --example nested_calls`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example nested_calls`.

#![expect(clippy::print_stdout, reason = "an example tells its story on stdout")]

mod support;

use leasehold::{Client, Error, Lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Stage;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stage = Stage::open("Nested calls re-enter a lock; branches that run at once exclude each other.");
    let client = stage.client(stage.builder()).await?;
    let orders = Orders { stage: &stage, client: &client, lock: client.lock("order:77"), busy: AtomicBool::new(false) };

    // The owner is named once, here; nothing has to be passed through the functions.
    let owner = client.new_owner();
    owner.scope(orders.ship("")).await?;
    orders.nobody_holds_it().await?;
    stage.tell("the lock is gone from the server");

    // One owner for both branches would let them into the critical section together; each has its own, so one waits.
    stage.tell("two branches of one task make the same calls at once, each as an owner of its own");
    let (first, second) = (client.new_owner(), client.new_owner());
    let (left, right) = tokio::join!(first.scope(orders.ship("left: ")), second.scope(orders.ship("right: ")));
    left?;
    right?;
    orders.nobody_holds_it().await?;
    stage.tell("the lock is gone from the server");

    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

struct Orders<'a> {
    stage: &'a Stage,
    client: &'a Client,
    lock: Lock,
    /// Whether some branch is inside the critical section.
    busy: AtomicBool,
}

impl Orders<'_> {
    /// Takes the lock, and calls a function that takes it.
    async fn ship(&self, who: &str) -> Result<(), Error> {
        self.stage.tell(format_args!("{who}ship wants the lock"));
        let guard = self.lock.acquire().await?;
        assert!(!self.busy.swap(true, Ordering::SeqCst), "nobody else is inside");
        self.tell(who, "ship has the lock", guard.hold_count(), 1).await?;
        self.deduct(who).await?;
        self.tell(who, "ship is alone with it", guard.hold_count(), 1).await?;
        self.busy.store(false, Ordering::SeqCst);
        guard.release().await
    }

    /// Takes the lock, because it may also be called by itself, and calls a function that takes it.
    async fn deduct(&self, who: &str) -> Result<(), Error> {
        let guard = self.lock.acquire().await?;
        self.tell(who, "deduct has entered", guard.hold_count(), 2).await?;
        self.write_off(who).await?;
        self.tell(who, "write_off has left", guard.hold_count(), 2).await?;
        guard.release().await
    }

    async fn write_off(&self, who: &str) -> Result<(), Error> {
        let guard = self.lock.acquire().await?;
        self.tell(who, "write_off has entered", guard.hold_count(), 3).await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        guard.release().await
    }

    /// Says the hold count, and compares it with the server's.
    async fn tell(&self, who: &str, what: &str, count: u32, expected: u32) -> Result<(), Error> {
        self.stage.tell(format_args!("{who}{what}: hold count {count}"));
        assert_eq!(count, expected, "the guard counts exactly");
        let holder = self.lock.inspect().await?.expect("the lock is held");
        assert_eq!(holder.hold_count, expected, "the server counts exactly");
        assert!(holder.id.is_of(&self.client.id()), "this client holds it");
        Ok(())
    }

    async fn nobody_holds_it(&self) -> Result<(), Error> {
        assert_eq!(self.lock.inspect().await?, None, "the last release ends the hold");
        Ok(())
    }
}
