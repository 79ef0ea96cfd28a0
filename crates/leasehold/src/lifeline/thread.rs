//! The thread that a lifeline usually lives in.

use crate::shared::Shared;
use std::io;
use std::sync::Arc;
use tokio::sync::oneshot;

/// Starts a thread with a runtime of its own. `prepare` runs on it, and what it returns is handed out; then the thread
/// waits for the client that is made of it, and is its lifeline. A client that is never made ends the thread.
pub(crate) fn start<T, F>(prepare: F) -> io::Result<(oneshot::Receiver<T>, oneshot::Sender<Arc<Shared>>)>
where
    T: Send + 'static,
    F: AsyncFnOnce() -> T + Send + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (prepared, ready) = oneshot::channel();
    let (hand_over, client) = oneshot::channel::<Arc<Shared>>();
    std::thread::Builder::new().name("leasehold-lifeline".to_owned()).spawn(move || {
        runtime.block_on(async move {
            let mut prepared = prepared;
            // A caller that has gone wants nothing to be prepared: what was begun is dropped, and the thread ends. One that wants a thread only,
            // with nothing on it, waits for nothing either, and is no caller that has gone: what is ready at once is asked for first.
            let made = tokio::select! {
                biased;
                made = prepare() => made,
                () = prepared.closed() => return,
            };
            // A caller that does not want what was prepared does not hand over a client either.
            let _ = prepared.send(made);
            if let Ok(shared) = client.await {
                super::run(shared).await;
            }
        });
        // fred's tasks end with their connections; whatever does not end by itself must not keep the process.
        runtime.shutdown_background();
    })?;
    Ok((ready, hand_over))
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use crate::Client;
    use std::time::Duration;

    #[tokio::test]
    async fn a_lifeline_that_prepares_nothing_waits_for_its_client() {
        for _ in 0..20 {
            let client = Client::embedded();
            drop(client.lock("left").acquire().await.expect("the lock"));
            // It is the lifeline that ends a shutdown.
            let ended = tokio::time::timeout(Duration::from_secs(20), client.shutdown(Duration::from_secs(5))).await;
            ended.expect("a lifeline").expect("nothing is left");
        }
    }
}
