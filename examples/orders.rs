//! Each user gets one order, regardless of the number of clicks and of the instance that serves a click.
//!
//! `cargo run --example orders`, or `LEASEHOLD_URL=redis://127.0.0.1:6379 cargo run --example orders`.

#![expect(clippy::print_stdout, reason = "an example prints to stdout")]

#[path = "support/store.rs"]
mod store;
mod support;

use futures_util::future::try_join_all;
use leasehold::Client;
use std::time::Duration;
use store::{Failed, Store};
use support::Stage;

/// The number of instances of the service. Each instance has its own client.
const INSTANCES: usize = 3;
const USERS: usize = 20;
/// The number of clicks of each user.
const CLICKS: usize = 5;
/// The duration of a payment: long enough for the next click.
const PAYMENT: Duration = Duration::from_millis(20);

/// The response to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Taken,
    TakenAlready,
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let stage = Stage::open("Twenty users order once, and click five times.");
    let store = Store::open(&stage).await?;
    let clients = try_join_all((0..INSTANCES).map(|_| stage.client(stage.builder()))).await?;

    let (taken, most) = round(&stage, &store, &clients, true).await?;
    stage.tell(format_args!(
        "with a lock for each user: {} requests, {taken} orders, at most {most} a user",
        USERS * CLICKS
    ));
    assert_eq!((taken, most), (USERS, 1), "every user has one order");

    let (taken, most) = round(&stage, &store, &clients, false).await?;
    stage.tell(format_args!("without locks: {} requests, {taken} orders, up to {most} a user", USERS * CLICKS));
    assert!(taken > USERS && most > 1, "a user pays twice");

    for client in clients {
        client.shutdown(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// Runs all clicks concurrently. Returns the number of orders in the store, and the greatest number for one user.
async fn round(stage: &Stage, store: &Store, clients: &[Client], locked: bool) -> Result<(usize, usize), Failed> {
    let orders = |user: usize| format!("{}orders:{user}", stage.prefix);
    // The clicks of a user go to different instances.
    let requests = (0..CLICKS).flat_map(|click| (0..USERS).map(move |user| (click, user)));
    let answers = try_join_all(requests.map(async |(click, user)| {
        let client = &clients[(user + click) % INSTANCES];
        let request = format!("click {click} of user {user}");
        if locked {
            // One lock for each user: users do not wait for each other.
            let lock = client.lock(format!("order:{user}"));
            let guard = lock.acquire().wait(Duration::from_secs(30)).await?;
            // A loss of the lock stops the request.
            let answer = guard.run(order(store, &orders(user), &request)).await??;
            guard.release().await?;
            Ok::<_, Failed>(answer)
        } else {
            order(store, &orders(user), &request).await
        }
    }))
    .await?;

    let (mut taken, mut most) = (0, 0);
    for user in 0..USERS {
        let of_user = store.all(&orders(user)).await?;
        store.remove(&orders(user)).await?;
        assert!(of_user.iter().all(|request| request.ends_with(&format!(" of user {user}"))), "{of_user:?}");
        taken += of_user.len();
        most = most.max(of_user.len());
    }
    let told = answers.iter().filter(|answer| **answer == Answer::Taken).count();
    assert_eq!(told, taken, "every confirmed order is in the store");
    Ok((taken, most))
}

/// Accepts an order, unless the user already has an order. The payment runs between the check and the write.
async fn order(store: &Store, orders: &str, request: &str) -> Result<Answer, Failed> {
    if store.length(orders).await? > 0 {
        return Ok(Answer::TakenAlready);
    }
    tokio::time::sleep(PAYMENT).await;
    store.append(orders, request).await?;
    Ok(Answer::Taken)
}
