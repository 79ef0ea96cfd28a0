//! The life of locks, whose every event the page shows: it notes when it begins to, by its own clock.

use crate::figures::{self, Figures, millis, now};
use crate::page::{Page, Shows};
use crate::site::Holder;
use leasehold::Client;
use leasehold_test_support::{Resp, Server};

/// How often each event happens.
const ROUNDS: usize = 5;

/// Takes, waits for, hands over, releases and loses locks whose names begin so, and prints how long the page took for each.
pub(crate) async fn tell(page: &Page, server: &Server, beginning: &str) {
    let one = Client::connect(&server.url()).await.expect("a client");
    let other = Client::connect(&server.url()).await.expect("a client");
    let other_id = id(&other).await;
    let words = [
        "taken, new to the page",
        "waited for",
        "handed over",
        "released",
        "taken again",
        "deleted",
        "taken by leasehold run",
        "waited for by leasehold run",
        "lost by kill -9",
    ];
    let mut figures = words.map(Figures::of);
    for round in 0..ROUNDS {
        let name = format!("{beginning}{round}");
        let [taken, waited, handed, released, again, deleted, run, run_waits, lost] = &mut figures;

        page.watch(&name, &Shows::Held).await;
        let event = now();
        let guard = one.lock(&name).acquire().await.expect("the lock");
        taken.add(event, page.noted(&name).await);

        page.watch(&name, &Shows::Waiting).await;
        let event = now();
        let (waiter, waited_for) = (other.clone(), name.clone());
        let waiting = tokio::spawn(async move { waiter.lock(waited_for).acquire().await.expect("the lock") });
        waited.add(event, page.noted(&name).await);

        // The table cuts the id of the client.
        page.watch(&name, &Shows::HeldBy(format!("{}…:", &other_id[..8]))).await;
        let event = now();
        guard.release().await.expect("a release");
        handed.add(event, page.noted(&name).await);
        let guard = waiting.await.expect("a waiter");

        page.watch(&name, &Shows::Free).await;
        let event = now();
        guard.release().await.expect("a release");
        released.add(event, page.noted(&name).await);

        page.watch(&name, &Shows::Held).await;
        let event = now();
        let guard = one.lock(&name).acquire().await.expect("the lock");
        again.add(event, page.noted(&name).await);

        page.watch(&name, &Shows::Free).await;
        let event = now();
        server.command(&["DEL", &name]);
        deleted.add(event, page.noted(&name).await);
        // Its client learns of the loss at the next renewal.
        drop(guard);

        // The times of these two have the start of a process in them.
        page.watch(&name, &Shows::Held).await;
        let event = now();
        let holder = Holder::of(server, &name, &["--lease", "1s"]);
        run.add(event, page.noted(&name).await);
        page.shows(&name, Shows::HeldBy(holder.pid().to_string())).await;

        page.watch(&name, &Shows::Waiting).await;
        let event = now();
        let waiter = Holder::waiting(server, &name, &[]);
        run_waits.add(event, page.noted(&name).await);
        drop(waiter);

        page.watch(&name, &Shows::Free).await;
        drop(holder);
        // The lock is lost at the end of the lease.
        let Resp::Int(left) = server.command(&["PTTL", &name]) else { panic!("the lease of {name}") };
        let event = now() + u64::try_from(left).expect("a lease");
        lost.add(event, page.noted(&name).await);
    }
    figures::tell(figures);
    for client in [one, other] {
        client.shutdown(std::time::Duration::from_secs(5)).await.expect("a shutdown");
    }
}

/// The part that all holder ids of a client have.
async fn id(client: &Client) -> String {
    let guard = client.lock("the id of a client").acquire().await.expect("the lock");
    let id = guard.holder_id().as_str().split(':').next().expect("an id").to_owned();
    guard.release().await.expect("a release");
    id
}

/// The milliseconds of a lease that is longer than any case.
pub(crate) fn long_lease() -> String {
    millis(std::time::Duration::from_secs(3_600)).to_string()
}
