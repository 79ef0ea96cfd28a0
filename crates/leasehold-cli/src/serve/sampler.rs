//! The scans of `serve`, shared by all browsers. Without a viewer, `serve` does not scan.
//!
//! Three loops run concurrently: scans of all locks, which can be slow; inspections of the visible rows (`on_view.rs`);
//! and searches for new locks (`newcomers.rs`). The latter two keep the page current.

use super::newcomers;
use super::on_view::OnView;
use super::sample::Sample;
use super::viewers::Viewers;
use crate::failure::{Exit, Failure};
use crate::overview::Overview;
use crate::overview::foreign::Foreign;
use crate::overview::journal::Journal;
use crate::overview::scans::{self, Told, Wanted};
use leasehold::Client;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

/// Pause after a refused scan.
const AFTER_REFUSAL: Duration = Duration::from_secs(2);

/// Minimum interval between inspections of visible rows, and between searches for new locks.
const SHORTEST: Duration = Duration::from_millis(100);

/// Maximum age of a fresh table.
const FRESH: Duration = Duration::from_secs(1);

/// Maximum time that a page waits for a fresh table.
const PATIENCE: Duration = Duration::from_secs(2);

/// Scans while there are viewers, and shares the results. The first scan needs no viewer.
///
/// # Errors
///
/// The server refuses the first scan.
pub(super) async fn run(
    client: &Client,
    wanted: &Wanted,
    viewers: &Viewers,
    on_view: &OnView,
    samples: &watch::Sender<Sample>,
    journal: Arc<Mutex<Journal>>,
) -> Failure {
    let (told, mut scans) = mpsc::unbounded_channel();
    let (foreign, often) = (Foreign::default(), (wanted.every / 2).max(SHORTEST));
    let mut overview = Overview::recorded(journal);
    let mut first = Some(viewers.join());
    loop {
        let take_in = async {
            while let Some(told) = scans.recv().await {
                if matches!(told, Told::Done(_) | Told::Failed { .. }) {
                    first = None;
                }
                share(&mut overview, told, samples);
            }
            // The scans below own a sender.
            std::future::pending::<()>().await;
        };
        let of_new_ones = (samples.subscribe(), told.clone());
        let failure = tokio::select! {
            failure = scans::repeat(client, wanted, &foreign, viewers.count(), told.clone()) => failure,
            () = on_view.look_at_all(client, often, told.clone()) => Failure::new(Exit::Other, "the scans have ended"),
            () = newcomers::look_for_all(client, wanted, often, &foreign, viewers.count(), of_new_ones) => {
                Failure::new(Exit::Other, "the scans have ended")
            }
            () = take_in => Failure::new(Exit::Other, "the scans have ended"),
        };
        if samples.borrow().done == 0 {
            return failure;
        }
        share(&mut overview, Told::Failed { at: Instant::now(), why: failure.to_string() }, samples);
        sleep(AFTER_REFUSAL).await;
    }
}

fn share(overview: &mut Overview, told: Told, samples: &watch::Sender<Sample>) {
    let (done, failed) = (matches!(told, Told::Done(_)), matches!(told, Told::Failed { .. }));
    overview.take(told);
    samples.send_modify(|sample| {
        sample.picture = overview.picture().clone();
        sample.done += u64::from(done);
        sample.failed += u64::from(failed);
    });
}

/// Returns a fresh table, or the last table after a timeout. With other viewers, returns the last table at once.
pub(super) async fn fresh(samples: &watch::Receiver<Sample>, viewers: &Viewers) -> Sample {
    let mut samples = samples.clone();
    let now = samples.borrow_and_update().clone();
    let is_followed = *viewers.count().borrow() > 0;
    if now.picture.table.as_ref().is_some_and(|table| is_followed || table.begun.elapsed() < FRESH) {
        return now;
    }
    let _viewer = viewers.join();
    let newer = samples.wait_for(|sample| sample.ended() > now.ended());
    match timeout(PATIENCE, newer).await {
        Ok(Ok(sample)) => sample.clone(),
        _ => now,
    }
}
