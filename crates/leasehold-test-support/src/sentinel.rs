//! A private primary with a replica and a sentinel that watches them.

use std::net::SocketAddr;

use crate::{Binary, Divide, Resp, Server, Side, eventually, until};

/// A primary, its replica, and one sentinel that decides alone and after half a second.
#[derive(Debug)]
pub struct Sentinel {
    servers: [Server; 2],
    sentinel: Server,
}

impl Sentinel {
    /// The name under which the sentinel watches the servers.
    pub const SERVICE: &str = "leasehold";

    /// Starts all three and waits until the sentinel knows both servers.
    ///
    /// # Panics
    ///
    /// When there is no server program, or they do not come together.
    #[must_use]
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&Binary::any().expect("a server program"))
    }

    /// As [`Sentinel::start`], with a particular program.
    #[must_use]
    #[track_caller]
    pub fn start_with(binary: &Binary) -> Self {
        Self::start_on(binary, [None; 3])
    }

    /// As [`Sentinel::start_with`], across a link that can be cut: the primary on one side, its replica and the sentinel on the other.
    #[must_use]
    #[track_caller]
    pub fn start_across(binary: &Binary, divide: &Divide) -> Self {
        let [near, far] = divide.sides();
        Self::start_on(binary, [Some(near), Some(far), Some(far)])
    }

    #[track_caller]
    fn start_on(binary: &Binary, sides: [Option<&Side>; 3]) -> Self {
        let on = |at: usize| {
            let builder = Server::builder().binary(binary);
            sides[at].map_or_else(|| builder.clone(), |side| builder.clone().on(side))
        };
        let server = |at: usize| on(at).arg("repl-diskless-sync-delay", "0");
        let primary = server(0).start();
        let address = format!("{} {}", primary.peer_addr().ip(), primary.port());
        let replica = server(1).arg("replicaof", &address).start();
        until("the replica is in step", || replica.info("master_link_status").as_deref() == Some("up"));
        let service = Self::SERVICE;
        let sentinel = on(2)
            .sentinel()
            .arg("sentinel", &format!("monitor {service} {address} 1"))
            .arg("sentinel", &format!("down-after-milliseconds {service} 500"))
            .arg("sentinel", &format!("failover-timeout {service} 3000"))
            .start();
        // The usual periods make a failover last ten seconds and more. Versions that cannot change them are only slower. The
        // period of pings stays as it is, because replicas that were silent for five of them are not promoted.
        sentinel.command(&["SENTINEL", "DEBUG", "INFO-PERIOD", "1000", "PUBLISH-PERIOD", "300"]);
        let world = Self { servers: [primary, replica], sentinel };
        until("the sentinel has a replica to promote", || world.has_a_replica_to_promote());
        world
    }

    /// The URL at which a client reaches whichever server is the primary.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis-sentinel://{}?sentinelServiceName={}", self.sentinel.peer_addr(), Self::SERVICE)
    }

    /// The server that the sentinel calls the primary.
    #[must_use]
    #[track_caller]
    pub fn primary(&self) -> &Server {
        let addr = self.announced().expect("the sentinel's answer");
        self.servers.iter().find(|server| server.peer_addr() == addr).expect("one of the two servers")
    }

    /// The other server.
    #[must_use]
    #[track_caller]
    pub fn replica(&self) -> &Server {
        let primary = self.primary().port();
        self.servers.iter().find(|server| server.port() != primary).expect("the other of two servers")
    }

    /// Both servers, in the order in which they were started.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The sentinel itself.
    #[must_use]
    pub fn sentinel(&self) -> &Server {
        &self.sentinel
    }

    /// Has the sentinel promote the replica. When this returns, the old primary is the new one's replica.
    ///
    /// # Panics
    ///
    /// When the sentinel does not do it.
    #[track_caller]
    pub fn failover(&self) {
        let (old, new) = (self.primary(), self.replica());
        // It is refused until the sentinel has heard enough of the replica.
        until("the sentinel agrees to a failover", || {
            !self.sentinel.command(&["SENTINEL", "FAILOVER", Self::SERVICE]).is_error()
        });
        self.wait_for_primary(new);
        until("the old primary is a replica", || role_of(old).as_deref() == Some("slave"));
        until("the old primary is in step", || old.info("master_link_status").as_deref() == Some("up"));
    }

    /// Waits until a server is the primary, in the sentinel's words and in its own: for instance after the other was killed or
    /// stopped.
    ///
    /// # Panics
    ///
    /// When it is not within 20 seconds.
    #[track_caller]
    pub fn wait_for_primary(&self, server: &Server) {
        eventually("the server is the primary", || {
            (self.announced()? == server.peer_addr() && role_of(server)? == "master").then_some(())
        });
    }

    /// Whether the sentinel has heard from the replica itself that it is one, that it is in step, and that it may be promoted.
    #[must_use]
    pub fn has_a_replica_to_promote(&self) -> bool {
        let replicas = self.sentinel.command(&["SENTINEL", "REPLICAS", Self::SERVICE]);
        let fields = replicas.elements().first().map_or(&[][..], Resp::elements);
        let told = |name: &str, value: &str| {
            fields.chunks(2).any(|field| field[0].as_str() == Some(name) && field[1].as_str() == Some(value))
        };
        let in_step = told("flags", "slave") && told("role-reported", "slave") && told("master-link-status", "ok");
        in_step && !told("slave-priority", "0")
    }

    /// A number that grows with every failover, planned or not, if the sentinel answers.
    #[must_use]
    pub fn epoch(&self) -> Option<u64> {
        let reply = self.sentinel.command(&["SENTINEL", "MASTER", Self::SERVICE]);
        let epoch = reply.elements().chunks(2).find(|field| field[0].as_str() == Some("config-epoch"))?;
        epoch[1].as_str()?.parse().ok()
    }

    /// The address that the sentinel calls the primary's, if it answers.
    #[must_use]
    pub fn announced(&self) -> Option<SocketAddr> {
        let reply = self.sentinel.command(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Self::SERVICE]);
        let part = |at: usize| reply.elements().get(at)?.as_str();
        Some(SocketAddr::new(part(0)?.parse().ok()?, part(1)?.parse().ok()?))
    }
}

fn role_of(server: &Server) -> Option<String> {
    let reply: Resp = server.try_command(&["ROLE"]).ok()?;
    reply.elements().first()?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Connection;

    #[test]
    fn a_failover_swaps_the_servers() {
        Binary::any().expect("a server program");
        for binary in [Binary::redis(), Binary::valkey()].into_iter().flatten() {
            let world = Sentinel::start_with(&binary);
            let (old, new) = (world.primary(), world.replica());
            assert_eq!(old.command(&["SET", "a", "1"]), Resp::Simple("OK".into()));
            assert_eq!(old.command(&["WAIT", "1", "5000"]), Resp::Int(1));
            world.failover();
            assert_eq!((world.primary().port(), world.replica().port()), (new.port(), old.port()));
            assert_eq!(new.command(&["GET", "a"]), Resp::Bulk(b"1".to_vec()));
        }
    }

    #[test]
    fn a_dead_primary_is_replaced() {
        let world = Sentinel::start();
        let (old, new) = (world.primary(), world.replica());
        let expected = format!("redis-sentinel://{}?sentinelServiceName=leasehold", world.sentinel().addr());
        assert_eq!(world.url(), expected);
        old.kill();
        world.wait_for_primary(new);
        assert!(Connection::connect(old.addr()).is_err());
        assert_eq!(new.command(&["SET", "a", "1"]), Resp::Simple("OK".into()));
    }
}
