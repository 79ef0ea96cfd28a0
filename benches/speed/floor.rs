//! The floor: bare fred, sending the very scripts of the lock, with the socket options that the lock uses, and nothing else.

use bytes::Bytes;
use fred::prelude::{Builder, Client, ClientLike, Config};
use fred::types::config::{Options, TcpConfig};
use fred::types::{ClusterHash, CustomCommand, Value};
use leasehold_core::call::Call;
use leasehold_core::name::LockName;
use leasehold_core::script;

/// One connection of bare fred.
#[derive(Clone)]
pub(crate) struct Floor {
    client: Client,
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
        let floor = Self { client };
        for script in [&script::ACQUIRE, &script::RELEASE, &script::SIMPLE_ACQUIRE, &script::SIMPLE_RELEASE] {
            let args: Vec<Value> = vec!["LOAD".into(), script.source().into()];
            let _: Value =
                floor.client.custom(CustomCommand::new_static("SCRIPT", None, false), args).await.expect("a script");
        }
        floor
    }

    pub(crate) async fn acquire(&self, name: &LockName, hold: &Bytes) {
        let keys = vec![name.key().clone()];
        let args = vec![hold.clone(), "1".into(), "30000".into(), "-1".into()];
        let reply = self.call(Call::new(&script::ACQUIRE, keys, args)).await;
        assert!(matches!(reply, Value::Array(parts) if parts.first() == Some(&Value::Integer(1))), "granted");
    }

    pub(crate) async fn release(&self, name: &LockName, hold: &Bytes) {
        let keys = vec![name.key().clone(), name.channel().clone()];
        let args = vec![hold.clone(), "0".into(), "PUBLISH".into()];
        let reply = self.call(Call::new(&script::RELEASE, keys, args)).await;
        assert_eq!(reply, Value::Integer(1), "released");
    }

    /// Acquires the simple lock.
    pub(crate) async fn acquire_simple(&self, name: &LockName, hold: &Bytes) {
        let args = vec![hold.clone(), "1".into(), "30000".into(), "-1".into()];
        let reply = self.call(Call::new(&script::SIMPLE_ACQUIRE, vec![name.key().clone()], args)).await;
        assert!(matches!(reply, Value::Array(parts) if parts.first() == Some(&Value::Integer(1))), "granted");
    }

    /// Releases the simple lock.
    pub(crate) async fn release_simple(&self, name: &LockName, hold: &Bytes) {
        let args = vec![hold.clone(), "0".into()];
        let reply = self.call(Call::new(&script::SIMPLE_RELEASE, vec![name.key().clone()], args)).await;
        assert_eq!(reply, Value::Integer(1), "released");
    }

    async fn call(&self, call: Call) -> Value {
        let mut args: Vec<Value> = Vec::with_capacity(2 + call.keys().len() + call.args().len());
        args.push(Value::from_static_str(call.script().sha1()));
        args.push(i64::try_from(call.keys().len()).expect("few keys").into());
        args.extend(call.keys().iter().chain(call.args()).map(|part| Value::Bytes(part.clone())));
        let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
        self.client
            .with_options(&Options { fail_fast: true, ..Options::default() })
            .custom(command, args)
            .await
            .expect("a reply")
    }
}
