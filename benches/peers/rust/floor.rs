//! The floor: bare fred, sending the very scripts of the lock, with the socket options that the lock uses, and nothing else.

use crate::library::Library;
use crate::work::pause;
use bytes::Bytes;
use fred::prelude::{Builder, Client, ClientLike, Config, EventInterface, PubsubInterface};
use fred::types::config::{Options, TcpConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use leasehold_core::call::Call;
use leasehold_core::name::LockName;
use leasehold_core::script;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// One connection of bare fred.
#[derive(Clone)]
pub(crate) struct Floor {
    client: Client,
    url: String,
}

/// A name, and the numbers of its holds.
pub(crate) struct Named {
    floor: Floor,
    name: LockName,
    client: String,
    holds: AtomicU64,
}

impl Floor {
    pub(crate) async fn connect(url: &str) -> Self {
        let config = Config::from_url(url).expect("a valid URL");
        let client = Builder::from_config(config)
            .with_connection_config(|connection| {
                connection.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
            })
            .build()
            .expect("a client");
        client.init().await.expect("a connection");
        let floor = Self { client, url: url.to_owned() };
        for script in [&script::ACQUIRE, &script::RELEASE] {
            let args: Vec<Value> = vec!["LOAD".into(), script.source().into()];
            let _: Value =
                floor.client.custom(CustomCommand::new_static("SCRIPT", None, false), args).await.expect("a script");
        }
        floor
    }

    async fn send_acquire(&self, name: &LockName, hold: &Bytes) {
        let keys = vec![name.to_key()];
        let args = vec![hold.clone(), "1".into(), "30000".into(), "-1".into(), "PUBLISH".into(), name.channel()];
        let reply = self.call(Call::new(&script::ACQUIRE, keys, args)).await;
        assert!(matches!(reply, Value::Array(parts) if parts.first() == Some(&Value::Integer(1))), "granted");
    }

    async fn send_release(&self, name: &LockName, hold: &Bytes) {
        let args = vec![hold.clone(), "0".into(), "PUBLISH".into(), "0".into(), Bytes::new(), name.channel()];
        let reply = self.call(Call::new(&script::RELEASE, vec![name.to_key()], args)).await;
        assert!(matches!(reply, Value::Integer(1 | 6 | 7)), "released: {reply:?}");
    }

    async fn call(&self, call: Call) -> Value {
        let mut args: Vec<Value> = Vec::with_capacity(2 + call.keys().len() + call.args().len());
        args.push(Value::from_static_str(call.script().sha1()));
        args.push(i64::try_from(call.keys().len()).expect("few keys").into());
        args.extend(call.keys().iter().chain(call.args()).map(|part| Value::Bytes(Bytes::copy_from_slice(part))));
        let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
        self.client
            .with_options(&Options { fail_fast: true, ..Options::default() })
            .custom(command, args)
            .await
            .expect("a reply")
    }
}

impl Library for Floor {
    type Lock = Arc<Named>;
    type Held = (Arc<Named>, Bytes);

    async fn another(&self) -> Self {
        Self::connect(&self.url).await
    }

    fn lock(&self, name: &str) -> Arc<Named> {
        let client = uuid::Uuid::new_v4().hyphenated().to_string();
        let name = LockName::new("", name).expect("a name");
        Arc::new(Named { floor: self.clone(), name, client, holds: AtomicU64::default() })
    }

    async fn acquire(lock: &Arc<Named>) -> (Arc<Named>, Bytes) {
        let hold = Bytes::from(format!("{}:{}", lock.client, lock.holds.fetch_add(1, Ordering::Relaxed)));
        lock.floor.send_acquire(&lock.name, &hold).await;
        (lock.clone(), hold)
    }

    async fn release((lock, hold): (Arc<Named>, Bytes)) {
        lock.floor.send_release(&lock.name, &hold).await;
    }

    /// The least that a wake-up can be: one release script, its message at another connection, and one acquire script there.
    async fn wake_up(&self, name: &str, count: usize, pauses: Range<Duration>) -> Option<Vec<Duration>> {
        let waiter = self.another().await;
        let name = LockName::new("", name).expect("a name");
        let config = Config::from_url(&self.url).expect("a valid URL");
        let listener = Builder::from_config(config).build_subscriber_client().expect("a client");
        listener.init().await.expect("a connection");
        let mut messages = listener.message_rx();
        listener.subscribe(std::str::from_utf8(&name.channel()).expect("text")).await.expect("subscribed");
        let _: Value = listener.ping(None).await.expect("confirmed");
        let mut times = Vec::with_capacity(count);
        for number in 0..count {
            let (first, second) = (Bytes::from(format!("floor:{number}:a")), Bytes::from(format!("floor:{number}:b")));
            self.send_acquire(&name, &first).await;
            tokio::time::sleep(pause(&pauses, number)).await;
            let begun = Instant::now();
            let released = async { self.send_release(&name, &first).await };
            let woken = async {
                let _ = messages.recv().await.expect("a message");
                waiter.send_acquire(&name, &second).await;
                begun.elapsed()
            };
            let ((), time) = tokio::join!(released, woken);
            times.push(time);
            waiter.send_release(&name, &second).await;
            let _ = messages.recv().await.expect("a message");
        }
        Some(times)
    }
}
