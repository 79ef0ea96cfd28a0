//! `leasehold permits`.

use clap::Args;

/// Show or change how many permits a semaphore has
///
/// The semaphore is one of `run --permits`, which is a leased semaphore of the library. Held permits count: no holder loses one, and where
/// more are held than there shall be, nothing is granted until enough have come back. The semaphore is made if there is none. A bare
/// semaphore and a latch look the same on the server, and must not be changed by this.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  leasehold permits supplier\n  leasehold permits supplier 5")]
pub(crate) struct PermitsOptions {
    /// The name of the semaphore
    pub(crate) name: String,
    /// How many permits there are from now on, held ones included
    #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(i32::MAX)))]
    pub(crate) permits: Option<u32>,
}
