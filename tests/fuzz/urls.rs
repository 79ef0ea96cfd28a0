//! URLs of servers. The parser is private to the link, and is compiled into this once more.

use crate::source::Source;

#[path = "../../crates/leasehold/src/error/cause.rs"]
#[cfg_attr(test, expect(unreachable_pub, reason = "the library publishes it"))]
mod cause;
#[path = "../../crates/leasehold/src/link/error.rs"]
#[expect(dead_code, reason = "the parser needs one of its types")]
mod error;
#[path = "../../crates/leasehold/src/link/target.rs"]
#[expect(dead_code, reason = "the link uses more of it")]
#[cfg_attr(test, expect(unreachable_pub, reason = "the library publishes it"))]
mod target;

/// Secure connections, as far as the parser asks for them.
mod tls {
    use super::error::ConnectError;
    use super::target::Certificates;

    /// The sessions are not made here.
    #[derive(Clone)]
    pub(crate) enum ClientSide {}

    #[expect(clippy::unnecessary_wraps, reason = "without TLS it fails")]
    pub(crate) const fn available(_scheme: &str) -> Result<(), ConnectError> {
        Ok(())
    }

    pub(crate) fn client_side(_certificates: &Certificates) -> Result<ClientSide, ConnectError> {
        unreachable!("nothing is connected")
    }
}

use cause::Cause;
use target::{Server, ServerTarget};

pub(crate) const CORPUS: [&[u8]; 9] = [
    b"redis://127.0.0.1:6379",
    b"rediss://user:s3cr3t-hunter2@db.example:6380/3",
    b"valkey-cluster://:s3cr3t-hunter2@a:7000?node=b:7001&node=c:7002",
    b"redis-sentinel://a:26379/1?sentinelServiceName=main&node=b:26379&sentinelPassword=s3cr3t-hunter2",
    b"redis+unix:///run/redis.sock?db=2",
    b"redis+unix://:s3cr3t-hunter2@localhost/run/redis.sock",
    b"valkeys://[::1]:6379/0",
    b"redis://user@host",
    b"redis://:s3cr3t-hunter2@host:port",
];

/// The texts that must be seen nowhere.
const PASSWORD: &str = "s3cr3t-hunter2";

pub(crate) fn check(data: &[u8]) {
    check_url(&String::from_utf8_lossy(data), false);
    // And one that is put together of what could be parts of one.
    let mut source = Source::new(data);
    let scheme =
        source.one_of(&["redis", "rediss", "valkey", "valkeys", "redis-cluster", "redis-sentinel", "redis+unix"]);
    let odd = source.text(3);
    let user = source.one_of(&["", "user", "%00", "a b", "ü"]);
    let host = source.one_of(&["127.0.0.1", "[::1]", "db.example", "", "a", "ü", "0x7f", "[", "run"]);
    let port = source.one_of(&["", ":6379", ":0", ":65536", ":", ":x"]);
    let path = source.one_of(&["", "/", "/3", "/x", "/256", "/run/redis.sock", "//"]);
    let query = source.one_of(&[
        "",
        "?node=b:1",
        "?sentinelServiceName=main",
        "?sentinelServiceName=main&node=b:1&sentinelUsername=u&sentinelPassword=s3cr3t-hunter2",
        "?db=2",
        "?node=b",
        "?",
    ]);
    check_url(&format!("{scheme}://{user}:{PASSWORD}{odd}@{host}{port}{path}{query}"), true);
    check_url(&format!("{scheme}://{odd}{host}{port}{path}{query}"), false);
}

/// `secret` is whether the password stands where passwords do, and nowhere else.
fn check_url(url: &str, secret: bool) {
    let parsed = ServerTarget::parse(url);
    let told = match &parsed {
        Ok(target) => format!("{target} {target:?}"),
        Err(error) => format!("{error} {error:?}"),
    };
    assert!(!secret || !told.contains(PASSWORD), "{url:?} shows its password: {told}");
    let Ok(target) = parsed else { return };
    assert!(!target.to_string().is_empty(), "{url:?} leads nowhere");
    assert!(!target.servers.is_empty(), "{url:?} names no server");
    for host in target.servers.iter().flat_map(Server::hosts) {
        assert!(!host.name.is_empty() && host.port != 0, "{url:?} names {host:?}");
    }
    let scheme = url.split(['-', '+', ':']).next().unwrap_or_default();
    assert_eq!(target.secure, matches!(scheme, "rediss" | "valkeys"), "{url:?}");
    assert_eq!(
        target.is_cluster,
        url.split("://").next().is_some_and(|scheme| scheme.ends_with("-cluster")),
        "{url:?}"
    );
    // The other project's name is the same address.
    let twin = if scheme.starts_with("redis") {
        url.replacen("redis", "valkey", 1)
    } else {
        url.replacen("valkey", "redis", 1)
    };
    let twin =
        ServerTarget::parse(&twin).unwrap_or_else(|error| panic!("{twin:?} is refused, and {url:?} is not: {error}"));
    assert_eq!((twin.to_string(), twin.secure), (target.to_string(), target.secure));
}
