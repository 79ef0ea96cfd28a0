//! The connections of browsers: how many there are at most, how long they may take, and how they end.

use super::patience::Patient;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// How many connections there are at the most. Further ones wait.
const MOST: usize = 256;

/// How long the head of a request may take, and a connection may be idle.
const HEAD: Duration = Duration::from_secs(10);

/// How long a browser may leave its answer unread.
const UNREAD: Duration = Duration::from_secs(30);

/// The pause after a connection that the system could not give us, for want of file descriptors for instance.
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// How long requests under way may go on at the end.
const FAREWELL: Duration = Duration::from_secs(2);

/// Answers requests until the end, and then those that are under way.
pub(super) async fn serve(listener: TcpListener, router: Router, mut ended: watch::Receiver<bool>) {
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
    // Dropping the set ends what takes longer.
    let _ = timeout(FAREWELL, async { while all.join_next().await.is_some() {} }).await;
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = places.clone().acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    Some((stream, place))
}

async fn until_ended(ended: &mut watch::Receiver<bool>) {
    // Without a sender the program has ended as well.
    let _ = ended.wait_for(|ended| *ended).await;
}

/// Answers the requests of one connection.
async fn converse(stream: TcpStream, place: OwnedSemaphorePermit, router: Router, mut ended: watch::Receiver<bool>) {
    let Ok(came_to) = stream.local_addr() else { return };
    // Messages are small, and wait for nothing.
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
        // A browser that goes away, or sends nonsense, is no concern of ours.
        _ = connection.as_mut() => true,
        () = until_ended(&mut ended) => false,
    };
    if !is_over {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
    drop(place);
}
