//! Many readers of one read-write lock: what the release of one costs at the caller and on the server, and what keeping them
//! costs.

use crate::measure::{Ratio, middle, quantile, scripts};
use leasehold::kind::Owned;
use leasehold::{Client, Guard, Lock, Owner};
use leasehold_test_support::Server;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
const SAMPLES: usize = 60;
const SIZES: [usize; 4] = [10, 100, 1_000, 5_000];
/// A third of the default lease.
const PERIOD: Duration = Duration::from_secs(10);

/// A lock and its guard, which is away while it is being released and acquired anew.
struct Held<K: Owned> {
    lock: Lock<K>,
    owner: Option<Owner>,
    guard: Option<Guard<K>>,
}

pub(crate) async fn run(server: &Server) {
    println!(
        "| release of one read hold | readers | at the caller, p50 | at the caller, p99 | server time |\n|---|---|---|---|---|"
    );
    for (spread, named) in [(1, false), (4, false), (1, true)] {
        let mut clients = Vec::new();
        for _ in 0..spread {
            clients.push(Client::connect(&server.url()).await.expect("a client"));
        }
        releases(server, &clients, named).await;
        for client in clients {
            client.shutdown(Duration::from_secs(60)).await.expect("everything is released");
        }
    }
    println!();
    renewals(server).await;
}

/// All sizes are held at once, each of another lock, so that one round can measure them in turn.
async fn releases(server: &Server, clients: &[Client], named: bool) {
    let mut held = Vec::new();
    for size in SIZES {
        let lock = |client: &Client| client.read_write_lock(format!("bench:readers:{size}")).read();
        held.push(hold(clients, lock, size, named).await);
    }
    let mut plain = hold(clients, |client| client.lock("bench:readers:plain"), 1, named).await;
    let mut costs: Vec<[Vec<f64>; 3]> = vec![Default::default(); SIZES.len() + 1];
    for round in 0..=ROUNDS {
        for (at, costs) in costs.iter_mut().enumerate() {
            let figures = match held.get_mut(at) {
                Some(held) => one_after_another(server, held).await,
                None => one_after_another(server, &mut plain).await,
            };
            // The first round warms up.
            for (costs, figure) in costs.iter_mut().zip(figures).filter(|_| round > 0) {
                costs.push(figure);
            }
        }
    }
    let ratios = |at: usize, to: usize| -> Vec<String> {
        let each = (0..3).map(|figure| (&costs[at][figure], &costs[to][figure]));
        each.map(|(ours, theirs)| format!("{} ({:.0} µs)", Ratio::of(ours, theirs), middle(ours) * 1e6)).collect()
    };
    let who = format!("{} client(s){}", clients.len(), if named { ", named owners" } else { "" });
    for (at, size) in SIZES.into_iter().enumerate() {
        println!("| {who}, to 10 readers | {size} | {} |", ratios(at, 0).join(" | "));
    }
    println!("| {who}, to a plain lock's release | 5 000 | {} |", ratios(SIZES.len() - 1, SIZES.len()).join(" | "));
}

/// Holds a lock `size` times, by turns in each of the clients; each time by an owner with a name, if so asked.
async fn hold<K: Owned>(
    clients: &[Client],
    lock: impl Fn(&Client) -> Lock<K>,
    size: usize,
    named: bool,
) -> Vec<Held<K>> {
    let mut held = Vec::with_capacity(size);
    for client in clients.iter().cycle().take(size) {
        let mut next = Held { lock: lock(client), owner: named.then(|| client.new_owner()), guard: None };
        next.acquire().await;
        held.push(next);
    }
    held
}

impl<K: Owned> Held<K> {
    async fn acquire(&mut self) {
        let wish = self.lock.acquire();
        let wish = if let Some(owner) = &self.owner { wish.owner(owner) } else { wish };
        self.guard = Some(wish.await.expect("the lock"));
    }
}

/// Releases one hold after another, and acquires it anew; answers with the median and the 99th percentile of a release at the
/// caller, and its mean on the server, in seconds.
async fn one_after_another<K: Owned>(server: &Server, held: &mut [Held<K>]) -> [f64; 3] {
    let mut times = Vec::with_capacity(SAMPLES);
    let mut micros = 0;
    for sample in 0..SAMPLES {
        // Here and there, not in the order in which they came.
        let at = sample * 7_919 % held.len();
        let held = &mut held[at];
        let (_, before) = scripts(server);
        let begun = Instant::now();
        held.guard.take().expect("it is held").release().await.expect("released");
        times.push(begun.elapsed());
        let (_, after) = scripts(server);
        micros += after - before;
        held.acquire().await;
    }
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let mean = micros as f64 / SAMPLES as f64 / 1e6;
    [quantile(&mut times, 0.5).as_secs_f64(), quantile(&mut times, 0.99).as_secs_f64(), mean]
}

/// The cost of a period of renewing for the server: 5 000 readers of one lock, and as many plain locks.
async fn renewals(server: &Server) {
    let mut micros = Vec::new();
    println!("| renewal of 5 000 holds, a period | commands | server time |\n|---|---|---|");
    for what in
        ["5 000 readers of one lock, 1 client", "5 000 readers of one lock, 4 clients", "5 000 plain locks, 1 client"]
    {
        let mut clients = Vec::new();
        for _ in 0..if what.contains('4') { 4 } else { 1 } {
            clients.push(Client::connect(&server.url()).await.expect("a client"));
        }
        let mut plain = Vec::new();
        let mut readers = Vec::new();
        if what.contains("plain") {
            for number in 0..5_000 {
                plain.push(clients[0].lock(format!("bench:renewed:{number}")).acquire().await.expect("the lock"));
            }
        } else {
            readers = hold(&clients, |client| client.read_write_lock("bench:renewed").read(), 5_000, false).await;
        }
        // One period to settle in, one to be measured: by then renewals have spread.
        tokio::time::sleep(PERIOD).await;
        let (calls, before) = scripts(server);
        tokio::time::sleep(PERIOD).await;
        let (calls_after, after) = scripts(server);
        assert!(plain.iter().all(Guard::is_held), "still held");
        assert!(readers.iter().all(|held| held.guard.as_ref().is_some_and(Guard::is_held)), "still held");
        println!("| {what} | {} | {} ms |", calls_after - calls, (after - before) / 1000);
        #[expect(clippy::cast_precision_loss, reason = "a ratio is made of it")]
        micros.push((after - before) as f64);
        drop((plain, readers));
        for client in clients {
            client.shutdown(Duration::from_secs(60)).await.expect("everything is released");
        }
    }
    println!(
        "\nserver time of renewing, readers : plain locks = {:.2} (1 client), {:.2} (4 clients)",
        micros[0] / micros[2],
        micros[1] / micros[2]
    );
}
