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
            // A caller that has gone wants nothing to be prepared: what was begun is dropped, and the thread ends.
            let made = tokio::select! {
                biased;
                () = prepared.closed() => return,
                made = prepare() => made,
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
