//! The costs of leasehold beside itself: long lines, many readers, and threads that share a client.
//!
//! ```text
//! cargo run --release -p leasehold-bench-peers --bin speed                # all
//! cargo run --release -p leasehold-bench-peers --bin speed -- readers     # one of them
//! ```
//!
//! `cargo xtask bench` measures it beside a floor and beside its peers. Every variant runs in turn, round after round, against one private
//! Redis on loopback; the program prints the median of the rounds' ratios. The server and the clients share the machine's cores, so only
//! ratios mean anything.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark prints, and stops at the first surprise")]

mod line;
mod measure;
mod readers;
mod threads;

use leasehold_test_support::{Binary, Server};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let runs = |part: &str| wanted.is_empty() || wanted.iter().any(|name| name == part);
    let binary = Binary::redis().expect("a Redis server: run `cargo xtask servers`");
    let server = Server::builder().binary(&binary).start();
    println!("server: {} {}", binary.flavor, binary.version);
    if runs("threads") {
        threads::run(&server);
    }
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    runtime.block_on(async {
        if runs("line") {
            line::run(&server).await;
        }
        if runs("readers") {
            readers::run(&server).await;
        }
    });
}
