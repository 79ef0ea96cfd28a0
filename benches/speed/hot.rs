//! One name that many tasks of one client want at once: as it is, and handed on within the client, beside the mutex of tokio.

use crate::measure::{Ratio, middle, scripts};
use leasehold::Client;
use leasehold_test_support::Server;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

const TASKS: usize = 64;
const ROUNDS: usize = 5;
const WINDOW: Duration = Duration::from_secs(1);

/// The grants of each task within a window.
struct Grants(Vec<u64>);

impl Grants {
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    fn each_second(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / WINDOW.as_secs_f64()
    }

    /// The most of one task, for each of the task with the least.
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    fn spread(&self) -> f64 {
        let (least, most) = (self.0.iter().min(), self.0.iter().max());
        most.copied().unwrap_or_default() as f64 / least.copied().unwrap_or_default().max(1) as f64
    }
}

pub(crate) async fn run(server: &Server) {
    let plain = Client::connect(&server.url()).await.expect("a client");
    let handing = Client::builder().hand_over(true).connect(&server.url()).await.expect("a client");
    let mut rates: [Vec<f64>; 4] = Default::default();
    let mut spreads: [Vec<f64>; 4] = Default::default();
    let mut commands: [Vec<f64>; 4] = Default::default();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for variant in 0..4 {
            let before = scripts(server).0;
            let grants = match variant {
                0 => in_process().await,
                1 => of_clients(&[&plain]).await,
                2 => of_clients(&[&handing]).await,
                _ => of_clients(&[&handing, &plain]).await,
            };
            #[expect(clippy::cast_precision_loss, reason = "a mean")]
            let calls = (scripts(server).0 - before) as f64 / (grants.each_second() * WINDOW.as_secs_f64()).max(1.0);
            if round > 0 {
                rates[variant].push(grants.each_second());
                spreads[variant].push(grants.spread());
                commands[variant].push(calls);
            }
        }
    }
    println!(
        "| one hot name, {TASKS} tasks | grants, to the lock's | tokio's grants, to these | grants/s | most : least of a task \
         | commands a grant |"
    );
    println!("|---|---|---|---|---|---|");
    let names =
        ["tokio::sync::Mutex", "lock", "lock, handed on", "lock, handed on, half of the tasks in another client"];
    for (variant, name) in names.into_iter().enumerate() {
        println!(
            "| {name} | {} | {} | {:.0} | {:.2} | {:.3} |",
            Ratio::of(&rates[variant], &rates[1]),
            Ratio::of(&rates[0], &rates[variant]),
            middle(&rates[variant]),
            middle(&spreads[variant]),
            middle(&commands[variant]),
        );
    }
    println!();
}

async fn in_process() -> Grants {
    let mutex = Arc::new(Mutex::new(()));
    let until = Instant::now() + WINDOW;
    let task = |_| {
        let mutex = mutex.clone();
        async move {
            let mut grants = 0;
            while Instant::now() < until {
                let guard = mutex.lock().await;
                grants += 1;
                drop(guard);
            }
            grants
        }
    };
    at_once(task).await
}

/// The tasks are spread over the clients.
async fn of_clients(clients: &[&Client]) -> Grants {
    let until = Instant::now() + WINDOW;
    let task = |task: usize| {
        let lock = clients[task % clients.len()].lock("bench:hot");
        async move {
            let mut grants = 0;
            while Instant::now() < until {
                let guard = lock.acquire().await.expect("the lock");
                grants += 1;
                guard.release().await.expect("released");
            }
            grants
        }
    };
    at_once(task).await
}

async fn at_once<F: Future<Output = u64> + Send + 'static>(task: impl Fn(usize) -> F) -> Grants {
    let tasks: Vec<_> = (0..TASKS).map(|number| tokio::spawn(task(number))).collect();
    let mut grants = Vec::new();
    for task in tasks {
        grants.push(task.await.expect("a task"));
    }
    Grants(grants)
}
