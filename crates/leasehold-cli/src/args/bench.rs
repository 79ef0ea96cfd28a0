//! `leasehold bench`.

use clap::Args;

/// Measure the latency of locks on this server, compared with PING
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  leasehold bench --pairs 2000")]
pub(crate) struct BenchOptions {
    /// Number of acquire and release pairs for each measurement
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub(crate) pairs: u32,
    /// Number of tasks in the concurrent measurements
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) tasks: u32,
}
