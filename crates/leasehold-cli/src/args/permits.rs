//! `leasehold permits`.

use clap::Args;

/// Show or change the number of permits of a semaphore
///
/// The semaphore must come from `run --permits` or from `Client::semaphore` in the library. With a number, the command
/// creates a missing semaphore. The number includes held permits, and no holder loses a permit. If holders have more
/// permits than the new number, the server grants none until enough are released. Do not use this command on a bare
/// semaphore or a latch, which the server cannot tell apart.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  leasehold permits supplier\n  leasehold permits supplier 5")]
pub(crate) struct PermitsOptions {
    /// Name of the semaphore
    pub(crate) name: String,
    /// New number of permits, including held permits
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
}
