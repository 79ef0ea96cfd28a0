//! Servers that share their data and take writes at the same time: two of them grant one lock.

use crate::support::on_one_of_each;
use crate::support::{runtime, settings};
use leasehold::ConnectError;
use leasehold_test_support::{Proxy, Request, Resp, Server, Watch};
use std::net::SocketAddr;
use std::sync::Arc;

/// What such a server answers otherwise than the server behind it.
struct Answers {
    command: &'static str,
    from: &'static str,
    to: &'static str,
}

impl Watch for Answers {
    fn answered(&self, _server: &str, request: &Request, reply: &Resp) -> Option<Resp> {
        let asked = request.argv.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ");
        let text = reply.as_str().filter(|_| asked.eq_ignore_ascii_case(self.command))?;
        Some(Resp::Bulk(text.replace(self.from, self.to).into_bytes()))
    }

    fn refused(&self, _target: SocketAddr) {}
}

#[test]
fn server_that_takes_writes_beside_others_is_refused_at_connect() {
    on_one_of_each(|binary| {
        let server = Server::builder().binary(binary).start();
        for (command, from, to, word) in [
            ("INFO replication", "role:master", "role:active-replica", "active-replica"),
            ("INFO modules", "# Modules", "# Modules\r\nmodule:name=crdt,ver=10000,api=1,filters=0", "Active-Active"),
        ] {
            let proxy = Proxy::watched(server.addr(), Arc::new(Answers { command, from, to }));
            let error =
                runtime().block_on(async { settings().connect(&proxy.url()).await.expect_err("it is refused") });
            assert!(matches!(&error, ConnectError::Unsuitable { .. }), "{error:?}");
            assert!(error.to_string().contains(word), "{error}");
        }
    });
}
