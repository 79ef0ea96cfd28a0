//! Distributed locks on Redis and Valkey that renew themselves, wake their waiters, and tell a holder that it lost its lock.
//!
//! ```no_run
//! # async fn count_the_stock() {}
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # use leasehold::Client;
//! let client = Client::connect("redis://127.0.0.1:6379").await?;
//! let stock = client.lock("stock:1001");
//!
//! let guard = stock.acquire().await?; // renewed until it is released
//! guard.run(count_the_stock()).await?; // stopped at once if the lock is lost
//! guard.release().await?; // says whether it was held to the end
//! # Ok(()) }
//! ```
//!
//! Tests, and a first try without a server, use `Client::embedded()` instead, with the feature `embedded`.
//!
//! # What a lock promises, and what it cannot
//!
//! While the server's data is intact, its clock is not stepped forward, and clocks run at the same rate within a small margin, at
//! most one owner *believes* at any time that it holds: a guard is lost by its own clock before the server can grant the lock to
//! another. No lease can stop a process that was paused beyond it, and a single primary with replicas can lose a lock in a failover:
//! what must never be written by a stale holder needs a fencing token that the store checks.
//! [docs/safety.md](https://github.com/leasehold/leasehold/blob/main/docs/safety.md) says what is promised where.
//!
//! # Choosing a lock
//!
//! | question | lock |
//! |---|---|
//! | nothing special | [`Client::lock`] |
//! | nobody may be overtaken | [`Client::fair_lock`] |
//! | a stale write must be impossible, and the store can compare a number | [`Client::fenced_lock`] and [`fence`] |
//! | many read for long, few write | [`Client::read_write_lock`] |
//! | one step, several locks | [`Client::multi_lock`] |
//! | millions of small things | [`Client::striped_lock`] |
//! | at most *n* at once | [`Client::semaphore`] |
//! | to wait until *n* others are done | [`Client::count_down_latch`] |
//! | one instance of many leads, another takes over | [`Client::leader`] |
//! | a schedule fires in many instances, one runs the job | [`Client::once`] |
//! | a server may be lost, with its data | [`QuorumLock`]; on a primary with replicas [`Acquire::durable`] |
//! | holds of milliseconds, or no Pub/Sub | [`Client::spin_lock`] |
//! | go-zero, or a bare semaphore of JVMs | [`Client::simple_lock`], [`Client::bare_semaphore`] |
//!
//! # In libraries, in services
//!
//! - Build one [`Client`] for each server, clone it freely, and end it by [`Client::shutdown`].
//! - Run long work under [`Guard::run`] or [`Lock::with`], so that a loss stops it. Never ignore what [`Guard::release`] says.
//! - Threads without a runtime use [`blocking`].
//! - Tests use [`Client::embedded`], with a clock that they move by hand: see [`embedded`].
//! - Metrics and traces have fixed names: see [`telemetry`].
//! - The server, and settings such as the lease, may come from the environment: [`Client::from_env`].
//!
//! # Features
//!
//! None is on by default, and without them no C compiler is needed.
//!
//! | feature | what it adds |
//! |---|---|
//! | `tls` | secure connections, by `rediss://` and `valkeys://`; it compiles ring and so needs a C compiler |
//! | `embedded` | an engine inside the process that needs no server; it compiles Lua and so needs a C compiler |
//! | `serde` | `Serialize` and `Deserialize` of what an inspection tells, such as [`Holder`](inspect::Holder), [`ClientStats`] and [`ServerInfo`] |
//! | `unstable-raw` | plain commands to the server, exempt from semantic versioning: `ClientBuilder::connect_raw` |

#![cfg_attr(docsrs, feature(doc_cfg))]

// First, because the page of `Lock` shows its methods in the order of modules.
mod lock;

mod acquire;
mod attempt;
mod background;
pub mod blocking;
mod builder;
mod client;
mod client_inner;
mod clock;
pub mod error;
mod fair_settings;
pub mod fence;
mod foreign;
mod guard;
mod ids;
pub mod inspect;
pub mod kind;
mod kinds;
pub mod leader;
mod link;
mod lock_spec;
mod loss;
pub mod once;
mod owner;
mod process;
#[cfg(feature = "unstable-raw")]
pub mod raw;
mod record;
mod relay;
mod runtime;
mod settings;
mod sync;
pub mod telemetry;
mod url;

pub use acquire::{Acquire, Acquiring};
pub use builder::{ClientBuilder, PublishCommand, Tuning};
pub use client::{Client, NotReleased};
#[doc(inline)]
pub use error::{ConnectError, Error, InvalidInput, WithError};
pub use fair_settings::FairSettings;
pub use guard::Guard;
pub use ids::{ClientId, HolderId};
pub use kinds::{
    AnyLock, BareSemaphore, CountDownLatch, FairLock, FencedFairLock, FencedLock, LatchWait, LatchWaiting, MultiLock,
    QuorumLock, ReadLock, ReadWriteLock, Semaphore, SimpleLock, SpinLock, StripedLock, WriteLock,
};
pub use leasehold_core::backoff::Backoff;
pub use leasehold_core::call::Replicas;
pub use leasehold_core::command::permits::PermitId;
pub use leasehold_core::error::{HoldEnd, LossReason};
pub use leasehold_core::link::ServerInfo;
pub use leasehold_core::session::{ClientStats, Fallback};
pub use link::server::Credentials;
pub use lock::Lock;
pub use loss::{HoldToken, Lost};
pub use owner::Owner;
pub use settings::{DEFAULT_LINGER, MAX_LEASE, MIN_LEASE};
/// The token of the crate `tokio-util`, as [`HoldToken::token`] makes it.
pub use tokio_util::sync::CancellationToken;

/// Guards and acquires of a [`MultiLock`] and a [`QuorumLock`].
pub mod group {
    pub use crate::kinds::{GroupGuard, Member, MultiAcquire, MultiGuard, QuorumAcquire, QuorumGuard};
}

/// The engine inside the process, for tests, examples, and locks within one process.
///
/// ```
/// use leasehold::Client;
/// use leasehold::embedded::{EmbeddedServer, ManualClock};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let clock = ManualClock::new();
/// let server = EmbeddedServer::with_clock(clock.clone());
/// let client = Client::builder().embedded(&server)?; // on the same clock
///
/// let guard = client.lock("report").acquire().lease(Duration::from_secs(10)).await?;
/// clock.advance(Duration::from_secs(11));
/// assert!(!guard.is_held());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
///
/// # Replies that take time
///
/// The engine answers at once, and a real server does not: between a request and its reply other tasks run, time limits run out, and
/// futures are dropped. [`EmbeddedServer::set_round_trip`](embedded::EmbeddedServer::set_round_trip) gives a test that of a network, on any
/// clock; on tokio's paused one ([`EmbeddedServer::paused`](embedded::EmbeddedServer::paused)) it costs no time. Run tests of code that is about contention and
/// short waits in both ways.
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
/// // A call whose future is dropped after 5 ms was sent all the same; the client takes back what came of it.
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

    /// tokio's clock, which a test can pause, as the clock of a server. It starts at `zero`. [`EmbeddedServer::paused`]
    /// makes a server with this clock that starts now.
    ///
    /// ```
    /// use leasehold::Client;
    /// use leasehold::embedded::{EmbeddedServer, tokio_clock};
    /// use std::time::Duration;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    /// # runtime.block_on(async {
    /// // In a test under `#[tokio::test(start_paused = true)]`:
    /// let server = EmbeddedServer::with_clock(tokio_clock(tokio::time::Instant::now()));
    /// let client = Client::builder().embedded(&server)?;
    ///
    /// let guard = client.lock("report").acquire().await?;
    /// tokio::time::sleep(Duration::from_secs(3_600)).await; // over at once, and the lock was renewed all along
    /// assert!(guard.is_held());
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// tokio sleeps for whole milliseconds, so each half of a [round trip](EmbeddedServer::set_round_trip) is rounded up to one.
    pub fn tokio_clock(zero: tokio::time::Instant) -> ServerClock {
        ServerClock::tokio(zero)
    }
}

/// What must not compile: the compiler catches these mistakes of a caller.
///
/// A guard is released once.
///
/// ```compile_fail,E0382
/// async fn twice(guard: leasehold::Guard) -> Result<(), leasehold::Error> {
///     guard.release().await?;
///     guard.release().await
/// }
/// ```
///
/// An acquire that nobody awaits, a guard that is not kept, and settings that no builder is given, acquire, hold and change nothing.
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
/// A kind has only the methods that it can serve: a semaphore has no owner, and a plain lock no fencing token.
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
/// Guards are `Send`, and so is work under a lock: both go into spawned tasks.
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

/// The documents of the repository: their code runs with the documentation tests. They are no part of the package, whose build
/// never sees this.
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
    #[doc = include_str!("../../../docs/choosing.md")]
    struct Choosing;
    #[doc = include_str!("../../../docs/dependencies.md")]
    struct Dependencies;
    #[doc = include_str!("../../../docs/glossary.md")]
    struct Glossary;
    #[doc = include_str!("../../../docs/operations.md")]
    struct Operations;
    #[doc = include_str!("../../../docs/redisson.md")]
    struct Redisson;
    #[doc = include_str!("../../../docs/safety.md")]
    struct Safety;
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/wire-protocol.md")]
    struct WireProtocol;
}
