//! Distributed locks on Redis and Valkey, with automatic renewal, wake-ups by message, and early detection of a lost lock.
//!
//! ```no_run
//! # async fn count_the_stock() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # use leasehold::Client;
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let stock = client.lock("stock:1001");
//!
//! let guard = stock.acquire().await?; // renewed until the release
//! guard.run(count_the_stock()).await?; // stopped if the lock is lost
//! guard.release().await?; // fails if the lock was lost before
//! # Ok(()) }
//! ```
//!
//! For tests and first experiments without a server, use `Client::embedded()` with the feature `embedded`.
//!
//! # Guarantees
//!
//! At most one owner at a time *believes* that it holds a lock. By its local clock, a guard is lost before the server can grant the lock to another
//! owner. This assumes that the server keeps its data, that its clock does not step forward, and that the rates of both clocks differ by less than 1 %.
//!
//! No lease can stop a process that was paused beyond the end of the lease. A failover to a replica can lose a lock. If a stale write
//! would be a disaster, use a fencing token that the store checks.
//! [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md) lists all guarantees and their assumptions.
//!
//! # Choosing a lock
//!
//! | need | lock |
//! |---|---|
//! | the default | [`Client::lock`] |
//! | first come, first served | [`Client::fair_lock`] |
//! | a store that checks fencing tokens | [`Client::fenced_lock`] and [`fence`] |
//! | many long reads, few writes | [`Client::read_write_lock`] |
//! | several locks in one step | [`Client::multi_lock`] |
//! | millions of small resources | [`Client::striped_lock`] |
//! | at most *n* holders at once | [`Client::semaphore`] |
//! | waiting for *n* events | [`Client::count_down_latch`] |
//! | one leader among all instances | [`Client::leader`] |
//! | a scheduled job that runs in one instance | [`Client::once`] |
//! | a held lock that moves to another process | [`Guard::into_ticket`] and [`Client::adopt`] |
//! | a lock that survives the loss of a server and its data | [`QuorumLock`]; on a primary with replicas [`Acquire::durable`] |
//! | holds of milliseconds, or no Pub/Sub | [`Client::spin_lock`] |
//! | keys shared with go-zero, or with an `RSemaphore` of JVMs | [`Client::simple_lock`], [`Client::bare_semaphore`] |
//!
//! # Using a client
//!
//! - Build one [`Client`] for each server, clone it freely, and await [`Client::shutdown`] at the end.
//! - Run long work under [`Guard::run`] or [`Lock::with`], which stop it after a loss. Always check the result of [`Guard::release`].
//! - Threads without a runtime use [`blocking`].
//! - Tests use [`Client::embedded`], optionally with a manual clock: see [`embedded`].
//! - Metrics and traces have fixed names: see [`telemetry`].
//! - [`Client::from_env`] reads the server and settings such as the lease from the environment.
//!
//! # Features
//!
//! No feature is on by default, and the default build needs no C compiler.
//!
//! | feature | adds |
//! |---|---|
//! | `tls` | `rediss://` and `valkeys://`; compiles ring, which needs a C compiler |
//! | `embedded` | an in-process engine that replaces a server; compiles Lua, which needs a C compiler |
//! | `macros` | the attribute [`#[leasehold::once]`](macro@once) for scheduled jobs; compiles syn |
//! | `serde` | `Serialize` and `Deserialize` for inspection results such as [`Holder`](inspect::Holder), [`ClientStats`] and [`ServerInfo`] |
//! | `unstable-raw` | plain commands to the server, exempt from semantic versioning: `ClientBuilder::connect_raw` |

#![cfg_attr(docsrs, feature(doc_cfg))]

// `Lock` comes first because rustdoc lists its methods in the order of the modules.
mod lock;

mod background;
pub mod blocking;
mod client;
pub mod error;
pub mod fence;
pub mod inspect;
pub mod kind;
mod kinds;
pub mod leader;
mod link;
pub mod once;
#[cfg(feature = "unstable-raw")]
pub mod raw;
mod runtime;
pub mod telemetry;

pub use client::builder::{ClientBuilder, PublishCommand, Tuning};
pub use client::ids::{ClientId, HolderId};
pub use client::settings::{DEFAULT_LINGER, MAX_LEASE, MIN_LEASE};
pub use client::{Client, NotReleased};
#[doc(inline)]
pub use error::{ConnectError, Error, InvalidInput, WithError};
pub use kinds::{
    AnyLock, BareSemaphore, CountDownLatch, FairLock, FencedFairLock, FencedLock, LatchWait, MultiLock, QuorumLock,
    ReadLock, ReadWriteLock, Semaphore, SimpleLock, SpinLock, StripedLock, WriteLock,
};
pub use leasehold_core::backoff::Backoff;
pub use leasehold_core::call::Replicas;
pub use leasehold_core::command::permits::PermitId;
pub use leasehold_core::error::{HoldEnd, LossReason};
pub use leasehold_core::link::ServerInfo;
pub use leasehold_core::session::{ClientStats, Fallback};
/// Runs an `async fn` once per period of a schedule, in only one of many processes.
///
/// # Examples
///
/// ```
/// use leasehold::once::{Occurrence, Period};
/// use leasehold::{Client, WithError};
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
///
/// /// Each of five pods calls this function every hour on the hour.
/// #[leasehold::once(name = "invoices", every = "1h")]
/// async fn send_invoices(client: &Client) -> std::io::Result<()> {
///     Ok(())
/// }
///
/// /// A cron library calls this function with the scheduled time.
/// #[leasehold::once(name = format!("report:{region}"), period = Period::at(scheduled))]
/// async fn report(client: &Client, region: &str, scheduled: SystemTime) -> usize {
///     region.len()
/// }
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// # let client = Client::embedded();
/// let scheduled = UNIX_EPOCH + Duration::from_secs(1_795_694_400);
/// match report(&client, "north", scheduled).await? {
///     Occurrence::Ran(pages) => assert_eq!(pages, 5),
///     Occurrence::AlreadyDone => println!("another pod has done the job"),
///     Occurrence::Elsewhere(holder) => println!("{} is running the job", holder.id),
/// }
/// assert_eq!(report(&client, "north", scheduled).await?, Occurrence::AlreadyDone);
/// # Ok::<(), WithError<usize>>(()) }).unwrap();
/// ```
#[cfg(feature = "macros")]
pub use leasehold_macros::once;
pub use link::Credentials;
pub use lock::Lock;
pub use lock::acquire::Acquire;
pub use lock::fair_settings::FairSettings;
pub use lock::guard::Guard;
pub use lock::loss::{HoldToken, Lost};
pub use lock::owner::Owner;
pub use lock::ticket::{Adopt, Ticket};
/// The cancellation token of the crate `tokio-util`, which [`HoldToken::token`] returns.
pub use tokio_util::sync::CancellationToken;

/// The common part of [`MultiLock`] and [`QuorumLock`].
pub mod group {
    pub use crate::kinds::{GroupAcquire, GroupGuard, GroupLock, MultiAcquire, MultiGuard, QuorumAcquire, QuorumGuard};
}

/// The in-process engine, for tests, examples and locks within one process.
///
/// ```
/// use leasehold::Client;
/// use leasehold::embedded::{EmbeddedServer, ManualClock};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::new();
/// let server = EmbeddedServer::with_clock(clock.clone());
/// let client = Client::builder().embedded(&server)?; // uses the same clock
///
/// let guard = client.lock("report").acquire().lease(Duration::from_secs(10)).await?;
/// clock.advance(Duration::from_secs(11));
/// assert!(!guard.is_held());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Round trips
///
/// The engine replies at once. On a real server other tasks run, timeouts expire and futures are dropped before a reply arrives.
/// [`EmbeddedServer::set_round_trip`](embedded::EmbeddedServer::set_round_trip) simulates the latency of a network, on any clock. On tokio's paused
/// clock ([`EmbeddedServer::paused`](embedded::EmbeddedServer::paused), [`ServerClock::tokio`](embedded::ServerClock::tokio)) the simulation costs no
/// time; tokio sleeps for whole milliseconds, so each half of a round trip is rounded up to a millisecond. Test code that depends on contention or on short
/// waits with and without a round trip.
///
/// ```
/// use leasehold::Client;
/// use leasehold::embedded::EmbeddedServer;
/// use std::time::Duration;
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
/// # runtime.block_on(async {
/// // In a test under `#[tokio::test(start_paused = true)]`:
/// let begun = tokio::time::Instant::now();
/// let server = EmbeddedServer::paused();
/// server.set_round_trip(Duration::from_millis(20));
/// let client = Client::builder().embedded(&server)?;
///
/// let guard = client.lock("report").acquire().await?;
/// assert_eq!(begun.elapsed(), Duration::from_millis(20));
/// // A call whose future is dropped after 5 ms was still sent; the client rolls it back.
/// let stock = client.lock("stock");
/// assert!(tokio::time::timeout(Duration::from_millis(5), stock.try_acquire()).await.is_err());
/// tokio::time::sleep(Duration::from_secs(1)).await;
/// assert_eq!(server.keys(), ["report"]);
/// # guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[cfg(feature = "embedded")]
pub mod embedded {
    pub use leasehold_embedded::{
        EmbeddedLink, EmbeddedServer, Fault, FaultTarget, ManualClock, Recorded, Recorder, ServerClock,
    };
}

/// Mistakes that the compiler rejects.
///
/// Releasing a guard twice.
///
/// ```compile_fail,E0382
/// async fn twice(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
///     guard.release().await?;
///     guard.release().await
/// }
/// ```
///
/// An acquire that is not awaited, a guard that is dropped at once, and settings that no builder receives.
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn never_awaited(lock: &leasehold::Lock) {
///     lock.acquire();
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// async fn not_kept(lock: &leasehold::Lock) -> Result<(), leasehold::Error> {
///     lock.acquire().await?;
///     Ok(())
/// }
/// ```
///
/// ```compile_fail
/// #![deny(unused_must_use)]
/// fn changes_nothing() {
///     leasehold::Tuning::new();
/// }
/// ```
///
/// A kind has only the methods that it supports: a semaphore has no owner, and a plain lock no fencing token.
///
/// ```compile_fail,E0599
/// fn re_enters(permits: &leasehold::Semaphore, owner: &leasehold::Owner) {
///     let _acquire = permits.acquire().owner(owner);
/// }
/// ```
///
/// ```compile_fail,E0599
/// fn shows_a_token(guard: &leasehold::Guard) {
///     let _token = guard.fencing_token();
/// }
/// ```
///
/// Guards and work under a lock are `Send`, so spawned tasks can use them.
///
/// ```
/// async fn spawned(lock: leasehold::Lock) {
///     let _ = tokio::spawn(async move { lock.with(async |held| held.hold_count()).await }).await;
/// }
///
/// async fn moved(guard: leasehold::Guard) {
///     let _ = tokio::spawn(async move { guard.release().await }).await;
/// }
/// ```
#[cfg(doctest)]
struct Mistakes;

/// The repository's documents; their code blocks run as doctests. The package does not contain them.
#[cfg(all(doctest, feature = "embedded"))]
mod documents {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../examples/README.md")]
    struct Examples;
    #[doc = include_str!("../../../lua/README.md")]
    struct Lua;
    #[doc = include_str!("../../../docs/architecture.md")]
    struct Architecture;
    #[doc = include_str!("../../../docs/dependencies.md")]
    struct Dependencies;
    #[doc = include_str!("../../../docs/glossary.md")]
    struct Glossary;
    #[doc = include_str!("../../../docs/operations.md")]
    struct Operations;
    #[doc = include_str!("../../../docs/safety.md")]
    struct Safety;
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/wire-protocol.md")]
    struct WireProtocol;
}
