//! Three instances of a service. One instance leads and feeds a queue, and each night one instance writes the report.
//! The first leader resigns, and an operator ends the hold of the second leader. Each time another instance takes over.
//!
//! `cargo run --example nightly_job`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example nightly_job`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

mod support;

use futures_util::future::try_join_all;
use leasehold::leader::{LeaderHandle, Term};
use leasehold::once::{Occurrence, Period};
use leasehold::{Client, Error, WithError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use support::Stage;
use tokio::task::JoinHandle;

/// The number of instances of the service. Each instance has its own client.
const INSTANCES: usize = 3;
/// The time between the timers of two instances. The first instance writes the report long before the last timer fires.
const APART: Duration = Duration::from_millis(60);
const NIGHTS: u32 = 4;

type Failed = Box<dyn std::error::Error>;
type Campaign = JoinHandle<Result<Option<()>, WithError<()>>>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let stage = Stage::open("Three instances, one leader, one report a night.");
    // After the death of a leader, the next candidate leads at the end of the lease.
    let settings = || stage.builder().lease(Duration::from_secs(2));
    let clients = try_join_all((0..INSTANCES).map(|_| stage.client(settings()))).await?;

    let fed = Arc::new(AtomicU64::new(0));
    let campaigns: Vec<(LeaderHandle, Campaign)> = clients.iter().map(|client| campaign(client, &fed)).collect();
    let handles: Vec<_> = campaigns.iter().map(|(handle, _)| handle.clone()).collect();

    let first = leader(&handles, None).await;
    stage.tell("one of three leads");
    handles[first].resign().await;
    let second = leader(&handles, Some(first)).await;
    stage.tell("it resigned, and another instance leads at once");
    // An operator ends the hold of the leader, as `leasehold unlock` does.
    clients[first].fenced_lock("feed").force_release().await?;
    let mut state = handles[second].watch();
    // The leader detects the loss at its next renewal, and stops its work.
    let lost = state.wait_for(|state| !matches!(state, leasehold::leader::LeaderState::Leading { .. }));
    tokio::time::timeout(Duration::from_secs(10), lost).await??;
    leader(&handles, None).await;
    stage.tell("it lost its lock and stopped its work, and an instance leads");

    let written = AtomicU32::new(0);
    for night in 0..NIGHTS {
        let answers = try_join_all(clients.iter().enumerate().map(async |(instance, client)| {
            // The timers of the instances fire in sequence.
            tokio::time::sleep(APART * u32::try_from(instance).unwrap_or_default()).await;
            let period = Period::key(format!("night-{night}")).keep(Duration::from_secs(5));
            let report = async |_held: &_| written.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(client.once("report", period).run(report).await?)
        }))
        .await?;
        let ran = answers.iter().filter(|answer| matches!(answer, Occurrence::Ran(_))).count();
        let done = answers.iter().filter(|answer| matches!(answer, Occurrence::AlreadyDone)).count();
        assert_eq!((ran, done), (1, INSTANCES - 1), "one instance writes the report, and the other instances skip it");
    }
    assert_eq!(written.load(Ordering::Relaxed), NIGHTS);
    stage.tell(format_args!("{NIGHTS} nights, {INSTANCES} timers each, {NIGHTS} reports"));

    for (handle, campaign) in campaigns {
        handle.resign().await;
        campaign.await??;
    }
    assert!(fed.load(Ordering::Relaxed) > 0, "the leaders fed the queue");
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// Starts an instance that campaigns, and feeds the queue while it leads.
fn campaign(client: &Client, fed: &Arc<AtomicU64>) -> (LeaderHandle, Campaign) {
    let leader = client.leader("feed");
    let (handle, fed) = (leader.handle(), fed.clone());
    let work = async move |term: &Term| {
        while !term.is_resigned() {
            fed.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    (handle, tokio::spawn(leader.run(work)))
}

/// Returns the leading instance, once it differs from `last`.
async fn leader(handles: &[LeaderHandle], last: Option<usize>) -> usize {
    loop {
        let leading: Vec<usize> = (0..handles.len()).filter(|at| handles[*at].is_leader()).collect();
        assert!(leading.len() <= 1, "two instances lead at the same time");
        if let [leading] = leading[..]
            && Some(leading) != last
        {
            return leading;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
