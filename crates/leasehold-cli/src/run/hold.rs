//! Acquires and releases the lock of `run`.

use super::times::Times;
use super::{nested, once};
use crate::args::RunOptions;
use crate::failure::{Exit, Failure, passes};
use crate::look::{Unseen, lock_at, of_a_client};
use crate::shown::counted;
use leasehold::fence::FencingToken;
use leasehold::group::{Member, MultiGuard};
use leasehold::kind::{Any, Fenced, Permit};
use leasehold::once::{Once, Period};
use leasehold::{AnyLock, Client, Error, Guard, HoldToken, HolderId, LossReason, Lost, MultiLock};
use std::ffi::OsString;
use std::time::Duration;

/// After this wait, `run` checks whether the name is a lock at all.
const LOOK: Duration = Duration::from_secs(1);

/// Timeout of the release at the end, while the caller waits.
const RELEASE: Duration = Duration::from_secs(5);

/// The suffix of a holder id whose lock stays busy after its release.
const KEPT: char = '!';

/// The first and the longest pause after a failed attempt.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A held lock or permit. Kinds that support `--at-least` have their own variants, because not every kind does.
pub(super) enum Held {
    Lock(Guard<Any>),
    Kept(Guard),
    KeptFenced(Guard<Fenced>),
    Permit(Guard<Permit>),
    /// The lock of a period, and the job that it belongs to.
    Once(Guard, Once),
    Several(MultiGuard),
}

/// Evaluates an expression for the guard of each kind.
macro_rules! each {
    ($held:expr, $guard:ident => $value:expr) => {
        match $held {
            Held::Lock($guard) => $value,
            Held::Kept($guard) => $value,
            Held::KeptFenced($guard) => $value,
            Held::Permit($guard) => $value,
            Held::Once($guard, _) => $value,
            Held::Several($guard) => $value,
        }
    };
}

/// The result of a release.
pub(super) enum Released {
    Done,
    Lost {
        error: Error,
        /// The hold was missing or had another count on the server, at an unknown time.
        on_server: bool,
    },
    NotConfirmed(String),
}

/// Acquires the lock of the options. The wait includes the setup of a semaphore, and outages of the server.
///
/// # Errors
///
/// The lock is busy, the server refuses it, or the server is not reachable in time.
pub(super) async fn acquire(
    client: &Client,
    options: &RunOptions,
    period: Option<&Period>,
    times: Times,
) -> Result<Held, Failure> {
    let [mut pause, longest] = PAUSES;
    loop {
        let attempted = match period {
            Some(period) => once::begin(client, options, period, times).await?,
            None => attempt(client, options, times).await?,
        };
        match attempted {
            Ok(held) => return Ok(held),
            Err(Error::WaitElapsed { lock, holder, .. }) => {
                // The name may be an application's hash, whose first field looks like a holder.
                holder.iter().try_for_each(|holder| of_a_client(&lock, holder.as_str()))?;
                // The script does not return a holder of a large hash.
                if holder.is_none()
                    && let Some(failure) = no_lock(client, options).await
                {
                    return Err(failure);
                }
                return Err(busy(client, options, &lock, holder).await);
            }
            Err(error) if passes(&error) && times.allow(pause) => tokio::time::sleep(pause).await,
            Err(error) => return Err(Failure::of_an_acquire(error)),
        }
        pause = (pause * 2).min(longest);
    }
}

/// One acquire, which ends early if the server is unreachable.
async fn attempt(client: &Client, options: &RunOptions, times: Times) -> Result<Result<Held, Error>, Failure> {
    match options.permits {
        Some(permits) => {
            let semaphore = client.semaphore(&options.name);
            let what = format!("cannot set up the semaphore {:?}", options.name);
            times
                .prepare(&what, agree_on(&semaphore, permits))
                .await
                .map_err(|failure| failure.of_lock(&options.name))?;
            Ok(semaphore.acquire().wait(times.for_lock()).await.map(Held::Permit))
        }
        None => {
            tokio::select! {
                acquired = of_a_lock(client, options, times.for_lock()) => Ok(acquired),
                no_lock = finds_no_lock(client, options) => Err(no_lock),
            }
        }
    }
}

async fn of_a_lock(client: &Client, options: &RunOptions, wait: Duration) -> Result<Held, Error> {
    if !options.lock.is_empty() {
        return MultiLock::new(options.names().map(|name| member(client, options, name)))
            .acquire()
            .wait(wait)
            .await
            .map(Held::Several);
    }
    let name = &options.name;
    match options.at_least {
        None => lock(client, options).acquire().wait(wait).await.map(Held::Lock),
        Some(least) if options.fenced => {
            client.fenced_lock(name).acquire().keep_busy_for(least).wait(wait).await.map(Held::KeptFenced)
        }
        Some(least) => client.lock(name).acquire().keep_busy_for(least).wait(wait).await.map(Held::Kept),
    }
}

/// Completes if something else uses the name, because such a wait would never end.
async fn finds_no_lock(client: &Client, options: &RunOptions) -> Failure {
    tokio::time::sleep(LOOK).await;
    match no_lock(client, options).await {
        Some(failure) => failure,
        None => std::future::pending().await,
    }
}

/// The failure for a name in use by something that is not a lock. `None` if the server does not answer: the acquire
/// then reports the outage.
async fn no_lock(client: &Client, options: &RunOptions) -> Option<Failure> {
    for name in options.names() {
        let failure = match lock_at(client, name).await {
            Err(Unseen::Failed(failure)) if failure.exit() == Exit::Conflict => Some(failure),
            // The acquire has shown that this user has the rights for its own kind.
            Err(Unseen::Refused) => match client.lock(name).inspect().await {
                Ok(Some(holder)) => of_a_client(name, holder.id.as_str()).err(),
                Err(error @ Error::KeyConflict { .. }) => Some(error.into()),
                _ => None,
            },
            _ => None,
        };
        if failure.is_some() {
            return failure;
        }
    }
    None
}

fn lock(client: &Client, options: &RunOptions) -> AnyLock {
    let name = &options.name;
    match (options.fair, options.fenced) {
        _ if options.read => client.read_write_lock(name).read().into(),
        _ if options.write => client.read_write_lock(name).write().into(),
        (true, true) => client.fair_lock(name).fenced().into(),
        (true, false) => client.fair_lock(name).into(),
        (false, true) => client.fenced_lock(name).into(),
        (false, false) => client.lock(name).into(),
    }
}

/// One of several locks.
fn member(client: &Client, options: &RunOptions, name: &str) -> Member {
    match options {
        _ if options.read => client.read_write_lock(name).read().into(),
        _ if options.write => client.read_write_lock(name).write().into(),
        _ if options.fair => client.fair_lock(name).into(),
        _ => client.lock(name).into(),
    }
}

/// Sets the number of permits of a new semaphore. Rejects another number, which would allow more or fewer commands.
async fn agree_on(semaphore: &leasehold::Semaphore, permits: u32) -> Result<(), Failure> {
    let [mut pause, longest] = PAUSES;
    let counts = loop {
        // Both take one round trip, and either order is correct.
        match tokio::try_join!(semaphore.try_set_permits(permits), semaphore.inspect()) {
            Ok((_, counts)) => break counts,
            // try_set_permits is idempotent.
            Err(error) if passes(&error) => tokio::time::sleep(pause).await,
            Err(error) => return Err(error.into()),
        }
        pause = (pause * 2).min(longest);
    };
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

/// The failure for a busy lock, with its holder if known.
async fn busy(client: &Client, options: &RunOptions, lock: &str, holder: Option<HolderId>) -> Failure {
    let who = match holder {
        Some(id) if id.as_str().ends_with(KEPT) => "; --at-least keeps it busy after a recent run".to_owned(),
        Some(id) => format!("; held by {}", with_process(client, &id).await),
        None => String::new(),
    };
    let text = match options.wait {
        Some(wait) => format!("the lock {lock:?} was busy for {wait:?} (--wait){who}"),
        None => format!("the lock {lock:?} is busy{who}"),
    };
    Failure::new(Exit::Busy, text)
        .of_lock(lock)
        .with_code(options.busy_exit.unwrap_or(Exit::Busy as u8))
        .quiet(options.quiet)
}

/// A holder, with its announced process.
pub(super) async fn with_process(client: &Client, id: &HolderId) -> String {
    let process = client.who_is(id).await.ok().flatten();
    let process = process.map(|who| format!(" ({}, process {} on {})", who.application, who.pid, who.host));
    format!("{id}{}", process.unwrap_or_default())
}

impl Held {
    /// The ids of the hold, separated by spaces: several for several locks.
    pub(super) fn ids(&self) -> String {
        self.holders().into_iter().map(HolderId::into_string).collect::<Vec<_>>().join(" ")
    }

    /// The fencing token of the grant, if the kind of the lock has tokens.
    pub(super) fn fencing_token(&self) -> Option<FencingToken> {
        match self {
            Self::Lock(guard) => guard.fencing_token(),
            Self::KeptFenced(guard) => Some(guard.fencing_token()),
            Self::Kept(_) | Self::Permit(_) | Self::Once(..) | Self::Several(_) => None,
        }
    }

    /// A token that reports the end of the hold.
    pub(super) fn token(&self) -> HoldToken {
        each!(self, guard => guard.cancellation_token())
    }

    /// The variables of the command. Without a fencing token, this removes the variable of an enclosing run, which belongs
    /// to another lock.
    pub(super) fn environment(&self, name: &str) -> Vec<(&'static str, Option<OsString>)> {
        let token = self.fencing_token();
        let (around, all) = nested::variable(&self.holders());
        vec![
            (around, Some(all.into())),
            ("LEASEHOLD_NAME", Some(name.into())),
            ("LEASEHOLD_HOLDER", Some(self.ids().into())),
            ("LEASEHOLD_FENCING_TOKEN", token.map(|token| token.to_string().into())),
        ]
    }

    /// The names of the holds on the server: several for several locks.
    fn holders(&self) -> Vec<HolderId> {
        match self {
            Self::Lock(guard) => vec![guard.holder_id()],
            Self::Kept(guard) | Self::Once(guard, _) => vec![guard.holder_id()],
            Self::KeptFenced(guard) => vec![guard.holder_id()],
            Self::Permit(guard) => vec![guard.holder_id()],
            Self::Several(guard) => guard.holder_ids(),
        }
    }

    /// The command has succeeded: with `--once` its period is done.
    pub(super) fn note_success(&self) {
        if let Self::Once(guard, once) = self {
            once.mark_done(guard);
        }
    }

    /// Completes when the lock is lost.
    pub(super) async fn lost(&self) -> Lost {
        each!(self, guard => guard.lost().await)
    }

    /// The time until the lease ends without another renewal.
    pub(super) fn remaining(&self) -> Duration {
        each!(self, guard => guard.remaining())
    }

    pub(super) fn is_held(&self) -> bool {
        each!(self, guard => guard.is_held())
    }

    /// Releases the lock.
    pub(super) async fn release(self) -> Released {
        let release = async { each!(self, guard => guard.release().await) };
        match tokio::time::timeout(RELEASE, release).await {
            Ok(Ok(())) => Released::Done,
            Ok(Err(error @ Error::Lost { reason, .. })) => {
                let on_server = matches!(reason, LossReason::Removed | LossReason::CountMismatch);
                Released::Lost { error, on_server }
            }
            Ok(Err(error)) => Released::NotConfirmed(error.to_string()),
            Err(_) => Released::NotConfirmed("the server did not answer in time".to_owned()),
        }
    }
}
