//! How a task asks for a lock, works under its guard, and gives it back, with a note of everything that comes of it.

use super::{Bench, Manner};
use crate::history::{Rule, Wish, label};
use crate::moment::now;
use fastrand::Rng;
use leasehold::group::GroupGuard;
use leasehold::kind::{GroupRule, LockKind};
use leasehold::{Acquire, Error, Guard, Lock, Lost};
use std::future::IntoFuture as _;
use std::time::Duration;

/// The common part of a guard of one lock and a guard of several.
pub(super) trait Held: Sized + Send {
    fn remaining(&self) -> Duration;
    /// The label of its hold; `-` where it has several.
    fn hold(&self) -> String;
    fn run<T: Send>(&self, work: impl Future<Output = T> + Send) -> impl Future<Output = Result<T, Lost>> + Send;
    fn release(self) -> impl Future<Output = Result<(), Error>> + Send;
}

macro_rules! held {
    ($($guard:ident of $rule:ident by $hold:expr),+) => {$(
        impl<R: $rule> Held for $guard<R> {
            fn remaining(&self) -> Duration {
                self.remaining()
            }

            fn hold(&self) -> String {
                $hold(self)
            }

            fn run<T: Send>(&self, work: impl Future<Output = T> + Send) -> impl Future<Output = Result<T, Lost>> + Send {
                self.run(work)
            }

            fn release(self) -> impl Future<Output = Result<(), Error>> + Send {
                self.release()
            }
        }
    )+};
}

held!(
    Guard of LockKind by |guard: &Self| label(guard.holder_id().as_str()),
    GroupGuard of GroupRule by |_: &Self| "-".to_owned()
);

/// Asks for a lock, and notes what comes of it: the number of the operation, and the guard.
pub(super) async fn acquire<K: LockKind>(
    bench: &Bench,
    (rule, share): (Rule, u32),
    lock: &Lock<K>,
    describe: impl Fn(Acquire<K>) -> Acquire<K>,
    manner: &Manner,
    token: fn(&Guard<K>) -> u64,
) -> Option<(u64, Guard<K>)> {
    let wish = Wish { lock: lock.name().to_owned(), rule, share, bound: manner.bound() };
    let asked = |wait: Option<Duration>| {
        let asked = describe(lock.acquire());
        match wait {
            Some(wait) => asked.wait(wait),
            None => asked,
        }
        .into_future()
    };
    ask(bench, &wish, manner, asked, token).await
}

/// Asks for whatever it is, and notes what comes of it. `asked` is told how long to wait, where its asker says so.
pub(super) async fn ask<G: Held, F: Future<Output = Result<G, Error>> + Send>(
    bench: &Bench,
    wish: &Wish,
    manner: &Manner,
    asked: impl FnOnce(Option<Duration>) -> F,
    token: impl FnOnce(&G) -> u64,
) -> Option<(u64, G)> {
    let op = bench.journal.invoked(wish);
    let braked = |asked: F| bench.brake.clone().on(asked);
    let answer = match manner {
        Manner::Wait(wait) => braked(asked(Some(*wait))).await.map(Some),
        Manner::Patient => braked(asked(Some(Duration::MAX))).await.map(Some),
        Manner::Try => braked(asked(Some(Duration::ZERO))).await.map(Some),
        Manner::GoesAway(after) => match tokio::time::timeout(*after, braked(asked(None))).await {
            Ok(answer) => answer.map(Some),
            Err(_) => Ok(None),
        },
    };
    match answer {
        Ok(Some(guard)) => {
            // The clock first: what is certain from then on was certain then.
            let at = now();
            bench.journal.granted(op, at + nanos(guard.remaining()), token(&guard), &guard.hold());
            Some((op, guard))
        }
        Ok(None) => {
            bench.journal.refused(op, "went-away");
            None
        }
        Err(error) => {
            bench.journal.refused(op, word(&error));
            // A server that refuses or is out of reach is not asked again at once.
            if !matches!(error, Error::WaitElapsed { .. }) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            None
        }
    }
}

/// Works under a guard, which is looked at meanwhile; `None` where it is lost before the work is done.
pub(super) async fn hold<G: Held + Sync, T: Send>(
    bench: &Bench,
    op: u64,
    guard: &G,
    work: impl Future<Output = T> + Send,
) -> Option<T> {
    let look = async {
        loop {
            tokio::time::sleep(Duration::from_millis(25)).await;
            let at = now();
            let remaining = guard.remaining();
            if !remaining.is_zero() {
                bench.journal.seen(op, at + nanos(remaining));
            }
        }
    };
    let both = async {
        tokio::select! {
            value = work => value,
            () = look => unreachable!("it looks for ever"),
        }
    };
    match guard.run(both).await {
        Ok(value) => Some(value),
        Err(lost) => {
            bench.journal.lost(op, lost.reason().as_str());
            None
        }
    }
}

/// Gives a guard back, mostly by a release, and notes what comes of it.
pub(super) async fn end<G: Held>(bench: &Bench, op: u64, guard: G, rng: &mut Rng) {
    let drops = rng.u32(0..8) == 0;
    bench.journal.ending(op, guard.remaining());
    if drops {
        drop(guard);
        bench.journal.ended(op, "dropped");
        return;
    }
    match guard.release().await {
        Ok(()) => bench.journal.ended(op, "ok"),
        Err(Error::Lost { reason, .. }) => {
            bench.journal.lost(op, reason.as_str());
            bench.journal.ended(op, "lost");
        }
        Err(error) => bench.journal.ended(op, word(&error)),
    }
}

/// For locks that have no fencing tokens.
pub(super) fn no_token<G: Held>(_: &G) -> u64 {
    0
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// An error in one word.
pub(super) fn word(error: &Error) -> &'static str {
    match error {
        Error::WaitElapsed { .. } => "elapsed",
        Error::Lost { .. } => "lost",
        Error::OutcomeUnknown { .. } => "indeterminate",
        Error::Unreachable { .. } => "unreachable",
        Error::Refused { .. } => "refused",
        Error::NotReplicated { .. } => "not-replicated",
        Error::ExceedsCapacity { .. } => "excess",
        Error::KeyConflict { .. } => "conflict",
        _ => "other",
    }
}
