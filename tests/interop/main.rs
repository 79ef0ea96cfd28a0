//! The effects of leasehold and a real Redisson on each other on one server. `cargo xtask interop` builds the agent and runs this.
//!
//! There are two places, a single server and a cluster with sharded notices. Each has one client of ours and one instance of
//! Redisson, which all cases share; names are a case's own. Cases that measure time run first, one after the other; the
//! others run all at once, because most of their time is spent in waiting for leases.

#![expect(clippy::print_stdout, reason = "a command line tool speaks on stdout")]

mod agent;
mod cases;
mod child;
mod dump;
mod kind;
mod place;
mod program;
mod suite;
mod world;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Far more threads than processors: the looks at a server block the thread that takes them.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(16).enable_all().build();
    let runtime = runtime.expect("a runtime");
    if let Ok(url) = std::env::var(child::URL) {
        child::obey(&runtime, &url);
        return ExitCode::SUCCESS;
    }
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "--dump") {
        runtime.block_on(dump::run(&arguments.split_off(1)));
        return ExitCode::SUCCESS;
    }
    let tally = runtime.block_on(suite::run(cases::all(), &arguments));
    println!("{tally}");
    if tally.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
