//! The layer, which builds a service.

use crate::held::OnLoss;
use crate::refusal::Http;
use crate::service::LockService;
use crate::settings::{Settings, Waiting, WithoutKey};
use http::request::Parts;
use leasehold::AnyLock;
use std::fmt;
use std::time::Duration;
use tower_layer::Layer;

/// Serves each request under the lock of its key. The [crate](crate) has an example and the limits.
///
/// `F` returns the lock of a request, and `R` builds the response to a refused request.
#[derive(Clone)]
pub struct LockLayer<F, R = Http> {
    key: F,
    settings: Settings,
    refuse: R,
}

impl<F> LockLayer<F> {
    /// Creates a layer that acquires the lock that `key` returns for a request. A request with `None` runs without a lock.
    ///
    /// The lock may be of any kind that converts into [`AnyLock`], with its own class, linger time and other settings. Each request is a separate
    /// owner.
    ///
    /// ```
    /// use leasehold_tower::LockLayer;
    ///
    /// # let client = leasehold::Client::embedded();
    /// let layer = LockLayer::new(move |request: &http::request::Parts| {
    ///     let account = request.headers.get("x-account")?.to_str().ok()?;
    ///     Some(client.fair_lock(format!("account:{account}")).class("account"))
    /// });
    /// ```
    pub const fn new<L: Into<AnyLock>>(key: F) -> Self
    where
        F: Fn(&Parts) -> Option<L>,
    {
        let settings = Settings { waiting: Waiting::Try, without_key: WithoutKey::Serve, on_loss: OnLoss::Stop };
        Self { key, settings, refuse: Http::new() }
    }
}

impl<F, R> LockLayer<F, R> {
    /// Sets the longest wait of a request for a busy lock. Default: requests do not wait.
    ///
    /// ```
    /// # use leasehold_tower::{LockLayer, header};
    /// # let client = leasehold::Client::embedded();
    /// let layer = LockLayer::new(header(&client, "x-account", "account:")).wait(std::time::Duration::from_secs(2));
    /// ```
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Self {
        self.settings.waiting = Waiting::For(wait);
        self
    }

    /// Refuses requests without a key. Default: such requests run without a lock.
    ///
    /// ```
    /// # use leasehold_tower::{LockLayer, header};
    /// # let client = leasehold::Client::embedded();
    /// let layer = LockLayer::new(header(&client, "idempotency-key", "orders:")).require_key();
    /// ```
    #[must_use]
    pub fn require_key(mut self) -> Self {
        self.settings.without_key = WithoutKey::Refuse;
        self
    }

    /// Sets the behaviour of requests that lose their lock. Default: [`OnLoss::Stop`].
    ///
    /// ```
    /// # use leasehold_tower::{LockLayer, OnLoss, header};
    /// # let client = leasehold::Client::embedded();
    /// let layer = LockLayer::new(header(&client, "x-account", "account:")).on_loss(OnLoss::Mark);
    /// ```
    #[must_use]
    pub fn on_loss(mut self, on_loss: OnLoss) -> Self {
        self.settings.on_loss = on_loss;
        self
    }

    /// Sets the response to refused requests: [`Http`] with other statuses, [`Grpc`](crate::Grpc), or a function.
    ///
    /// ```
    /// # use leasehold_tower::{LockLayer, Refusal, header};
    /// # let client = leasehold::Client::embedded();
    /// let layer = LockLayer::new(header(&client, "x-account", "account:"))
    ///     .refuse_with(|refusal: Refusal| http::Response::builder().status(409).body(refusal.to_string()).unwrap());
    /// ```
    #[must_use]
    pub fn refuse_with<T>(self, refuse: T) -> LockLayer<F, T> {
        LockLayer { key: self.key, settings: self.settings, refuse }
    }
}

impl<S, F: Clone, R: Clone> Layer<S> for LockLayer<F, R> {
    type Service = LockService<S, F, R>;

    fn layer(&self, inner: S) -> Self::Service {
        LockService::new(inner, self.key.clone(), self.settings, self.refuse.clone())
    }
}

impl<F, R> fmt::Debug for LockLayer<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer").field("settings", &self.settings).finish_non_exhaustive()
    }
}
