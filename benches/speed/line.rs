//! The cost of a grant where many wait, in the fair queue on the server and in the plain lock's line.
//!
//! A task that was granted the lock releases it and stands in line again, so that the number of waiters stays the same while it is
//! measured: a cycle is one release, one grant, and one more place.

use crate::measure::{Ratio, middle, processor_time, scripts};
use leasehold::kind::Owned;
use leasehold::{Client, Lock};
use leasehold_test_support::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

const ROUNDS: usize = 3;
const SIZES: [usize; 3] = [10, 1_000, 10_000];
const GRANTS: usize = 1_000;

/// The time of one grant.
#[derive(Default)]
struct Costs {
    server: Vec<f64>,
    client: Vec<f64>,
    commands: Vec<f64>,
}

/// The waiting side.
struct Wait {
    size: usize,
    is_fair: bool,
    /// Each task is an owner that it names.
    named: bool,
}

pub(crate) async fn run(server: &Server) {
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(Client::connect(&server.url()).await.expect("a client"));
    }
    let variants = ["plain, 1 client", "fair, 1 client", "fair, 4 clients", "fair, 1 client, named owners"];
    let mut costs: Vec<[Costs; 3]> = variants.iter().map(|_| Default::default()).collect();
    for round in 0..=ROUNDS {
        // The first round warms up, for which a short line will do.
        for (at, size) in SIZES.into_iter().enumerate().take(if round == 0 { 1 } else { SIZES.len() }) {
            let name = format!("bench:line:{round}:{size}");
            let fair = |client: &Client| client.fair_lock(format!("{name}:fair"));
            let plain = |client: &Client| client.lock(format!("{name}:plain"));
            let figures = [
                cycles(server, &clients[..1], plain, Wait { size, is_fair: false, named: false }).await,
                cycles(server, &clients[..1], fair, Wait { size, is_fair: true, named: false }).await,
                cycles(server, &clients, fair, Wait { size, is_fair: true, named: false }).await,
                cycles(server, &clients[..1], fair, Wait { size, is_fair: true, named: true }).await,
            ];
            for (costs, [server, client, commands]) in costs.iter_mut().zip(figures).filter(|_| round > 0) {
                costs[at].server.push(server);
                costs[at].client.push(client);
                costs[at].commands.push(commands);
            }
        }
    }
    println!(
        "| a grant | waiters | server time, to that of 10 waiters | client's processor time, to that of 10 waiters \
         | server time, to the plain lock's | commands |"
    );
    println!("|---|---|---|---|---|---|");
    let plain = &costs[0];
    for (variant, sizes) in variants.iter().zip(&costs) {
        for (at, size) in SIZES.into_iter().enumerate() {
            let costs = &sizes[at];
            println!(
                "| {variant} | {size} | {} ({:.0} µs) | {} ({:.0} µs) | {} | {:.2} |",
                Ratio::of(&costs.server, &sizes[0].server),
                middle(&costs.server),
                Ratio::of(&costs.client, &sizes[0].client),
                middle(&costs.client),
                Ratio::of(&costs.server, &plain[at].server),
                middle(&costs.commands),
            );
        }
    }
    println!();
}

/// Server time, processor time of the client (both in microseconds) and commands, for each of some grants while so many tasks, spread
/// over the clients, have the lock or wait for it.
async fn cycles<K: Owned>(
    server: &Server,
    clients: &[Client],
    lock: impl Fn(&Client) -> Lock<K>,
    wait: Wait,
) -> [f64; 3] {
    let first = lock(&clients[0]);
    let guard = first.acquire().await.expect("the lock");
    let granted = Arc::new(AtomicUsize::new(0));
    let (tell, mut reached) = mpsc::channel::<()>(1);
    let (proceed, go_on) = watch::channel(false);
    let tasks: Vec<_> = (0..wait.size)
        .map(|task| {
            let client = &clients[task % clients.len()];
            let (lock, owner) = (lock(client), wait.named.then(|| client.new_owner()));
            let (granted, tell, mut go_on) = (granted.clone(), tell.clone(), go_on.clone());
            tokio::spawn(async move {
                loop {
                    let wish = lock.acquire();
                    let wish = if let Some(owner) = &owner { wish.owner(owner) } else { wish };
                    let guard = wish.await.expect("the lock");
                    let nth = granted.fetch_add(1, Ordering::Relaxed) + 1;
                    if nth == GRANTS {
                        tell.send(()).await.expect("somebody measures");
                        go_on.wait_for(|proceed| *proceed).await.expect("somebody measures");
                    }
                    guard.release().await.expect("released");
                    if nth >= GRANTS {
                        return;
                    }
                }
            })
        })
        .collect();
    until_all_wait(server, clients, first.name(), &wait).await;
    let (used, (calls, micros)) = (processor_time(), scripts(server));
    guard.release().await.expect("released");
    reached.recv().await.expect("somebody is granted the lock");
    let (used, (calls_after, micros_after)) = (processor_time() - used, scripts(server));
    proceed.send(true).expect("somebody waits");
    for task in tasks {
        task.await.expect("a task");
    }
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let each = |total: u64| total as f64 / GRANTS as f64;
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let used = used.as_secs_f64() * 1e6 / GRANTS as f64;
    [each(micros_after - micros), used, each(calls_after - calls)]
}

/// Until every task is in the client's line, and in the server's where there is one.
async fn until_all_wait(server: &Server, clients: &[Client], name: &str, wait: &Wait) {
    let queue = format!("redisson_lock_queue:{{{name}}}");
    loop {
        let here: usize = clients.iter().map(|client| client.stats().requests).sum();
        let there = server.command(&["LLEN", &queue]).as_int().and_then(|length| usize::try_from(length).ok());
        // Places that were given up may stand between the others for a while.
        if here == wait.size && (!wait.is_fair || there >= Some(wait.size)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
