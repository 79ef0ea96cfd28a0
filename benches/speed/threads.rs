//! The gain of more threads, where all tasks of a client share its session.
//!
//! Each of 64 tasks acquires and releases a lock of its own that lingers, so that no command is sent: whatever the tasks have in common is
//! in the client. The work beside it has nothing in common, and says what the machine's processors give.

use crate::measure::Ratio;
use leasehold::{Client, DEFAULT_LINGER};
use leasehold_test_support::Server;
use std::hint::black_box;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

const ROUNDS: usize = 9;
const THREADS: [usize; 3] = [1, 2, 4];
const TASKS: usize = 64;
const WINDOW: Duration = Duration::from_millis(500);

pub(crate) fn run(server: &Server) {
    let runtimes = THREADS.map(|threads| {
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        runtime.expect("a runtime")
    });
    let clients: Vec<_> =
        runtimes.iter().map(|runtime| runtime.block_on(Client::connect(&server.url())).expect("a client")).collect();
    let mut rates: [[Vec<f64>; THREADS.len()]; 2] = Default::default();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (at, (runtime, client)) in runtimes.iter().zip(&clients).enumerate() {
            let figures = [runtime.block_on(pairs(client, at)), apart(runtime)];
            for (rates, figure) in rates.iter_mut().zip(figures).filter(|_| round > 0) {
                rates[at].push(figure);
            }
        }
    }
    println!("| threads | pairs, to one thread | work that shares nothing, to one thread |");
    println!("|---|---|---|");
    for (at, threads) in THREADS.into_iter().enumerate() {
        let [pairs, apart] = [&rates[0], &rates[1]].map(|rates| Ratio::of(&rates[at], &rates[0]));
        println!("| {threads} | {pairs} | {apart} |");
    }
    println!();
}

/// Pairs a second of one client, whose locks linger.
async fn pairs(client: &Client, at: usize) -> f64 {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let lock = client.lock(format!("bench:threads:{at}:{task}")).linger(DEFAULT_LINGER);
            tokio::spawn(async move {
                let mut done = 0_u32;
                while begun.elapsed() < WINDOW {
                    lock.acquire().await.expect("the lock").release().await.expect("released");
                    done += 1;
                }
                done
            })
        })
        .collect();
    total(tasks, begun).await
}

/// The same with work that has nothing in common with that of other tasks.
fn apart(runtime: &Runtime) -> f64 {
    runtime.block_on(async {
        let begun = Instant::now();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| {
                tokio::spawn(async move {
                    let mut done = 0_u32;
                    while begun.elapsed() < WINDOW {
                        black_box((0..2_000_u64).fold(0, |sum, next| black_box(sum ^ next)));
                        done += 1;
                        tokio::task::coop::consume_budget().await;
                    }
                    done
                })
            })
            .collect();
        total(tasks, begun).await
    })
}

async fn total(tasks: Vec<tokio::task::JoinHandle<u32>>, begun: Instant) -> f64 {
    let mut all = 0.0;
    for task in tasks {
        all += f64::from(task.await.expect("a task"));
    }
    all / begun.elapsed().as_secs_f64()
}
