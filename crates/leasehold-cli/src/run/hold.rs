//! The lock of `run`, of whichever kind the options name.

use super::nested;
use super::times::Times;
use crate::args::RunOptions;
use crate::failure::{Exit, Failure, passes};
use crate::look::{Unseen, lock_at, of_a_client};
use crate::shown::counted;
use leasehold::kind::{Any, Fenced, Permit};
use leasehold::{AnyLock, Client, Error, Guard, HolderId, LossReason, Lost};
use std::ffi::OsString;
use std::time::Duration;

/// After this time without the lock, a look tells whether there is one at all.
const LOOK: Duration = Duration::from_secs(1);

/// How long the answer to a release may take. The command is done by then, and its caller waits.
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
}

/// Evaluates an expression for the guard of each kind.
macro_rules! each {
    ($held:expr, $guard:ident => $value:expr) => {
        match $held {
            Held::Lock($guard) => $value,
            Held::Kept($guard) => $value,
            Held::KeptFenced($guard) => $value,
            Held::Permit($guard) => $value,
        }
    };
}

/// The answer to a release.
pub(super) enum Released {
    Done,
    Lost {
        error: Error,
        /// The server did not have the hold any more, or had another count: it is not known since when.
        on_server: bool,
    },
    NotConfirmed(String),
}

/// Acquires the lock of the options. The wait includes the setup of a semaphore, and outages of the server.
///
/// # Errors
///
/// The lock is busy, the server refuses it, or the server is not reachable in time.
pub(super) async fn acquire(client: &Client, options: &RunOptions, times: Times) -> Result<Held, Failure> {
    let [mut pause, longest] = PAUSES;
    loop {
        match attempt(client, options, times).await? {
            Ok(held) => return Ok(held),
            Err(Error::WaitElapsed { lock, holder, .. }) => {
                // The first field of an application's hash looks like a holder.
                holder.iter().try_for_each(|holder| of_a_client(&lock, holder.as_str()))?;
                // A large hash is not read.
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
            let what = format!("the permits of {:?} are not known", options.name);
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
    let name = &options.name;
    match options.at_least {
        None => lock(client, options).acquire().wait(wait).await.map(Held::Lock),
        Some(least) if options.fenced => {
            client.fenced_lock(name).acquire().keep_busy_for(least).wait(wait).await.map(Held::KeptFenced)
        }
        Some(least) => client.lock(name).acquire().keep_busy_for(least).wait(wait).await.map(Held::Kept),
    }
}

/// Completes when something else than a lock has the name: a wait for that would end by no release.
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
    match lock_at(client, &options.name).await {
        Err(Unseen::Failed(failure)) if failure.exit() == Exit::Conflict => Some(failure),
        // The user may lack the rights for this look. The acquire has shown that it has those for its own kind.
        Err(Unseen::Refused) => match client.lock(&options.name).inspect().await {
            Ok(Some(holder)) => of_a_client(&options.name, holder.id.as_str()).err(),
            Err(error @ Error::KeyConflict { .. }) => Some(error.into()),
            _ => None,
        },
        _ => None,
    }
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

/// Sets the number of permits where there is none, and refuses another one that is there: it would let more run than this caller expects.
async fn agree_on(semaphore: &leasehold::Semaphore, permits: u32) -> Result<(), Failure> {
    let [mut pause, longest] = PAUSES;
    let counts = loop {
        // Both at once take one round trip. A look that comes first finds no semaphore, or the number that stays.
        match tokio::try_join!(semaphore.try_set_permits(permits), semaphore.inspect()) {
            Ok((_, counts)) => break counts,
            // To set them once more changes nothing where they are set.
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
        "the semaphore {name:?} has {} in all, but --permits says {permits}; use one number everywhere, or change it: leasehold permits NAME {permits}",
        counted(capacity, "permit")
    );
    Err(Failure::new(Exit::Conflict, text).of_lock(name))
}

/// Says who holds a busy lock, as far as that can be learned.
async fn busy(client: &Client, options: &RunOptions, lock: &str, holder: Option<HolderId>) -> Failure {
    let who = match holder {
        Some(id) if id.as_str().ends_with(KEPT) => {
            "; it was held a short time ago, and --at-least keeps it busy".to_owned()
        }
        Some(id) => format!("; {} holds it", with_process(client, &id).await),
        None => String::new(),
    };
    let text = match options.wait {
        Some(wait) => format!("the lock {lock:?} stayed busy for the whole wait of {wait:?}{who}"),
        None => format!("the lock {lock:?} is busy{who}"),
    };
    Failure::new(Exit::Busy, text).of_lock(lock).with_code(options.busy_exit).quiet(options.quiet)
}

/// A holder, with its process if it has announced itself.
pub(super) async fn with_process(client: &Client, id: &HolderId) -> String {
    let process = client.who_is(id).await.ok().flatten();
    let process = process.map(|who| format!(" ({}, process {} on {})", who.application, who.pid, who.host));
    format!("{id}{}", process.unwrap_or_default())
}

impl Held {
    /// The variables that the command sees. Without a fencing token its variable is removed: one of a command around this one would be
    /// that of another lock.
    pub(super) fn environment(&self, name: &str) -> Vec<(&'static str, Option<OsString>)> {
        let holder = each!(self, guard => guard.holder_id());
        let token = match self {
            Self::Lock(guard) => guard.fencing_token(),
            Self::KeptFenced(guard) => Some(guard.fencing_token()),
            Self::Kept(_) | Self::Permit(_) => None,
        };
        let (around, holders) = nested::variable(&holder);
        vec![
            (around, Some(holders.into())),
            ("LEASEHOLD_NAME", Some(name.into())),
            ("LEASEHOLD_HOLDER", Some(holder.into_string().into())),
            ("LEASEHOLD_FENCING_TOKEN", token.map(|token| token.to_string().into())),
        ]
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

    /// Gives the lock back.
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
