//! Private servers, clusters and sentinels, and a fault proxy, for the tests and benchmarks of leasehold.
//!
//! Everything here is synchronous and runs on threads of its own: it works when the executor of a test is starved, blocked
//! or gone, which is what many of the tests are about.
//!
//! ```no_run
//! use leasehold_test_support::{After, Proxy, Server};
//!
//! let server = Server::start();
//! let proxy = Proxy::to(&server);
//! let trap = proxy.swallow_reply_to("EVALSHA", After::Close);
//! // … connect a client to `proxy.url()` and let it call a script …
//! trap.wait();
//! assert_eq!(server.commandstats("evalsha"), 1);
//! ```
//!
//! A server listens on loopback on a free port, keeps its files in a directory of its own and dies when its handle is
//! dropped, or with the process of the test, whatever ends that process. Which server programs there are is told by
//! [`binaries`]; when there are none, `cargo xtask servers` installs some under the target directory.
//!
//! A failure of the surroundings (no server program, a server that does not start or does not answer) panics with a
//! sentence that says what to do: to a test it is a failure anyway.

#![expect(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "nothing here is published; tests match in full"
)]

mod binary;
mod clock;
mod cluster;
mod connection;
mod install;
mod monitor;
mod namespace;
mod port;
mod proxy;
mod reaper;
mod resp;
mod rounds;
mod sentinel;
mod server;
mod service;
mod splitting;
mod tls;
mod wait;

pub use binary::{Binary, Flavor, NoServer, Version, binaries, listed_by_the_user, look_for_binaries};
pub use clock::WallClock;
pub use cluster::{Cluster, ClusterBuilder};
pub use connection::Connection;
pub use install::{Installed, install};
pub use monitor::{Monitor, Monitored};
pub use namespace::{Divide, Side};
pub use proxy::{After, Proxy, Request, Trap, Watch, Way};
pub use resp::{Resp, take_request};
pub use rounds::Rounds;
pub use sentinel::Sentinel;
pub use server::{Server, ServerBuilder};
pub use service::{Ids, Keys, Outcome, Profile, Refusal, Service, Shape};
pub use splitting::SplittingProxy;
pub use tls::{Ca, Issued};
pub use wait::{eventually, until};
