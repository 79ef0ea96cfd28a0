//! leasehold, with each of the settings that are measured.

use crate::library::Library;
use leasehold::kind::LockKind;
use leasehold::{Client, Guard, Lock, Tuning};
use std::sync::Arc;

/// The setting of the client in which a variant differs from the defaults.
#[derive(Clone, Copy)]
pub(crate) enum Settings {
    Usual,
    NoBatches,
    HandOver,
    NoHandOver,
}

/// Makes a lock of the kind that is measured.
type Make<K> = dyn Fn(&Client, &str) -> Lock<K> + Send + Sync;

pub(crate) struct Leasehold<K: LockKind> {
    client: Client,
    url: String,
    settings: Settings,
    make: Arc<Make<K>>,
}

impl<K: LockKind> Clone for Leasehold<K> {
    fn clone(&self) -> Self {
        Self { client: self.client.clone(), url: self.url.clone(), settings: self.settings, make: self.make.clone() }
    }
}

impl<K: LockKind> Leasehold<K> {
    pub(crate) async fn connect(
        url: &str,
        settings: Settings,
        make: impl Fn(&Client, &str) -> Lock<K> + Send + Sync + 'static,
    ) -> Self {
        Self { client: client(url, settings).await, url: url.to_owned(), settings, make: Arc::new(make) }
    }
}

async fn client(url: &str, settings: Settings) -> Client {
    let builder = match settings {
        Settings::Usual => Client::builder(),
        Settings::NoBatches => Client::builder().tuning(Tuning::new().batch_calls(false)),
        Settings::HandOver => Client::builder().hand_over(true),
        Settings::NoHandOver => Client::builder().hand_over(false),
    };
    builder.connect(url).await.expect("a client")
}

impl<K: LockKind> Library for Leasehold<K> {
    type Lock = Lock<K>;
    type Held = Guard<K>;

    async fn another(&self) -> Self {
        Self { client: client(&self.url, self.settings).await, ..self.clone() }
    }

    fn lock(&self, name: &str) -> Lock<K> {
        (self.make)(&self.client, name)
    }

    async fn acquire(lock: &Lock<K>) -> Guard<K> {
        lock.acquire().await.expect("the lock")
    }

    async fn release(held: Guard<K>) {
        held.release().await.expect("released");
    }
}
