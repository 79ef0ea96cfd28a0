//! The errors of the public API. Each error text contains the failure, the lock and the remedy.
//!
//! `Display` prints the complete text, including the text of the source error, so a single log line suffices.
//! [`source`](std::error::Error::source) returns the source error for programs that match on its type: a [`ServerError`], an
//! [`std::io::Error`] or an [`InvalidInput`]. A report that prints the whole chain, such as `{:#}` of `anyhow`, repeats the text of the source.
//! Transparent errors have the text and the source of the wrapped error. A `message` without a source may join the texts of several
//! failures.

mod advice;
mod cause;
mod connect;
mod invalid;
mod with;

pub use cause::Cause;
pub use connect::ConnectError;
pub use invalid::{InvalidInput, InvalidTicket};
pub use leasehold_core::command::permits::InvalidPermitId;
pub use leasehold_core::link::ServerError;
pub use leasehold_core::name::NameError;
pub use with::WithError;

use crate::client::ids::HolderId;
use crate::client::settings;
use crate::fence::FencingToken;
use leasehold_core::error::{AcquireError, LossReason, MoveError, ReleaseError};
use leasehold_core::link::LinkError;
use std::time::Duration;
use thiserror::Error;

/// The error of an operation on a lock.
///
/// A busy lock is not an error of [`try_acquire`](crate::Lock::try_acquire), which returns `None`. It is an error of an acquire whose wait
/// has elapsed. [Troubleshooting](https://github.com/leasehold/leasehold/blob/main/docs/operations.md#troubleshooting) lists the causes and
/// the remedies of all errors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Other owners held the lock for the caller's whole wait, or a latch did not open in time. Nothing was acquired.
    #[error(
        "the {kind} {lock:?} {}{}; {}",
        still_busy(kind, *waited),
        .holder.as_ref().map(|holder| format!(", held by {holder}")).unwrap_or_default(),
        after_a_wait(kind, *waits_for_itself)
    )]
    WaitElapsed {
        /// The lock.
        lock: String,
        /// The kind of the lock, such as `lock`, `semaphore` or `count-down latch`.
        kind: &'static str,
        /// The time for which the caller waited.
        waited: Duration,
        /// The [`Holder::id`](crate::inspect::Holder::id) of the holder right after the wait. [`Client::who_is`](crate::Client::who_is) may identify
        /// its process. It is `None` if the lock was free by then, or if no reply arrived within the command timeout. It is also `None` for
        /// semaphores, latches, multi locks and quorum locks, which have several owners or members.
        holder: Option<HolderId>,
        /// `true` if an enclosing [owner scope](crate::Owner::scope) holds the lock under another owner. The task waited for itself, and would have
        /// waited forever.
        waits_for_itself: bool,
    },
    /// The lock was lost after its grant. Other holders may have changed the protected data since.
    #[error("{}", lost_text(lock, *reason))]
    Lost {
        /// The lock.
        lock: String,
        /// The reason of the loss.
        reason: LossReason,
    },
    /// The outcome of the operation is unknown: a reply is missing, or the server refused a part of an acquire and its rollback. The
    /// background cleans up after an acquire or a release: the lock is free after at most one lease.
    #[error("the outcome of an operation on the lock {lock:?} is unknown: {message}")]
    OutcomeUnknown {
        /// The lock.
        lock: String,
        /// The error message.
        message: String,
    },
    /// The server was unreachable for `unreachable_after`, or for the whole wait. An acquire certainly did not take effect; the background
    /// retries a release.
    #[error("the server of the lock {lock:?} is unreachable: {message}")]
    Unreachable {
        /// The lock.
        lock: String,
        /// The last failure.
        message: String,
    },
    /// The key of the lock contains other data, or a lock of another kind.
    #[error(
        "the lock {lock:?} cannot be used: its name is already in use as a {kind}; use another name, and do not touch the key, \
         which may be a held lock"
    )]
    KeyConflict {
        /// The lock.
        lock: String,
        /// The type of the key, or the kind of the lock.
        kind: String,
    },
    /// The server refused the command, or a command of its script, and will refuse it again until an operator intervenes. Nothing was acquired; the
    /// background retries a release. If the server also refuses the rollback of preparations, such as a place in a queue, the message contains that
    /// refusal. The background retries the rollback.
    #[error("the server refused a command for the lock {lock:?}: {refusal}{}", advice::advice(refusal))]
    Refused {
        /// The lock.
        lock: String,
        /// The server's error.
        #[source]
        refusal: ServerError,
    },
    /// A search for locks failed before its end. Its earlier results are valid.
    #[error("the search for names that match {pattern:?} failed before its end: {message}")]
    SearchFailed {
        /// The pattern of the search.
        pattern: String,
        /// The last failure.
        message: String,
        /// The server's refusal. If it is `None`, the search may succeed later.
        #[source]
        refusal: Option<ServerError>,
    },
    /// The owner holds the read half of a read-write lock and requests its write half. The acquire would wait for itself.
    #[error(
        "the write half of the lock {lock:?} cannot be acquired: the same owner holds its read half; release the read half \
         first"
    )]
    UpgradeNotSupported {
        /// The lock.
        lock: String,
    },
    /// The caller requested more permits than the semaphore has, so the wait would never end.
    #[error(
        "the semaphore {lock:?} has {capacity} permits in total, fewer than requested; request fewer, or resize it"
    )]
    ExceedsCapacity {
        /// The semaphore.
        lock: String,
        /// The number of permits, available or held.
        capacity: i64,
    },
    /// The store has seen a greater fencing token: the lock has a newer holder, and data that this holder has read may be stale. Nothing was
    /// read or written.
    #[error(
        "the fencing token {token} is stale: {name:?} has seen {registered}, so another holder has acquired the lock since"
    )]
    StaleToken {
        /// The name of the guarded value.
        name: String,
        /// The stale token.
        token: FencingToken,
        /// The greatest token that the store has seen.
        registered: FencingToken,
    },
    /// Another holder has already shown an equal fencing token to the store. The lock's server lost a write, for example in a failover, and granted
    /// the token twice. Nothing was read or written.
    #[error(
        "the fencing token {token} was granted twice: another holder has already shown it to {name:?}, because the lock's \
         server has lost data"
    )]
    DuplicateToken {
        /// The name of the guarded value.
        name: String,
        /// The token.
        token: FencingToken,
    },
    /// The server granted the lock, but too few replicas, or too few disks with [`ClientBuilder::fsync`](crate::ClientBuilder::fsync),
    /// acknowledged the grant in time. The client has rolled the grant back. The
    /// lock is free now, or soon if the server has not confirmed the rollback within the command timeout.
    ///
    /// A durable re-entry of a hold that was granted without the server also fails with this error. The hold is unchanged.
    #[error("the lock {lock:?} was not acquired: {acknowledged} of {wanted} required acknowledgements arrived in time")]
    NotReplicated {
        /// The lock.
        lock: String,
        /// The number of acknowledgements.
        acknowledged: u32,
        /// The required number of acknowledgements.
        wanted: u32,
    },
    /// The hold of a ticket was adopted before, or nobody adopted it within the ticket's life.
    #[error(
        "the ticket for the lock {lock:?} was adopted already or has expired: acquire the lock again, or give the work to the process that \
         adopted it"
    )]
    TicketSpent {
        /// The lock.
        lock: String,
    },
    /// The hold could not become a [`Ticket`](crate::Ticket). The background releases the guard.
    #[error("the lock {lock:?} cannot move to another process, and its guard is released: {message}")]
    NotMovable {
        /// The lock.
        lock: String,
        /// The reason and the remedy.
        message: String,
    },
    /// The client was shut down.
    #[error("the lock {lock:?} was not acquired: its client is shut down")]
    ShutDown {
        /// The lock.
        lock: String,
    },
    /// A name, a duration or another value is invalid. Nothing was sent.
    #[error(transparent)]
    Invalid(#[from] InvalidInput),
}

impl Error {
    /// Returns the name of the lock or of the fenced value. Returns `None` for an invalid value, and for a search, which covers many
    /// locks.
    pub fn lock_name(&self) -> Option<&str> {
        match self {
            Self::WaitElapsed { lock, .. }
            | Self::Lost { lock, .. }
            | Self::OutcomeUnknown { lock, .. }
            | Self::Unreachable { lock, .. }
            | Self::KeyConflict { lock, .. }
            | Self::Refused { lock, .. }
            | Self::UpgradeNotSupported { lock }
            | Self::ExceedsCapacity { lock, .. }
            | Self::NotReplicated { lock, .. }
            | Self::TicketSpent { lock }
            | Self::NotMovable { lock, .. }
            | Self::ShutDown { lock } => Some(lock),
            Self::StaleToken { name, .. } | Self::DuplicateToken { name, .. } => Some(name),
            Self::SearchFailed { .. } | Self::Invalid(_) => None,
        }
    }

    /// Returns the HTTP status for a request that failed with this error before it had any effect.
    ///
    /// | status | errors |
    /// |---|---|
    /// | 400 | a name or another value from the request is invalid |
    /// | 423 (Locked) | other owners held the lock for the whole wait; an API whose clients do not support 423 returns 409 instead |
    /// | 503 | a retry may succeed ([`is_retryable`](Self::is_retryable)), or the client is shut down |
    /// | 500 | all other errors, such as a lost lock, a stale token or a refusal |
    ///
    /// `leasehold-tower` uses this table.
    pub const fn http_status(&self) -> u16 {
        match self {
            Self::Invalid(_) => 400,
            Self::ShutDown { .. } => 503,
            contention if contention.is_contention() => 423,
            later if later.is_retryable() => 503,
            _ => 500,
        }
    }

    /// Returns `true` if the lock was busy for the whole wait, without a failure: `423` rather than `503` in a web service.
    pub const fn is_contention(&self) -> bool {
        matches!(self, Self::WaitElapsed { .. })
    }

    /// Returns `true` if a retry may succeed later: the lock was busy, or the server or its replicas did not reply in time. After a lost hold or a
    /// stale token a retry of the operation fails: the work must start again.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold::Error;
    ///
    /// let unreachable = Error::Unreachable { lock: "stock".to_owned(), message: "it is down".to_owned() };
    /// assert!(unreachable.is_retryable());
    /// assert_eq!(unreachable.http_status(), 503);
    /// ```
    pub const fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::WaitElapsed { .. }
                | Self::Unreachable { .. }
                | Self::OutcomeUnknown { .. }
                | Self::NotReplicated { .. }
                | Self::SearchFailed { refusal: None, .. }
        )
    }

    /// Returns `true` if the operation may have taken effect despite the error. The background releases a lock that was acquired. A write to a
    /// [`FencedValue`](crate::fence::FencedValue) may have succeeded.
    pub const fn may_have_taken_effect(&self) -> bool {
        matches!(self, Self::OutcomeUnknown { .. })
    }

    pub(crate) fn from_acquire(lock: &str, kind: &'static str, waited: Duration, error: AcquireError) -> Self {
        let lock = lock.to_owned();
        match error {
            AcquireError::WaitElapsed => {
                Self::WaitElapsed { lock, kind, waited, holder: None, waits_for_itself: false }
            }
            AcquireError::Lost(reason) => Self::Lost { lock, reason },
            AcquireError::KeyConflict(kind) => Self::KeyConflict { lock, kind },
            AcquireError::Unreachable(mut message) => {
                if waited >= Duration::from_millis(1) {
                    message.push_str(&format!("; retried for {:?}", readable(waited)));
                }
                Self::Unreachable { lock, message }
            }
            AcquireError::OutcomeUnknown(message) => Self::OutcomeUnknown { lock, message },
            AcquireError::Refused(refusal) => Self::Refused { lock, refusal },
            AcquireError::UpgradeNotSupported => Self::UpgradeNotSupported { lock },
            AcquireError::ExceedsCapacity { capacity } => Self::ExceedsCapacity { lock, capacity },
            AcquireError::NotReplicated { acknowledged, wanted } => Self::NotReplicated { lock, acknowledged, wanted },
            AcquireError::Closed => Self::ShutDown { lock },
        }
    }

    pub(crate) fn from_move(lock: &str, error: MoveError) -> Self {
        let lock = lock.to_owned();
        match error {
            MoveError::Lost(reason) => Self::Lost { lock, reason },
            MoveError::Shared(count) => Self::NotMovable {
                lock,
                message: format!(
                    "its hold count is {count}, and only the last guard can move; release the others first"
                ),
            },
            MoveError::Bound(why) => Self::NotMovable { lock, message: format!("{why}; acquire it without that") },
            MoveError::Spent => Self::TicketSpent { lock },
            MoveError::KeyConflict(kind) => Self::KeyConflict { lock, kind },
            MoveError::Unreachable(message) => Self::Unreachable { lock, message },
            MoveError::OutcomeUnknown(message) => Self::OutcomeUnknown { lock, message },
            MoveError::Refused(refusal) => Self::Refused { lock, refusal },
            MoveError::Closed => Self::ShutDown { lock },
        }
    }

    pub(crate) fn from_release(lock: &str, error: ReleaseError) -> Self {
        let lock = lock.to_owned();
        match error {
            ReleaseError::Lost(reason) => Self::Lost { lock, reason },
            ReleaseError::OutcomeUnknown(message) => Self::OutcomeUnknown { lock, message },
            ReleaseError::Unreachable(message) => Self::Unreachable { lock, message },
            ReleaseError::Refused(text) => Self::Refused { lock, refusal: ServerError::new(text) },
        }
    }

    /// Converts the error of a command into the error of the search.
    pub(crate) fn in_a_search(self, pattern: &str) -> Self {
        let (message, refusal) = match self {
            Self::Unreachable { message, .. } | Self::OutcomeUnknown { message, .. } => (message, None),
            Self::Refused { refusal, .. } => (refusal.to_string(), Some(refusal)),
            other => return other,
        };
        // A transient refusal must not stop retries.
        Self::SearchFailed { pattern: pattern.to_owned(), message, refusal: refusal.filter(|one| !one.is_transient()) }
    }

    pub(crate) fn from_link(lock: &str, error: &LinkError) -> Self {
        let lock = lock.to_owned();
        match error {
            LinkError::NotSent(message) => Self::Unreachable { lock, message: message.clone() },
            LinkError::Refused(refusal) => Self::Refused { lock, refusal: refusal.clone() },
            LinkError::Unknown(message) => Self::OutcomeUnknown { lock, message: message.clone() },
        }
    }
}

/// Returns the text of [`Error::Lost`] and [`Lost`](crate::Lost).
pub(crate) fn lost_text(lock: &str, reason: LossReason) -> String {
    format!("the lock {lock:?} was lost: {reason}; other holders may have changed the protected data")
}

/// Truncates a time to milliseconds, if it is at least one millisecond.
fn readable(time: Duration) -> Duration {
    let whole = settings::whole_millis(time);
    if whole.is_zero() { time } else { whole }
}

fn still_busy(kind: &str, waited: Duration) -> String {
    let waited = readable(waited);
    match kind {
        "count-down latch" => format!("did not open within {waited:?}: its count is not 0"),
        "semaphore" | "bare semaphore" => format!("had too few free permits for {waited:?}"),
        _ => format!("was not acquired: still busy after {waited:?}"),
    }
}

const fn after_a_wait(kind: &str, waits_for_itself: bool) -> &'static str {
    match (waits_for_itself, kind.as_bytes()) {
        (true, _) => {
            "the task waits for itself, because an enclosing owner scope holds the lock: acquire it as that owner, or release it first"
        }
        (false, b"count-down latch") => "wait longer, or check the processes that count it down",
        (false, b"semaphore" | b"bare semaphore") => {
            "retry, or wait longer; a new semaphore has no permits until try_set_permits sets them"
        }
        (false, _) => "retry, or wait longer",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock() -> String {
        "stock".to_owned()
    }

    #[test]
    fn a_wait_that_is_over_names_what_was_waited_for() {
        let text = |kind| {
            let waited = Duration::from_micros(25_417);
            Error::from_acquire("parts", kind, waited, AcquireError::WaitElapsed).to_string()
        };
        let lock = r#"the fair lock "parts" was not acquired: still busy after 25ms; retry, or wait longer"#;
        assert_eq!(text("fair lock"), lock);
        assert!(text("count-down latch").starts_with(r#"the count-down latch "parts" did not open within 25ms"#));
        assert!(text("semaphore").contains("too few free permits") && text("semaphore").contains("try_set_permits"));
        let unreachable = Error::from_acquire(
            "parts",
            "lock",
            Duration::from_secs(2),
            AcquireError::Unreachable("it is down".into()),
        );
        assert!(unreachable.to_string().ends_with("it is down; retried for 2s"), "{unreachable}");
    }

    #[test]
    fn one_outage_is_one_error_by_acquire_and_by_with() {
        let outage = Error::Unreachable { lock: lock(), message: "it is down".to_owned() };
        let by_with = || -> Result<u32, Error> { Err(WithError::NotAcquired::<u32>(outage.clone()))? };
        assert_eq!(by_with(), Err(outage.clone()));
        let released = WithError::unless_released(7, Err(outage.clone())).expect_err("a failed release");
        assert_eq!((released.error(), released.into_value()), (outage, Some(7)));
        let loss = Error::Lost { lock: lock(), reason: LossReason::Removed };
        let lost = WithError::unless_released(7, Err(loss.clone())).expect_err("a loss");
        assert_eq!(lost, WithError::Lost { lock: lock(), reason: LossReason::Removed, value: Some(7) });
        assert_eq!((lost.error(), Error::from(lost)), (loss.clone(), loss));
    }

    #[test]
    fn errors_tell_contention_from_outages_and_from_what_may_stand() {
        let message = || "it is down".to_owned();
        for (error, contention, transient, effect) in [
            (Error::from_acquire(&lock(), "lock", Duration::ZERO, AcquireError::WaitElapsed), true, true, false),
            (Error::Unreachable { lock: lock(), message: message() }, false, true, false),
            (Error::OutcomeUnknown { lock: lock(), message: message() }, false, true, true),
            (Error::NotReplicated { lock: lock(), acknowledged: 0, wanted: 1 }, false, true, false),
            (Error::Lost { lock: lock(), reason: LossReason::Removed }, false, false, false),
            (Error::Refused { lock: lock(), refusal: ServerError::new("OOM") }, false, false, false),
            (Error::ShutDown { lock: lock() }, false, false, false),
        ] {
            assert_eq!(error.is_contention(), contention, "{error}");
            assert_eq!(error.is_retryable(), transient, "{error}");
            assert_eq!(error.may_have_taken_effect(), effect, "{error}");
            assert_eq!(error.lock_name(), Some("stock"), "{error}");
        }
        assert_eq!(Error::from(InvalidInput::NoPermits).lock_name(), None);
    }

    #[test]
    fn search_names_its_pattern_and_no_lock() {
        let found = |error| Error::from_link("stock:1", &error).in_a_search("stock:*");
        let of_a_lock = found(LinkError::NotSent("it is down".to_owned()));
        assert_eq!((of_a_lock.lock_name(), of_a_lock.is_retryable()), (None, true));
        let text = of_a_lock.to_string();
        assert_eq!(text, "the search for names that match \"stock:*\" failed before its end: it is down");
        let refused = |text: &str| found(LinkError::Refused(ServerError::new(text)));
        assert!(refused("LOADING the data").is_retryable() && !refused("NOPERM no right").is_retryable());
    }

    #[test]
    fn refused_command_has_the_error_of_the_server_as_its_source() {
        let text = "NOPERM this user has no permissions to run the 'evalsha' command";
        let by_link = Error::from_link("stock", &LinkError::Refused(ServerError::new(text)));
        assert_eq!(
            Error::from_acquire("stock", "lock", Duration::ZERO, AcquireError::Refused(ServerError::new(text))),
            by_link
        );
        assert_eq!(Error::from_release("stock", ReleaseError::Refused(text.to_owned())), by_link);
        let code_of = |error: &dyn std::error::Error| {
            error
                .source()
                .and_then(|source| source.downcast_ref::<ServerError>())
                .map(|refusal| refusal.code().to_owned())
        };
        assert_eq!(code_of(&by_link).as_deref(), Some("NOPERM"));
        assert!(by_link.to_string().ends_with(text), "{by_link}");
        assert_eq!(code_of(&WithError::NotAcquired::<u32>(by_link.clone())).as_deref(), Some("NOPERM"));
        let not_released = WithError::NotReleased { error: by_link, value: 7 };
        assert!(std::error::Error::source(&not_released).is_some_and(|source| source.is::<Error>()));
    }

    #[test]
    fn what_stands_under_a_name_is_never_to_be_deleted() {
        let text = Error::KeyConflict { lock: lock(), kind: "hash".to_owned() }.to_string();
        assert!(text.contains("already in use as a hash") && !text.contains("delete"), "{text}");
    }
}
