//! A proxy in front of a cluster that looks like a single server, as in managed services. It routes each command by the
//! hash slot of its keys, and refuses a command with keys of several slots with `CROSSSLOT`.

use std::{net::SocketAddr, sync::Arc};

use crate::{Binary, Proxy, Request, Resp, Server, proxy::Watch, until};

/// The proxy and its server.
#[derive(Debug)]
pub struct SplittingProxy {
    proxy: Proxy,
    server: Server,
}

impl SplittingProxy {
    /// Starts a server that serves all slots, and the proxy in front of it.
    ///
    /// # Panics
    ///
    /// When the server does not serve all slots.
    #[must_use]
    #[track_caller]
    pub fn start(binary: &Binary) -> Self {
        let server = serving_all_slots(binary);
        let proxy = Proxy::watched(server.addr(), Arc::new(HidesCluster));
        Self { proxy, server }
    }

    /// The URL of the proxy: that of a single server.
    #[must_use]
    pub fn url(&self) -> String {
        self.proxy.url()
    }

    /// The server behind it.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }
}

/// A cluster of one server, which serves all slots.
///
/// # Panics
///
/// When the server does not serve all slots.
#[track_caller]
pub(crate) fn serving_all_slots(binary: &Binary) -> Server {
    let server = Server::builder().binary(binary).arg("cluster-enabled", "yes").start();
    let slots: Vec<_> = (0..16_384).map(|slot: u16| slot.to_string()).collect();
    // Redis 6.2 has no ADDSLOTSRANGE.
    let words: Vec<_> = ["CLUSTER", "ADDSLOTS"].into_iter().chain(slots.iter().map(String::as_str)).collect();
    let added = server.command(&words);
    assert!(!added.is_error(), "{added:?}");
    until("the server serves all slots", || {
        let state = server.command(&["CLUSTER", "INFO"]);
        state.as_str().is_some_and(|state| state.contains("cluster_state:ok"))
    });
    server
}

/// Reports the mode `standalone` in `INFO`.
struct HidesCluster;

impl Watch for HidesCluster {
    fn answered(&self, _server: &str, _request: &Request, reply: &Resp) -> Option<Resp> {
        let info = reply
            .as_str()
            .filter(|text| text.contains("redis_mode:cluster") || text.contains("server_mode:cluster"))?;
        Some(Resp::Bulk(info.replace("_mode:cluster", "_mode:standalone").into_bytes()))
    }

    fn refused(&self, _target: SocketAddr) {}
}
