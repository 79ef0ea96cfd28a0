//! The behaviour of fred by itself, and why a connection never reconnects. Should one of these fail after an update of fred, the reasoning
//! in `connection.rs` has to be read again.

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::config::{Config, ConnectionConfig, Options, ReconnectPolicy};
use fred::types::{ClusterHash, CustomCommand, Value};
use leasehold_test_support::{After, Proxy, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_reconnection_resends_calls_even_with_fail_fast() {
    let server = Server::start();
    let proxy = Proxy::to(&server);
    let config = Config::from_url(&proxy.url()).expect("a configuration");
    let policy = ReconnectPolicy::new_constant(0, 10);
    let client = Client::new(config, None, Some(ConnectionConfig::default()), Some(policy));
    let router = client.init().await.expect("a connection");
    let trap = proxy.swallow_reply_to("INCR", After::Hang);
    let options = Options { fail_fast: true, ..Options::default() };
    let increment = CustomCommand::new_static("INCR", ClusterHash::FirstKey, false);
    let calling = tokio::spawn({
        let client = client.with_options(&options);
        async move { client.custom::<Value, _>(increment, vec!["n"]).await }
    });
    let trapped = tokio::task::spawn_blocking(move || trap.wait());
    trapped.await.expect("the reply is swallowed");
    client.force_reconnection().await.expect("a new connection");
    assert_eq!(calling.await.expect("no panic").expect("a reply"), Value::Integer(2));
    router.abort();
}
