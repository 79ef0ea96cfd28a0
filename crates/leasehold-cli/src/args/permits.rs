//! `leasehold permits`.

use clap::Args;

/// Show or change how many permits a semaphore has
///
/// The semaphore must be one of `run --permits`, which is `Client::semaphore` of the library. With a number the command
/// creates a missing semaphore. The number includes held permits, and no holder loses a permit. If more permits are
/// held than the new number, the server grants none until enough are released. Do not use this for a bare semaphore or
/// a latch, which look alike on the server.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  leasehold permits supplier\n  leasehold permits supplier 5")]
pub(crate) struct PermitsOptions {
    /// The name of the semaphore
    pub(crate) name: String,
    /// The new number of permits, including held permits
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
}
