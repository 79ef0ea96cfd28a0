//! Three nested functions acquire the same lock, and two concurrent branches exclude each other.
//!
//! `cargo run --example nested_calls`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example nested_calls`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

mod support;

use leasehold::{Client, Error, Lock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::Stage;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stage = Stage::open("Nested calls re-enter a lock; concurrent branches exclude each other.");
    let client = stage.client(stage.builder()).await?;
    let orders = Orders { stage: &stage, client: &client, lock: client.lock("order:77"), busy: AtomicBool::new(false) };

    // The scope sets the owner, so the functions need no argument for it.
    let owner = client.new_owner();
    owner.scope(orders.ship("")).await?;
    orders.nobody_holds_it().await?;
    stage.tell("the lock is free on the server");

    // Branches of one owner would share the critical section. Each branch has its own owner, so one branch waits.
    stage.tell("two concurrent branches of a task make the same calls, with separate owners");
    let (first, second) = (client.new_owner(), client.new_owner());
    let (left, right) = tokio::join!(first.scope(orders.ship("left: ")), second.scope(orders.ship("right: ")));
    left?;
    right?;
    orders.nobody_holds_it().await?;
    stage.tell("the lock is free on the server");

    client.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

struct Orders<'a> {
    stage: &'a Stage,
    client: &'a Client,
    lock: Lock,
    /// `true` while a branch is inside the critical section.
    busy: AtomicBool,
}

impl Orders<'_> {
    /// Acquires the lock, and calls a function that acquires it again.
    async fn ship(&self, who: &str) -> Result<(), Error> {
        self.stage.tell(format_args!("{who}ship wants the lock"));
        let guard = self.lock.acquire().await?;
        assert!(!self.busy.swap(true, Ordering::SeqCst), "no other branch is inside");
        self.tell(who, "ship holds the lock", guard.hold_count(), 1).await?;
        self.deduct(who).await?;
        self.tell(who, "deduct has left", guard.hold_count(), 1).await?;
        self.busy.store(false, Ordering::SeqCst);
        guard.release().await
    }

    /// Acquires the lock, because other code may call it directly, and calls a function that acquires the lock again.
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

    /// Prints the hold count, and compares it with the count on the server.
    async fn tell(&self, who: &str, what: &str, count: u32, expected: u32) -> Result<(), Error> {
        self.stage.tell(format_args!("{who}{what}: hold count {count}"));
        assert_eq!(count, expected, "the guard has the hold count");
        let holder = self.lock.inspect().await?.expect("the lock is held");
        assert_eq!(holder.hold_count, expected, "the server has the hold count");
        assert!(holder.id.is_of(&self.client.id()), "this client holds it");
        Ok(())
    }

    async fn nobody_holds_it(&self) -> Result<(), Error> {
        assert_eq!(self.lock.inspect().await?, None, "the last release ends the hold");
        Ok(())
    }
}
