//! How fast the locks are, as ratios against a floor and against peers that are measured in the same run.
//!
//! ```text
//! cargo bench -p leasehold-benches                # everything
//! cargo bench -p leasehold-benches -- wake_up     # one part: see below for their names
//! ```
//!
//! Every variant runs in turn, round after round, against one private Redis on loopback; what is printed is the median of the
//! rounds' ratios. The server and the clients share the machine's cores, so only ratios mean anything.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and stops at the first surprise")]

mod fair;
mod floor;
mod go;
mod hot;
mod line;
mod measure;
mod readers;
mod simple;
mod uncontended;
mod waiters;
mod wake_up;
mod watchdog;

use leasehold_test_support::{Binary, Server};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let runs = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let binary = Binary::redis().expect("a Redis server: run `cargo xtask servers`");
    let server = Server::builder().binary(&binary).start();
    println!("server: {} {}", binary.flavor, binary.version);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if runs("uncontended") {
            uncontended::run(&server).await;
        }
        if runs("wake_up") {
            wake_up::run(&server).await;
        }
        if runs("watchdog") {
            watchdog::run(&server).await;
        }
        if runs("waiters") {
            waiters::run(&server).await;
        }
        if runs("simple") {
            simple::run(&server).await;
        }
        if runs("fair") {
            fair::run(&server).await;
        }
        if runs("line") {
            line::run(&server).await;
        }
        if runs("hot") {
            hot::run(&server).await;
        }
        if runs("readers") {
            readers::run(&server).await;
        }
    });
}
