//! What a readiness check asks.

use crate::support::{World, ms, secs, until};
use leasehold::{Client, ConnectError};

pub(crate) async fn a_ping_returns_after_a_round_trip(world: World) {
    let client = world.client().await;
    assert!(client.is_connected());
    let round_trip = client.ping().await.expect("a reply");
    assert!(round_trip >= world.engine.round_trip(), "{round_trip:?}");
    assert!(client.is_connected());
}

pub(crate) async fn a_ping_fails_while_the_server_is_down(world: World) {
    let world = world.proxied();
    let client = world.client_with(|builder| builder.command_timeout(ms(300))).await;
    client.ping().await.expect("a reply");
    world.set_down(true);
    let error = client.ping().await.expect_err("a server that is down");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    until("the client knows of the outage", || !client.is_connected()).await;
    world.set_down(false);
    until("the client is connected again", || client.is_connected()).await;
    client.ping().await.expect("a reply");
}

pub(crate) async fn a_client_that_never_connected_is_not_ready(_: World) {
    let client = Client::builder().command_timeout(ms(100)).connect_lazy("redis://127.0.0.1:1").expect("a client");
    assert!(!client.is_connected());
    let error = client.ping().await.expect_err("nothing listens there");
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    client.shutdown(secs(1)).await.expect("nothing is held");
}
