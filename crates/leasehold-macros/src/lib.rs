//! The attributes of [leasehold](https://docs.rs/leasehold), which re-exports them with the feature `macros`.

mod once;

use proc_macro::TokenStream;

/// Runs the body of an `async fn` in one of many processes for each period of a schedule.
///
/// The attribute replaces the body with
/// [`Client::once`](https://docs.rs/leasehold/latest/leasehold/struct.Client.html#method.once) and
/// [`Once::run`](https://docs.rs/leasehold/latest/leasehold/once/struct.Once.html#method.run) with the former body as
/// the job. The attribute schedules no calls: a scheduler, such as cron or a timer, calls the function in every
/// process. The body receives no guard; a job that needs a guard calls `Once::run`.
///
/// | key | value |
/// |---|---|
/// | `name` | the name of the job, equal in every process: a string, or an expression of the arguments |
/// | `every` | the interval of the schedule, such as `"1d"`, `"90s"` or `"1h 30m"`: `Period::every` |
/// | `offset` | the offset of that schedule from 00:00 UTC, such as `"12h"` for daily at noon: `Period::offset` |
/// | `period` | instead of `every`: an expression of the type `Period`, such as `Period::at(scheduled)` |
/// | `client` | an expression of the type `Client`; default: the first argument of the type `Client` or `&Client` |
///
/// With `every`, a call must be near a scheduled time: from 3/8 to 5/8 of the interval after it, the call fails with `Error::Invalid`, because
/// another process could choose the next period. To run the job by hand or in a test at any time, use `period = Period::at(scheduled)`.
///
/// The function may be a method. The attribute wraps its return type in `Result<Occurrence<…>, WithError<…>>`:
///
/// | declared as | becomes | the job is done |
/// |---|---|---|
/// | `-> T` | `-> Result<Occurrence<T>, WithError<T>>`, by `Once::run` | after the body |
/// | `-> Result<T, E>` | `-> Result<Occurrence<Result<T, E>>, WithError<Result<T, E>>>`, by `Once::try_run` | after the body returned `Ok` |
///
/// The second row applies to every return type named `Result`, such as `anyhow::Result<T>`. The attribute does not
/// recognise an alias with another name: a failed job with such a type counts as done.
#[proc_macro_attribute]
pub fn once(arguments: TokenStream, function: TokenStream) -> TokenStream {
    once::expand(arguments.into(), function.into()).into()
}
