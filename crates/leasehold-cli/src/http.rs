//! The connections of HTTP clients: limits, timeouts and shutdown.

mod patience;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use patience::Patient;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Maximum number of connections. Further connections wait.
const MOST: usize = 256;

/// Timeout of request headers and of idle connections.
const HEAD: Duration = Duration::from_secs(10);

/// Write timeout, for a browser that does not read its response.
const UNREAD: Duration = Duration::from_secs(30);

/// Pause after a failed accept, for example without free file descriptors.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// Timeout of pending requests at shutdown.
const FAREWELL: Duration = Duration::from_secs(2);

/// Handles requests until shutdown, then finishes pending requests.
pub(crate) async fn serve(listener: TcpListener, router: Router, mut ended: watch::Receiver<bool>) {
    let (places, mut all) = (Arc::new(Semaphore::new(MOST)), JoinSet::new());
    loop {
        tokio::select! {
            biased;
            () = until_ended(&mut ended) => break,
            Some(_) = all.join_next() => {}
            accepted = accept(&listener, &places) => match accepted {
                Some((stream, place)) => drop(all.spawn(converse(stream, place, router.clone(), ended.clone()))),
                None => sleep(AFTER_FAILURE).await,
            },
        }
    }
    // The drop of the set aborts slower requests.
    let _ = timeout(FAREWELL, async { while all.join_next().await.is_some() {} }).await;
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

async fn until_ended(ended: &mut watch::Receiver<bool>) {
    // A dropped sender also means shutdown.
    let _ = ended.wait_for(|ended| *ended).await;
}

/// Handles the requests of one connection.
async fn converse(stream: TcpStream, place: OwnedSemaphorePermit, router: Router, mut ended: watch::Receiver<bool>) {
    let Ok(came_to) = stream.local_addr() else { return };
    // Send small messages at once.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router.layer(Extension(came_to.ip())));
    let stream = TokioIo::new(Patient::new(stream, UNREAD));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(64 * 1024)
        .serve_connection(stream, service);
    let mut connection = std::pin::pin!(connection);
    let is_over = tokio::select! {
        // Ignore connection errors.
        _ = connection.as_mut() => true,
        () = until_ended(&mut ended) => false,
    };
    if !is_over {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    drop(place);
}
