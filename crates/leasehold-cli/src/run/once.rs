//! `run --once`: the command runs once per period over all machines.
//!
//! [`Once`] has the lock of a period. The command's success marks the period as done; a failure, a signal or a loss leaves it undone.

use super::hold::{Held, with_process};
use super::times::Times;
use crate::args::RunOptions;
use crate::failure::{Exit, Failure};
use crate::{duration, moment};
use leasehold::once::{Occurrence, Once, Period};
use leasehold::{Client, Error};
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The days of a week as it is counted since 1 January 1970, a Thursday.
const DAYS: [&str; 7] = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"];

/// The pause between two looks at a command that runs elsewhere.
const LOOK: Duration = Duration::from_secs(1);

/// The schedule's own time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// The time within each period, counted from midnight, or for weeks from midnight of Thursday.
    Offset(Duration),
    /// The planned time of this start.
    Instant(SystemTime),
}

impl At {
    /// Parses `02:00`, `02:00:30`, `Mon 02:00`, or a time of RFC 3339.
    ///
    /// # Errors
    ///
    /// The text is none of these; the error has examples.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let time = Self::offset(text).map(Self::Offset).or_else(|| moment::parse(text).map(Self::Instant));
        time.ok_or_else(|| "expected a time in UTC, such as 02:00, 'Mon 02:00' or 2026-11-28T02:00:00Z".to_owned())
    }

    fn offset(text: &str) -> Option<Duration> {
        let (day, time) = match text.split_once(' ') {
            None => (0, text),
            Some((day, time)) => {
                let day = day.get(..3)?.to_ascii_lowercase();
                (DAYS.iter().position(|known| *known == day)?, time)
            }
        };
        let part = |text: &str, most| {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<u64>().ok().filter(|part| is_number && *part <= most)
        };
        let seconds = match time.split(':').collect::<Vec<_>>()[..] {
            [hours, minutes] => part(hours, 23)? * 3_600 + part(minutes, 59)? * 60,
            [hours, minutes, seconds] => part(hours, 23)? * 3_600 + part(minutes, 59)? * 60 + part(seconds, 59)?,
            _ => return None,
        };
        Some(DAY * u32::try_from(day).ok()? + Duration::from_secs(seconds))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    #[test]
    fn times_of_a_schedule_are_within_a_day_or_a_week_or_planned() {
        let hours = |hours: u64| At::Offset(Duration::from_secs(hours * 3_600));
        for (text, at) in [
            ("02:00", hours(2)),
            ("2:00:00", hours(2)),
            ("Thu 00:00", hours(0)),
            ("monday 03:00", hours(4 * 24 + 3)),
            ("1970-01-02T01:00:00Z", At::Instant(UNIX_EPOCH + Duration::from_secs(25 * 3_600))),
            ("1970-01-02T01:00:00+01:00", At::Instant(UNIX_EPOCH + Duration::from_secs(24 * 3_600))),
        ] {
            assert_eq!(At::parse(text), Ok(at), "{text}");
        }
        for text in
            ["", "2", "24:00", "02:60", "02:00:00:00", "02:00:", "xyz 02:00", "-1:00", "2026-11-28", "02:00 Mon"]
        {
            assert!(At::parse(text).is_err_and(|why| why.contains("02:00")), "{text}");
        }
    }
}
