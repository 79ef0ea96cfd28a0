//! `run --once`: the command runs once per period over all machines.
//!
//! [`Once`] has the lock of a period. The command's success marks the period as done; a failure, a signal or a loss leaves it undone.

use super::hold::{Held, with_process};
use super::times::Times;
use crate::args::{At, RunOptions};
use crate::failure::{Exit, Failure};
use crate::{duration, moment};
use leasehold::once::{Occurrence, Once, Period};
use leasehold::{Client, Error};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The pause between two looks at a command that runs elsewhere.
const LOOK: Duration = Duration::from_secs(1);

/// The period of this start. Computed before the wait for the server, which must not move a start into the next period.
///
/// # Errors
///
/// `--at` does not fit.
pub(super) fn period(options: &RunOptions) -> Result<Option<Period>, Failure> {
    let Some(once) = &options.once else { return Ok(None) };
    let every = duration::parse(once).ok();
    let period = match (every, options.at) {
        (Some(every), None) => Period::every(every),
        (Some(every), Some(At::Offset(offset))) => Period::every(every).offset(offset),
        (every, Some(At::Instant(planned))) => Period::at(planned).keep(every.map_or(DAY, |every| every * 2)),
        (None, None) => Period::key(once),
        (None, Some(At::Offset(_))) => {
            let text = format!("--at is a time within a period, but --once {once:?} is a key; use a period such as 1d");
            return Err(Failure::new(Exit::Usage, text));
        }
    };
    Ok(Some(match options.at_least {
        Some(least) => period.keep(least),
        None => period,
    }))
}

/// Acquires the lock of the period, unless the command has run in it, or runs elsewhere.
///
/// # Errors
///
/// The inner error of the acquire may pass. The outer failure ends this process.
pub(super) async fn begin(
    client: &Client,
    options: &RunOptions,
    period: &Period,
    times: Times,
) -> Result<Result<Held, Error>, Failure> {
    let once = client.once(&options.name, period.clone());
    loop {
        match once.begin().await {
            Ok(Occurrence::Ran(guard)) => return Ok(Ok(Held::Once(guard, once))),
            Ok(Occurrence::AlreadyDone) => return Err(not_run(options, &already_done(options, period, &once).await)),
            Ok(Occurrence::Elsewhere(holder)) => {
                if options.wait.is_none() || !times.allow(LOOK) {
                    let who = with_process(client, &holder.id).await;
                    return Err(not_run(options, &format!("{:?} runs elsewhere: held by {who}", options.name)));
                }
                tokio::time::sleep(LOOK).await;
            }
            Err(error @ Error::Invalid(_)) => return Err(Failure::from(error).in_other_words(for_the_command)),
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// The message about a period whose command has run, with the time of its end.
async fn already_done(options: &RunOptions, period: &Period, once: &Once) -> String {
    let holder = once.lock().inspect().await.ok().flatten();
    let left = holder.and_then(|holder| holder.remaining);
    let ended = left.map(|left| period.kept_for().saturating_sub(left));
    let when = ended.map(|ago| format!(", {} ago at {}", duration::show(ago), moment::before(ago)));
    format!("{:?} has already run in this period{}", options.name, when.unwrap_or_default())
}

fn not_run(options: &RunOptions, text: &str) -> Failure {
    let code = options.busy_exit.unwrap_or_default();
    Failure::new(Exit::Busy, text).of_lock(&options.name).with_code(code).quiet(options.quiet)
}

/// Replaces the advice for programs.
fn for_the_command(text: &str) -> String {
    let advice = "set Period::offset to the phase at which it fires, or use Period::at with its scheduled time";
    text.replace(advice, "set --at to the time at which the schedule fires, in UTC")
}
