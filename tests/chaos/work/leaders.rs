//! Candidates for the leadership of a few names. A process has one for each of them.

use super::held::{Held as _, hold, nanos, word};
use super::{Bench, LEADERS};
use crate::history::{Rule, Wish};
use crate::moment::now;
use fastrand::Rng;
use leasehold::leader::Term;
use leasehold::{Error, WithError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Campaigns for a name, leads for a while, and campaigns again. Some terms end with their work, and some by a resignation.
pub(super) async fn campaigns(bench: Arc<Bench>, number: u32, mut rng: Rng) {
    debug_assert!(number < LEADERS);
    let name = format!("leader:{number}");
    while !bench.is_resting() {
        let leader = bench.client.leader(&name).grace(Duration::from_millis(100));
        let (handle, seed) = (leader.handle(), rng.u64(..));
        let campaign = Arc::new(Campaign::begin(&bench, &name));
        let of_term = campaign.clone();
        let lead = async move |term: &Term| of_term.lead(term, seed).await;
        let running = tokio::spawn(bench.brake.clone().on(leader.run(lead)));
        let (patience, resting) = (Duration::from_millis(rng.u64(500..8_000)), bench.clone());
        let resigns = async {
            let rest = async {
                while !resting.is_resting() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            };
            let _ = tokio::time::timeout(patience, rest).await;
            handle.resign().await;
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = running => answer.expect("a candidate that does not panic"),
            () = resigns => unreachable!("it goes on for ever"),
        };
        campaign.end(answer);
        bench.think(&mut rng, 200).await;
    }
}

/// A candidate. Each of its campaigns is an operation of its own: after a loss it campaigns again by itself.
struct Campaign {
    bench: Arc<Bench>,
    wish: Wish,
    op: AtomicU64,
}

impl Campaign {
    fn begin(bench: &Arc<Bench>, name: &str) -> Self {
        let wish = Wish { lock: name.to_owned(), rule: Rule::Alone, share: 1, bound: None };
        let op = AtomicU64::new(bench.journal.invoked(&wish));
        Self { bench: bench.clone(), wish, op }
    }

    fn op(&self) -> u64 {
        self.op.load(Ordering::Relaxed)
    }

    /// The work of a term.
    async fn lead(&self, term: &Term, seed: u64) {
        let (at, guard, op) = (now(), term.guard(), self.op());
        let (until, token) = (at + nanos(term.remaining()), term.fencing_token().as_u64());
        self.bench.journal.granted(op, until, token, &guard.hold());
        let mut dropped = Dropped { campaign: Some(self) };
        let length = Duration::from_millis(Rng::with_seed(seed ^ op).u64(0..4_000));
        let work = async {
            tokio::select! {
                () = tokio::time::sleep(length) => {}
                () = term.resigned() => {}
            }
        };
        if hold(&self.bench, op, guard, work).await.is_none() {
            // The candidate sees the loss, too, and drops this.
            std::future::pending::<()>().await;
        }
        dropped.campaign = None;
        self.bench.journal.ending(op, term.remaining());
    }

    fn end(&self, answer: Result<Option<()>, WithError<()>>) {
        let (op, journal) = (self.op(), &self.bench.journal);
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
    }
}

/// Notes that the work of a term was dropped: the leadership was lost, or the grace was over. Another campaign begins.
struct Dropped<'a> {
    /// The candidate, until the work has come to its end.
    campaign: Option<&'a Campaign>,
}

impl Drop for Dropped<'_> {
    fn drop(&mut self) {
        if let Some(campaign) = self.campaign {
            let (op, journal) = (campaign.op(), &campaign.bench.journal);
            journal.lost(op, "leadership");
            journal.ending(op, Duration::ZERO);
            journal.ended(op, "lost");
            campaign.op.store(journal.invoked(&campaign.wish), Ordering::Relaxed);
        }
    }
}
