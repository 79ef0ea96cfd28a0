//! Candidates for the leadership of a few names. A process has one for each of them.

use super::held::{Held as _, hold, nanos, word};
use super::{Bench, LEADERS};
use crate::history::{Journal, Rule, Wish};
use crate::moment::now;
use fastrand::Rng;
use leasehold::{Error, Term, WithError};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Campaigns for a name, leads for a while, and campaigns again. Some terms end with their work, and some by a resignation.
pub(super) async fn campaigns(bench: Arc<Bench>, number: u32, mut rng: Rng) {
    debug_assert!(number < LEADERS);
    let name = format!("leader:{number}");
    let wish = Wish { lock: name.clone(), rule: Rule::Alone, share: 1, bound: None };
    while !bench.is_resting() {
        let leader = bench.client.leader(&name).grace(Duration::from_millis(100));
        let (handle, seed) = (leader.handle(), rng.u64(..));
        // Each campaign is an operation of its own: after a loss the candidate campaigns again by itself.
        let op = AtomicU64::new(bench.journal.invoked(&wish));
        let lead = async |term: &Term| {
            let mut rng = Rng::with_seed(seed);
            let (at, guard) = (now(), term.guard());
            let note = TermNote { bench: &bench, wish: &wish, op: &op, has_ended: Cell::new(false) };
            let number = note.number();
            let token = term.fencing_token().as_u64();
            bench.journal.granted(number, at + nanos(term.remaining()), token, &guard.hold());
            let length = Duration::from_millis(rng.u64(0..4_000));
            let work = async {
                tokio::select! {
                    () = tokio::time::sleep(length) => {}
                    () = term.resigned() => {}
                }
            };
            if hold(&bench, number, guard, work).await.is_none() {
                // The candidate sees the loss, too, and drops this.
                std::future::pending::<()>().await;
            }
            note.has_ended.set(true);
            bench.journal.ending(number, term.remaining());
        };
        let resigns = async {
            let patience = Duration::from_millis(rng.u64(500..8_000));
            let rest = async {
                while !bench.is_resting() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let _ = tokio::time::timeout(patience, rest).await;
            handle.resign().await;
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = bench.brake.clone().on(leader.run(lead)) => answer,
            () = resigns => unreachable!("it goes on for ever"),
        };
        let (op, journal) = (op.load(Ordering::Relaxed), &bench.journal);
        match answer {
            Ok(Some(())) => journal.ended(op, "ok"),
            Ok(None) => journal.refused(op, "went-away"),
            Err(WithError::Lost { reason, value: Some(()), .. }) => {
                journal.lost(op, reason.as_str());
                journal.ended(op, "lost");
            }
            Err(WithError::NotReleased { error, .. }) => journal.ended(op, word(&error)),
            Err(error) => journal.refused(op, word(&Error::from(error))),
        }
        bench.think(&mut rng, 200).await;
    }
}

/// A term that is noted. Where its work is dropped, it was lost, or the grace was over, and another campaign begins.
struct TermNote<'a> {
    bench: &'a Bench,
    wish: &'a Wish,
    op: &'a AtomicU64,
    has_ended: Cell<bool>,
}

impl TermNote<'_> {
    fn number(&self) -> u64 {
        self.op.load(Ordering::Relaxed)
    }

    const fn journal(&self) -> &Journal {
        &self.bench.journal
    }
}

impl Drop for TermNote<'_> {
    fn drop(&mut self) {
        if !self.has_ended.get() {
            let op = self.number();
            self.journal().lost(op, "leadership");
            self.journal().ending(op, Duration::ZERO);
            self.journal().ended(op, "lost");
            self.op.store(self.journal().invoked(self.wish), Ordering::Relaxed);
        }
    }
}
