//! A holder that was paused beyond its lease writes late. A store that checks fencing tokens refuses the write. A store
//! without the check loses an update.
//!
//! `cargo run --example balance`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example balance`.
//!
//! A lease also ends while its holder is paused. After a pause between its last check of the lock and its write, the
//! holder writes without the lock. Only the store can detect the late write, by its token.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

#[path = "support/store.rs"]
mod store;
mod support;

use leasehold::fence::FencedValue;
use leasehold::kind::Fenced;
use leasehold::{Error, Guard};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use store::{Failed, Store};
use support::Stage;
use tokio::sync::oneshot;

/// The fixed lease of the paused holder. A real pause of the process would also stop renewals.
const LEASE: Duration = Duration::from_secs(1);
const BEGINNING: u32 = 100;
const BY_A: u32 = 10;
const BY_B: u32 = 20;
/// The correct balance after both withdrawals.
const RIGHT: u32 = BEGINNING - BY_A - BY_B;

/// Where the balance is stored.
enum Ledger {
    /// A list of balances, which accepts every write. The last entry is the balance.
    Bare(Store, String),
    /// A value that registers the token of each reader and writer, and refuses lower tokens.
    Fenced(FencedValue),
}

impl Ledger {
    async fn read(&self, guard: &Guard<Fenced>) -> Result<u32, Failed> {
        let text = match self {
            Self::Bare(store, list) => store.all(list).await?.pop(),
            Self::Fenced(value) => {
                value.read(guard).await?.map(|bytes| String::from_utf8(bytes.to_vec())).transpose()?
            }
        };
        Ok(text.ok_or("there is no balance")?.parse()?)
    }

    async fn write(&self, guard: &Guard<Fenced>, balance: u32) -> Result<(), Failed> {
        match self {
            Self::Bare(store, list) => store.append(list, &balance.to_string()).await,
            Self::Fenced(value) => Ok(value.write(guard, balance.to_string()).await?),
        }
    }
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Failed> {
    let stage = Arc::new(Stage::open("A and B withdraw from one account, and A is paused beyond its lease."));
    let store = Store::open(&stage).await?;

    stage.tell("the store ignores tokens");
    let left = both_withdraw(&stage, &store, false).await?;
    stage.tell(format_args!("the balance is {left} instead of {RIGHT}: an update is lost"));
    assert_eq!(left, BEGINNING - BY_B, "the withdrawal of A is lost");

    stage.tell("the store registers a token at the first read, and refuses lower tokens");
    let left = both_withdraw(&stage, &store, true).await?;
    stage.tell(format_args!("the balance is {left}, which is correct"));
    assert_eq!(left, RIGHT);
    Ok(())
}

/// Returns the balance after both withdrawals.
async fn both_withdraw(stage: &Arc<Stage>, store: &Store, fenced: bool) -> Result<u32, Failed> {
    let a = stage.client(stage.builder()).await?;
    let b = stage.client(stage.builder()).await?;
    let name = if fenced { "fenced-account" } else { "bare-account" };
    let key = format!("{}{name}:balance", stage.prefix);
    let ledger = Arc::new(match fenced {
        true => Ledger::Fenced(a.fenced_value(format!("{name}:balance"))),
        false => Ledger::Bare(store.clone(), key.clone()),
    });
    let guard = b.fenced_lock(name).acquire().await?;
    ledger.write(&guard, BEGINNING).await?;
    guard.release().await?;

    let (about_to_write, a_is_paused) = oneshot::channel();
    let (wake_a, awake) = mpsc::channel();
    let lock = a.fenced_lock(name);
    let (of_a, told) = (ledger.clone(), stage.clone());
    let slow = tokio::spawn(async move {
        let guard = lock.acquire().lease(LEASE).await?;
        let balance = of_a.read(&guard).await?;
        assert!(guard.is_held(), "A checks its lock before the write");
        told.tell(format_args!("A holds the lock, has read {balance}, and is about to write {}", balance - BY_A));
        let _ = about_to_write.send(());
        // Here the machine pauses A, so A cannot check its clock.
        tokio::task::block_in_place(|| awake.recv())?;
        assert!(!guard.is_held(), "A has lost its lock, but does not check again");
        let wrote = of_a.write(&guard, balance - BY_A).await;
        let read = of_a.read(&guard).await;
        let released = guard.release().await;
        assert!(matches!(released, Err(Error::Lost { .. })), "the release reports the loss: {released:?}");
        Ok::<_, Failed>((wrote, read))
    });

    a_is_paused.await?;
    let guard = b.fenced_lock(name).acquire().await?;
    let balance = ledger.read(&guard).await?;
    stage.tell(format_args!("A's lease has ended; B holds the lock and has read {balance}"));
    wake_a.send(())?;
    let (wrote, read) = slow.await??;
    match (&wrote, &read) {
        (Ok(()), Ok(read)) => stage.tell(format_args!("A continues, and the store accepts its {read}")),
        (Err(wrote), Err(read)) => {
            stage.tell(format_args!("A continues, and the store refuses its write: {wrote}"));
            stage.tell(format_args!("the store refuses its read: {read}"));
        }
        _ => return Err(format!("the store refused only one of A's write {wrote:?} and read {read:?}").into()),
    }
    assert_eq!(wrote.is_err(), fenced, "only a store that checks tokens refuses A");
    assert!([wrote.err(), read.err()].into_iter().flatten().all(|error| is_stale(&error)), "A's token is stale");
    ledger.write(&guard, balance - BY_B).await?;
    guard.release().await?;
    stage.tell(format_args!("B has written {}", balance - BY_B));

    if fenced {
        let guard = a.fenced_lock(name).acquire().await?;
        let balance = ledger.read(&guard).await?;
        ledger.write(&guard, balance - BY_A).await?;
        guard.release().await?;
        stage.tell(format_args!("A starts again after the error, has read {balance} and written {}", balance - BY_A));
    } else {
        stage.tell(format_args!("A has no reason to start again; the list has {} balances", store.length(&key).await?));
    }

    let guard = b.fenced_lock(name).acquire().await?;
    let left = ledger.read(&guard).await?;
    guard.release().await?;
    // The lock's last token and the value's register stay on the server, for comparison with later tokens.
    store.remove(&key).await?;
    a.shutdown(Duration::from_secs(5)).await?;
    b.shutdown(Duration::from_secs(5)).await?;
    Ok(left)
}

/// Returns whether the store refused the token because a greater token is registered.
fn is_stale(error: &Failed) -> bool {
    matches!(error.downcast_ref(), Some(Error::StaleToken { .. }))
}
