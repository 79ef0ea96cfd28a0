//! Acquires and releases the locks of `run`.

use super::child::Ended;
use super::target::Target;
use super::times::Times;
use super::{nested, once};
use crate::duration::show;
use crate::failure::{Exit, Failure, is_full, passes};
use crate::look::{Unseen, is_of_a_client, lock_at, look, of_a_client};
use crate::people::ask;
use crate::shown::counted;
use leasehold::fence::FencingToken;
use leasehold::group::MultiGuard;
use leasehold::kind::{Any, Fenced, Permit};
use leasehold::once::Once;
use leasehold::{AnyLock, Client, Error, Guard, HoldToken, HolderId, LossReason, Lost};
use std::ffi::OsString;
use std::time::Duration;

/// Delay before `run` checks whether the name is a lock.
const LOOK: Duration = Duration::from_secs(1);

/// Timeout of the final release.
const RELEASE: Duration = Duration::from_secs(5);

/// The suffix of a holder id that keeps its lock busy after the release.
const KEPT: char = '!';

/// The first and the longest pause after a failed attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A held lock or permit. Only some kinds support `--at-least`, so they have their own variants.
pub(super) enum Held {
    Lock(Guard<Any>),
    Kept(Guard),
    KeptFenced(Guard<Fenced>),
    Permit(Guard<Permit>),
    Several(MultiGuard),
    Job(Guard, Once),
}

/// Evaluates an expression with the guard of any kind.
macro_rules! each {
    ($held:expr, $guard:ident => $value:expr) => {
        match $held {
            Held::Lock($guard) => $value,
            Held::Kept($guard) => $value,
            Held::KeptFenced($guard) => $value,
            Held::Permit($guard) => $value,
            Held::Several($guard) => $value,
            Held::Job($guard, _) => $value,
        }
    };
}

/// The result of a release.
pub(super) enum Released {
    Done,
    Lost {
        error: Error,
        /// The hold was missing on the server, or had another count, since an unknown time.
        on_server: bool,
    },
    NotConfirmed(String),
}

/// Acquires the locks of the options. The wait includes the setup of a semaphore, and outages of the server.
///
/// # Errors
///
/// The lock is busy, the server refuses it, or the server is not reachable in time.
pub(super) async fn acquire(client: &Client, target: &Target<'_>, times: Times) -> Result<Held, Failure> {
    let [mut pause, longest] = PAUSES;
    loop {
        match attempt(client, target, times).await? {
            Ok(held) => return Ok(held),
            Err(Error::WaitElapsed { lock, holder, .. }) => {
                // The first field of an application's hash looks like a holder.
                holder.iter().try_for_each(|holder| of_a_client(&lock, holder.as_str()))?;
                if let Some(failure) = already_done(client, target).await {
                    return Err(failure);
                }
                // For a large hash, the script returns no holder.
                if holder.is_none()
                    && let Some(failure) = none_is_a_lock(client, target).await
                {
                    return Err(failure);
                }
                return Err(busy(client, target, &lock, holder).await);
            }
            Err(error) if passes(&error) && times.allow(pause) => {
                target.trouble.replace(Some(Failure::of_an_acquire(error).to_string()));
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(Failure::of_an_acquire(error)),
        }
        pause = (pause * 2).min(longest);
    }
}

/// Makes one acquire, which ends early if the server is unreachable.
async fn attempt(client: &Client, target: &Target<'_>, times: Times) -> Result<Result<Held, Error>, Failure> {
    match target.options.permits {
        Some(permits) => {
            let name = &target.shown;
            let semaphore = client.semaphore(name);
            let what = format!("cannot set up the semaphore {name:?}");
            let agreed = times.prepare(&what, agree_on(&semaphore, permits, target, times)).await;
            agreed.map_err(|failure| match target.trouble.take() {
                Some(why) => failure.in_other_words(|text| format!("{text}; {why}")).of_lock(name),
                None => failure.of_lock(name),
            })?;
            Ok(semaphore.acquire().wait(times.for_lock()).await.map(Held::Permit))
        }
        None => {
            tokio::select! {
                biased;
                acquired = of_a_lock(client, target, times.for_lock()) => Ok(acquired),
                done = once::finds_done(client, target), if times.waits() => Err(done),
                no_lock = finds_no_lock(client, target) => Err(no_lock),
            }
        }
    }
}

async fn of_a_lock(client: &Client, target: &Target<'_>, wait: Duration) -> Result<Held, Error> {
    let options = target.options;
    if let Some(job) = &target.job {
        return job.once.lock().acquire().wait(wait).await.map(|guard| Held::Job(guard, job.once.clone()));
    }
    let [name] = &target.names[..] else {
        let members = target.names.iter().map(|name| lock(client, target, name));
        return client.multi_lock(members).acquire().wait(wait).await.map(Held::Several);
    };
    match options.at_least {
        None => lock(client, target, name).acquire().wait(wait).await.map(Held::Lock),
        Some(least) if options.fenced => {
            client.fenced_lock(name).acquire().keep_busy_for(least).wait(wait).await.map(Held::KeptFenced)
        }
        Some(least) => client.lock(name).acquire().keep_busy_for(least).wait(wait).await.map(Held::Kept),
    }
}

/// Completes if the name is not a lock, because the wait would never end.
async fn finds_no_lock(client: &Client, target: &Target<'_>) -> Failure {
    tokio::time::sleep(LOOK).await;
    match none_is_a_lock(client, target).await {
        Some(failure) => failure,
        None => std::future::pending().await,
    }
}

/// Returns the failure for a job that is already done in its period.
async fn already_done(client: &Client, target: &Target<'_>) -> Option<Failure> {
    let job = target.job.as_ref()?;
    let holder = job.once.lock().inspect().await.ok().flatten().filter(leasehold::inspect::Holder::is_kept)?;
    Some(once::done(client, target, job, &holder).await)
}

/// Returns the failure of the first name that is not a lock.
async fn none_is_a_lock(client: &Client, target: &Target<'_>) -> Option<Failure> {
    for name in &target.names {
        if let Some(failure) = no_lock(client, name).await {
            return Some(failure);
        }
    }
    None
}

/// Returns the failure for a name that is not a lock. `None` if the server does not reply: the acquire then reports the
/// outage.
async fn no_lock(client: &Client, name: &str) -> Option<Failure> {
    match lock_at(client, name).await {
        Err(Unseen::Failed(failure)) if failure.exit() == Exit::Conflict => Some(failure),
        // The acquire has proved the rights for its own kind.
        Err(Unseen::Refused) => match client.lock(name).inspect().await {
            Ok(Some(holder)) => of_a_client(name, holder.id.as_str()).err(),
            Err(error @ Error::KeyConflict { .. }) => Some(error.into()),
            _ => None,
        },
        _ => None,
    }
}

fn lock(client: &Client, target: &Target<'_>, name: &str) -> AnyLock {
    let options = target.options;
    match (options.fair, options.fenced) {
        _ if options.read => client.read_write_lock(name).read().into(),
        _ if options.write => client.read_write_lock(name).write().into(),
        (true, true) => client.fair_lock(name).fenced().into(),
        (true, false) => client.fair_lock(name).into(),
        (false, true) => client.fenced_lock(name).into(),
        (false, false) => client.lock(name).into(),
    }
}

/// Sets the number of permits of a new semaphore. Rejects a semaphore with a different number.
async fn agree_on(
    semaphore: &leasehold::Semaphore,
    permits: u32,
    target: &Target<'_>,
    times: Times,
) -> Result<(), Failure> {
    let [mut pause, longest] = PAUSES;
    let counts = loop {
        // Send both commands in one round trip. Either order is correct.
        match tokio::try_join!(semaphore.try_set_permits(permits), semaphore.inspect()) {
            Ok((_, counts)) => break counts,
            // try_set_permits is idempotent.
            // After a failover a retry succeeds soon. On a full server it does not.
            Err(error) if passes(&error) && (times.waits() || !is_full(&error)) => {
                target.trouble.replace(Some(Failure::from(error).to_string()));
                tokio::time::sleep(pause).await;
            }
            Err(error) => return Err(error.into()),
        }
        pause = (pause * 2).min(longest);
    };
    target.trouble.take();
    let Some(counts) = counts else { return Ok(()) };
    let capacity = counts.available.saturating_add_unsigned(counts.held);
    if capacity == i64::from(permits) {
        return Ok(());
    }
    let name = semaphore.name();
    let text = format!(
        "the semaphore {name:?} has {}, but --permits is {permits}; use the same number everywhere, or change it with leasehold permits NAME {permits}",
        counted(capacity, "permit")
    );
    Err(Failure::new(Exit::Conflict, text).of_lock(name))
}

/// Returns the failure for a busy lock, with its holder if known.
async fn busy(client: &Client, target: &Target<'_>, lock: &str, holder: Option<HolderId>) -> Failure {
    let options = target.options;
    let who = match holder {
        None if target.names.len() > 1 => {
            first_held(client, target).await.map(|who| format!("; {who}")).unwrap_or_default()
        }
        Some(id) if id.as_str().ends_with(KEPT) => "; --at-least keeps it busy after a recent run".to_owned(),
        Some(id) => format!("; held by {}", with_process(client, id.as_str()).await),
        None => String::new(),
    };
    let text = match options.wait {
        Some(wait) => format!("the lock {lock:?} was busy for {wait:?} (--wait){who}"),
        None => format!("the lock {lock:?} is busy{who}"),
    };
    Failure::new(Exit::Busy, text).of_lock(lock).with_code(options.busy_exit).quiet(options.quiet)
}

/// Describes the first held lock of several, with its holder.
pub(super) async fn first_held(client: &Client, target: &Target<'_>) -> Option<String> {
    for name in &target.names {
        if let Some(hold) = look(client, name).await.ok().flatten().and_then(|seen| seen.holds.into_iter().next()) {
            let who = with_process(client, hold.holder.id.as_str()).await;
            return Some(format!("{name:?} is held by {who}"));
        }
    }
    None
}

/// Describes a holder: its id, and if known its process, the age of its hold and its note.
pub(super) async fn with_process(client: &Client, id: &str) -> String {
    let Some(person) = ask(client, id).await else {
        return if is_of_a_client(id) { format!("{id} (a JVM, or a program without a record)") } else { id.to_owned() };
    };
    let who = &person.record;
    let age = person.held(id).map(|age| format!(", for {}", show(age))).unwrap_or_default();
    let note = if who.note.is_empty() { String::new() } else { format!(": {}", who.note) };
    format!("{id} ({}, process {} on {}{age}{note})", who.application, who.pid, who.host)
}

impl Held {
    fn holders(&self) -> Vec<HolderId> {
        match self {
            Self::Several(guard) => guard.holder_ids(),
            Self::Lock(guard) => vec![guard.holder_id()],
            Self::Kept(guard) | Self::Job(guard, _) => vec![guard.holder_id()],
            Self::KeptFenced(guard) => vec![guard.holder_id()],
            Self::Permit(guard) => vec![guard.holder_id()],
        }
    }

    /// Returns the ids of the holds, separated by spaces.
    pub(super) fn ids(&self) -> String {
        self.holders().into_iter().map(HolderId::into_string).collect::<Vec<_>>().join(" ")
    }

    /// Returns the fencing token of the grant, if the kind of the lock has tokens.
    pub(super) fn fencing_token(&self) -> Option<FencingToken> {
        match self {
            Self::Lock(guard) => guard.fencing_token(),
            Self::KeptFenced(guard) => Some(guard.fencing_token()),
            Self::Kept(_) | Self::Permit(_) | Self::Job(..) | Self::Several(_) => None,
        }
    }

    /// Returns a token that reports the end of the hold.
    pub(super) fn token(&self) -> HoldToken {
        each!(self, guard => guard.cancellation_token())
    }

    /// Returns the command's variables. Unsets variables of an enclosing run for another lock.
    pub(super) fn environment(&self, target: &Target<'_>) -> Vec<(&'static str, Option<OsString>)> {
        let token = self.fencing_token();
        let (around, all) = nested::variable(&self.holders());
        vec![
            (around, Some(all.into())),
            ("LEASEHOLD_NAME", Some(target.own_name().into())),
            ("LEASEHOLD_HOLDER", Some(self.ids().into())),
            ("LEASEHOLD_FENCING_TOKEN", token.map(|token| token.to_string().into())),
            ("LEASEHOLD_PERIOD", target.job.as_ref().map(|job| job.period.clone().into())),
        ]
    }

    /// Marks the job of `--once` as done, if the command's end counts as a run.
    pub(super) fn mark_done(&self, ended: Ended, retry_failed: bool) {
        if let Self::Job(guard, once) = self
            && once::is_done(ended, retry_failed)
        {
            once.mark_done(guard);
        }
    }

    /// Completes when the lock is lost.
    pub(super) async fn lost(&self) -> Lost {
        each!(self, guard => guard.lost().await)
    }

    /// Returns the time until the lease ends without another renewal.
    pub(super) fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    pub(super) fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    /// Releases the lock.
    pub(super) async fn release(self) -> Released {
        // Without the mark on the server, another host would run the job again.
        let limit = match &self {
            Self::Job(guard, _) => guard.remaining().max(RELEASE),
            _ => RELEASE,
        };
        let release = async { each!(self, guard => guard.release().await) };
        match tokio::time::timeout(limit, release).await {
            Ok(Ok(())) => Released::Done,
            Ok(Err(error @ Error::Lost { reason, .. })) => {
                let on_server = matches!(reason, LossReason::Removed | LossReason::CountMismatch);
                Released::Lost { error, on_server }
            }
            Ok(Err(error)) => Released::NotConfirmed(error.to_string()),
            Err(_) => Released::NotConfirmed("the server did not reply in time".to_owned()),
        }
    }
}
