//! The background's thread.

use crate::client::inner::ClientInner;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Thread name of every background.
pub(crate) const NAME: &str = "leasehold-background";

/// Starts a thread with its own runtime, and runs `prepare` in the context of that runtime. The thread waits for a client, and runs the client's
/// background. Without a client it ends.
pub(crate) fn start<T>(prepare: impl FnOnce() -> T) -> io::Result<(T, oneshot::Sender<Arc<ClientInner>>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let prepared = {
        let _context = runtime.enter();
        prepare()
    };
    let (hand_over, client) = oneshot::channel::<Arc<ClientInner>>();
    let thread = std::thread::Builder::new().name(NAME.to_owned());
    thread.spawn(move || {
        runtime.block_on(async {
            if let Ok(inner) = client.await {
                super::run(inner).await;
            }
        });
        // Connection tasks end with their connections. A task that does not end must not keep the process alive.
        runtime.shutdown_background();
    })?;
    Ok((prepared, hand_over))
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use crate::Client;
    use std::time::Duration;

    #[tokio::test]
    async fn a_background_that_prepares_nothing_waits_for_its_client() {
        for _ in 0..20 {
            let client = Client::embedded();
            drop(client.lock("left").acquire().await.expect("the lock"));
            // It is the background that ends a shutdown.
            let ended = tokio::time::timeout(Duration::from_secs(20), client.shutdown(Duration::from_secs(5))).await;
            ended.expect("a background").expect("nothing is left");
        }
    }

    #[tokio::test]
    async fn clean_up_of_many_locks_needs_no_deep_stack() {
        let link = leasehold_embedded::EmbeddedServer::new().link();
        let client = Client::builder().embedded_link(link.clone()).expect("a client");
        let mut guards = Vec::new();
        for number in 0..10_000 {
            guards.push(client.lock(format!("stock-{number}")).acquire().await.expect("the lock"));
        }
        link.set_down(true);
        drop(guards);
        link.set_down(false);
        client.shutdown(Duration::from_secs(60)).await.expect("nothing is left");
    }

    #[tokio::test]
    async fn reply_that_is_due_within_a_call_of_the_session_is_delivered() {
        let clock = leasehold_embedded::ServerClock::tokio(tokio::time::Instant::now());
        let server = leasehold_embedded::EmbeddedServer::with_clock(clock);
        server.set_round_trip(Duration::from_millis(40));
        let client = Client::builder().embedded(&server).expect("a client");
        let first = client.lock("first");
        let first = tokio::spawn(async move { first.acquire().await.map(drop) });
        // The server has received the request, and its reply is in flight.
        tokio::time::sleep(Duration::from_millis(25)).await;
        // Block the runtime, so that the clock does not wake the server.
        std::thread::sleep(Duration::from_millis(100));
        drop(client.lock("second").acquire().await.expect("the lock"));
        first.await.expect("no panic").expect("the lock");
    }
}
