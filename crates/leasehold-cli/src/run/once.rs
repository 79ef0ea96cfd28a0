//! `run --once`: the period of a job, and the outcome of a completed job.

use super::child::Ended;
use super::target::{Job, Target};
use crate::args::{At, Every, RunOptions};
use crate::duration::show;
use crate::failure::{Exit, Failure};
use crate::moment;
use crate::people::ask;
use crate::seen::process_as_text;
use leasehold::Client;
use leasehold::inspect::Holder;
use leasehold::once::Period;
use std::time::Duration;

/// The exit codes of a command that cannot be executed, or was not found.
const NOT_EXECUTED: [u8; 2] = [126, 127];

/// Interval at which a waiting host checks whether the job is done.
const LOOK: Duration = Duration::from_secs(1);

/// Returns the period of this start, by the clock or by `--at`. `None` without `--once`.
///
/// # Errors
///
/// Another host could choose another period, or the options contradict each other.
pub(super) fn period(options: &RunOptions) -> Result<Option<Period>, Failure> {
    let period = match (&options.once, options.at) {
        (None, _) => return Ok(None),
        (Some(Every::Key(key)), None) => Period::key(key),
        (Some(Every::Key(key)), Some(_)) => {
            return Err(usage(
                options,
                &format!("--at needs a period such as --once 1d, and {key:?} is the key of a period"),
            ));
        }
        (Some(Every::Time(every)), None) => Period::every(*every),
        (Some(Every::Time(every)), Some(At::Phase(phase))) => Period::every(*every).offset(phase),
        (Some(Every::Time(every)), Some(At::Moment(moment))) => {
            Period::at(moment).keep(Period::every(*every).kept_for())
        }
    };
    let period = match options.at_least {
        Some(time) => period.keep(time),
        None => period,
    };
    match (period.refusal(), &options.once, options.at) {
        (None, ..) => Ok(Some(period)),
        (Some(_), Some(Every::Time(every)), at @ (None | Some(At::Phase(_)))) => {
            let (every, now) = (show(*every), moment::now());
            let advice = match at {
                None => "set --at to the time of the schedule, such as --at 02:00".to_owned(),
                // A user started the job by hand.
                _ => format!("for a start by hand set --at to a date and time, such as --at {now}"),
            };
            let text = format!(
                "the clock of this host reads {now}, about halfway between two times of a schedule with {every} between them, so \
                 that another host may choose the other time; {advice}"
            );
            Err(usage(options, &text))
        }
        (Some(why), ..) => Err(usage(options, &format!("invalid --once or --at: {why}"))),
    }
}

fn usage(options: &RunOptions, text: &str) -> Failure {
    Failure::new(Exit::Usage, text).of_lock(&options.name)
}

/// Returns the period for messages and for the command: the key, or the scheduled time.
pub(super) fn shown(options: &RunOptions, period: &Period) -> String {
    match (&options.once, period.name().parse()) {
        (Some(Every::Time(_)), Ok(millis)) => moment::of_schedule(millis),
        _ => period.name().to_owned(),
    }
}

/// Returns whether this end of the command closes the period.
pub(super) fn is_done(ended: Ended, retry_failed: bool) -> bool {
    match ended {
        Ended::Exited(0) => true,
        Ended::Exited(code) => !retry_failed && !NOT_EXECUTED.contains(&code),
        Ended::Killed(_) => false,
    }
}

/// Completes when another host has done the job. The lock then stays busy, so the server does not wake waiters.
pub(super) async fn finds_done(client: &Client, target: &Target<'_>) -> Failure {
    let Some(job) = &target.job else { return std::future::pending().await };
    loop {
        // The acquire reports errors.
        if let Ok(Some(holder)) = job.once.lock().inspect().await
            && holder.is_kept()
        {
            return done(client, target, job, &holder).await;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Describes the process that has done the job in this period, and when.
pub(super) async fn done(client: &Client, target: &Target<'_>, job: &Job, holder: &Holder) -> Failure {
    let (options, lock) = (target.options, &target.shown);
    let person = ask(client, holder.id.as_str()).await;
    // The remaining time to live of the job's mark yields its age. All hosts usually set an equal time to live.
    let ago = holder.remaining.and_then(|left| job.keep.checked_sub(left));
    let ago = ago.or_else(|| person.as_ref().map(|person| person.record.written_ago));
    let who = person.map_or_else(|| holder.id.to_string(), |person| process_as_text(&person.record));
    let when = ago.map(|ago| format!(", ended at {}, {} ago", moment::before(ago), show(ago))).unwrap_or_default();
    let text = format!(
        "{:?} has already run in the period {}: {who}{when}; to run it again, free the lock {lock:?} with leasehold unlock",
        options.name, job.period
    );
    let failure = Failure::new(Exit::Busy, text).of_lock(lock).called("already_done");
    failure.with_code(options.busy_exit).quiet(options.quiet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_command_closes_the_period_and_killed_command_leaves_it_open() {
        for (ended, done, retried) in [
            (Ended::Exited(0), true, true),
            (Ended::Exited(1), true, false),
            (Ended::Exited(255), true, false),
            (Ended::Exited(126), false, false),
            (Ended::Exited(127), false, false),
            (Ended::Killed(9), false, false),
        ] {
            assert_eq!((is_done(ended, false), is_done(ended, true)), (done, retried), "{ended:?}");
        }
    }
}
