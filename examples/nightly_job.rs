//! Three instances of a service: one of them leads and feeds a queue, and each night one of them writes the report. The leader resigns, and then
//! the next one is thrown out, and somebody else leads each time.
//!
//! `cargo run --example nightly_job`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example nightly_job`.

#![expect(clippy::print_stdout, reason = "an example tells its story on stdout")]

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

/// The instances of the service, each with a client of its own.
const INSTANCES: usize = 3;
/// How far the timers of two instances are apart. The report is written long before the last of them fires.
const APART: Duration = Duration::from_millis(60);
const NIGHTS: u32 = 4;

type Failed = Box<dyn std::error::Error>;
type Campaign = JoinHandle<Result<Option<()>, WithError<()>>>;

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let stage = Stage::open("Three instances, one leader, one report a night.");
    // After the death of a leader the next one leads when its lease is over.
    let settings = || stage.builder().lease(Duration::from_secs(2));
    let clients = try_join_all((0..INSTANCES).map(|_| stage.client(settings()))).await?;

    let fed = Arc::new(AtomicU64::new(0));
    let campaigns: Vec<(LeaderHandle, Campaign)> = clients.iter().map(|client| campaign(client, &fed)).collect();
    let handles: Vec<_> = campaigns.iter().map(|(handle, _)| handle.clone()).collect();

    let first = leader(&handles, None).await;
    stage.tell("one of three leads");
    handles[first].resign().await;
    let second = leader(&handles, Some(first)).await;
    stage.tell("it has resigned, and another one leads at once");
    // An operator ends the hold of the leader, as `leasehold unlock` does.
    clients[first].fenced_lock("feed").force_release().await?;
    let mut state = handles[second].watch();
    // A leader that is thrown out hears of it by its next renewal, and stops its work.
    let lost = state.wait_for(|state| !matches!(state, leasehold::leader::LeaderState::Leading { .. }));
    tokio::time::timeout(Duration::from_secs(10), lost).await??;
    leader(&handles, None).await;
    stage.tell("it was thrown out and has stopped its work, and somebody leads");

    let written = AtomicU32::new(0);
    for night in 0..NIGHTS {
        let answers = try_join_all(clients.iter().enumerate().map(async |(instance, client)| {
            // The timers of the instances fire one after the other.
            tokio::time::sleep(APART * u32::try_from(instance).unwrap_or_default()).await;
            let period = Period::key(format!("night-{night}")).keep(Duration::from_secs(5));
            let report = async |_held: &_| written.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Error>(client.once("report", period).run(report).await?)
        }))
        .await?;
        let ran = answers.iter().filter(|answer| matches!(answer, Occurrence::Ran(_))).count();
        let done = answers.iter().filter(|answer| matches!(answer, Occurrence::AlreadyDone)).count();
        assert_eq!((ran, done), (1, INSTANCES - 1), "one writes it, and the others find it written");
    }
    assert_eq!(written.load(Ordering::Relaxed), NIGHTS);
    stage.tell(format_args!("{NIGHTS} nights, {INSTANCES} timers each, {NIGHTS} reports"));

    for (handle, campaign) in campaigns {
        handle.resign().await;
        campaign.await??;
    }
    assert!(fed.load(Ordering::Relaxed) > 0, "the leaders have worked");
    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// An instance campaigns, and feeds the queue while it leads.
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

/// The instance that leads, once another one than `last` does.
async fn leader(handles: &[LeaderHandle], last: Option<usize>) -> usize {
    loop {
        let leading: Vec<usize> = (0..handles.len()).filter(|at| handles[*at].is_leader()).collect();
        assert!(leading.len() <= 1, "two lead at once");
        if let [leading] = leading[..]
            && Some(leading) != last
        {
            return leading;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
