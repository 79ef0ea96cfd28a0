//! The service: acquires the lock of a request, runs the inner service, and releases the lock.

use crate::held::{HeldLock, LostLock, OnLoss};
use crate::refusal::{Refusal, Refuse};
use crate::settings::{Settings, Waiting, WithoutKey};
use http::request::Parts;
use http::{Request, Response};
use leasehold::kind::Any;
use leasehold::{AnyLock, Error, Guard};
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_service::Service;

/// A service whose requests run under the locks of their keys. [`LockLayer`](crate::LockLayer) creates it.
#[derive(Clone)]
pub struct LockService<S, F, R> {
    inner: S,
    key: F,
    settings: Settings,
    refuse: R,
}

impl<S, F, R> LockService<S, F, R> {
    pub(crate) const fn new(inner: S, key: F, settings: Settings, refuse: R) -> Self {
        Self { inner, key, settings, refuse }
    }
}

impl<S, F, L, R, Q, B> Service<Request<Q>> for LockService<S, F, R>
where
    S: Service<Request<Q>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    F: Fn(&Parts) -> Option<L>,
    L: Into<AnyLock>,
    R: Refuse<B> + Clone + Send + 'static,
    Q: Send + 'static,
    B: Send,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = ResponseFuture<Response<B>, S::Error>;

    /// The service is always ready: it polls the inner service under the lock.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let (parts, body) = request.into_parts();
        let lock = (self.key)(&parts).map(Into::into);
        let request = Request::from_parts(parts, body);
        let (inner, settings, refuse) = (self.inner.clone(), self.settings, self.refuse.clone());
        ResponseFuture(Box::pin(async move {
            match (lock, settings.without_key) {
                (Some(lock), _) => serve_under(&lock, settings, refuse, inner, request).await,
                (None, WithoutKey::Serve) => serve(inner, request).await,
                (None, WithoutKey::Refuse) => Ok(refuse.refuse(Refusal::NoKey)),
            }
        }))
    }
}

async fn serve<S: Service<Request<Q>>, Q>(mut inner: S, request: Request<Q>) -> Result<S::Response, S::Error> {
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    inner.call(request).await
}

async fn acquire(lock: &AnyLock, waiting: Waiting) -> Result<Guard<Any>, Refusal> {
    let guard = match waiting {
        Waiting::Try => lock.try_acquire().await,
        Waiting::For(wait) => lock.acquire().wait(wait).await.map(Some),
    };
    guard.map_err(Refusal::of)?.ok_or_else(|| Refusal::Busy { lock: lock.name().to_owned() })
}

/// Serves a request under its lock. This future owns the guard, so dropping the future or a panic of the inner service
/// releases the lock.
async fn serve_under<S, R, Q, B>(
    lock: &AnyLock,
    settings: Settings,
    refuse: R,
    inner: S,
    mut request: Request<Q>,
) -> Result<Response<B>, S::Error>
where
    S: Service<Request<Q>, Response = Response<B>>,
    R: Refuse<B>,
{
    let guard = match acquire(lock, settings.waiting).await {
        Ok(guard) => guard,
        Err(refusal) => return Ok(refuse.refuse(refusal)),
    };
    request.extensions_mut().insert(HeldLock::of(&guard));
    let work = serve(inner, request);
    let served = match settings.on_loss {
        OnLoss::Stop => match guard.run(work).await {
            Ok(served) => served,
            Err(lost) => {
                let refusal = Refusal::Lost { lock: lost.lock().to_owned(), reason: lost.reason() };
                return Ok(refuse.refuse(refusal));
            }
        },
        OnLoss::Mark => work.await,
    };
    let released = guard.release().await;
    let mut response = served?;
    // The background retries a release without a reply. By the local clock, the lock was held to the end, so the work
    // is valid.
    if let Err(Error::Lost { lock, reason }) = released {
        match settings.on_loss {
            OnLoss::Stop => return Ok(refuse.refuse(Refusal::Lost { lock, reason })),
            OnLoss::Mark => drop(response.extensions_mut().insert(LostLock::new(lock, reason))),
        }
    }
    Ok(response)
}

impl<S: fmt::Debug, F, R> fmt::Debug for LockService<S, F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("LockService");
        shown.field("inner", &self.inner).field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// The future of a response.
///
/// # Cancel safety
///
/// Dropping the future ends the wait, or drops the inner future and releases the lock in the background.
#[must_use = "a request is served while this is polled"]
pub struct ResponseFuture<T, E>(Pin<Box<dyn Future<Output = Result<T, E>> + Send>>);

impl<T, E> Future for ResponseFuture<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl<T, E> fmt::Debug for ResponseFuture<T, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
