//! The servers to connect to and the credentials, parsed from a URL.

use super::error::ConnectError;
use super::tls;
use super::tls::ClientSide;
use std::error::Error;
use std::fmt;
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// The servers to connect to, and the credentials.
///
/// [`ClientBuilder::connect`](crate::ClientBuilder::connect) describes the URLs. Every connection selects the database,
/// including connections to a cluster. `valkey` may stand for `redis`, and `valkeys` for `rediss`. Neither `Debug` nor an
/// error shows a password.
#[derive(Clone)]
pub(crate) struct ServerTarget {
    /// The servers to connect to first, at least one: the known nodes of a cluster, or the only server.
    pub(super) servers: Vec<Server>,
    pub(super) is_cluster: bool,
    credentials: Option<Credentials>,
    /// Overrides the credentials of the URL.
    provider: Option<Provider>,
    addresses: Option<AddressMap>,
    database: u32,
    pub(super) resp3: bool,
    pub(super) secure: bool,
    pub(super) tls: Option<ClientSide>,
}

/// The location of a server, which each connect resolves anew.
#[derive(Clone)]
pub(crate) enum Server {
    At(Endpoint),
    OfSentinels(Sentinels),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp(Host),
    Unix(PathBuf),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) port: u16,
    /// The name that the certificate must have, if it differs from the host.
    pub(crate) certificate_name: Option<String>,
}

#[derive(Clone)]
pub(crate) struct Sentinels {
    pub(crate) hosts: Vec<Host>,
    pub(crate) service: String,
    pub(crate) credentials: Option<Credentials>,
}

/// Translates an announced address; `None` keeps it.
#[derive(Clone)]
pub(crate) struct AddressMap(Arc<Lookup>);

type Lookup = dyn Fn(&str) -> Option<String> + Send + Sync;

impl AddressMap {
    pub(crate) fn new(map: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(map))
    }
}

const SCHEMES: &str =
    "it begins with redis, rediss (with TLS), valkey or valkeys, then nothing, -cluster, -sentinel or +unix, then ://";

const DATABASE: &str = "only / and the number of a database may follow the host";

/// The advice for a password with a special character of URLs.
pub(crate) const ENCODE: &str = "a password with / : ? # or @ must be percent-encoded";

impl ServerTarget {
    /// Parses a URL. The error describes the mistake, but omits the URL, which may contain a password.
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("a URL begins with a scheme, such as redis://"))?;
        let (base, kind) = match scheme.find(['-', '+']) {
            Some(at) => scheme.split_at(at),
            None => (scheme, ""),
        };
        let secure = match base {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err(bad(SCHEMES)),
        };
        if secure && kind == "+unix" {
            return Err(bad("a Unix socket has no TLS; use redis+unix"));
        }
        if secure {
            tls::available(base)?;
        }
        if rest.contains('#') {
            return Err(bad(format!("the URL contains a #, and the text after it would be ignored; {ENCODE}")));
        }
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let query = Query::read(query, kind)?;
        let (authority, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (servers, database) = match kind {
            "+unix" => (vec![Server::At(socket(host, path)?)], query.database),
            "" | "-cluster" | "-sentinel" => {
                if path.contains('@') {
                    return Err(bad(format!("{DATABASE}; {ENCODE}")));
                }
                let hosts = std::iter::once(self::host(host, Some(if kind == "-sentinel" { 26_379 } else { 6_379 }))?)
                    .chain(query.nodes)
                    .collect::<Vec<_>>();
                let servers = match (kind, query.sentinels) {
                    ("-sentinel", (service, credentials)) => {
                        vec![Server::OfSentinels(Sentinels { hosts, service, credentials })]
                    }
                    _ => hosts.into_iter().map(Endpoint::Tcp).map(Server::At).collect(),
                };
                (servers, if path.is_empty() { 0 } else { number(path, DATABASE)? })
            }
            _ => return Err(bad(SCHEMES)),
        };
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let credentials = Credentials::of_url(decoded(user)?, decoded(password)?)
            .map_err(|()| bad("a user without a password; write user:password@, or :password@ for the default user"))?;
        let resp3 = query.resp3;
        Ok(Self {
            servers,
            is_cluster: kind == "-cluster",
            credentials,
            provider: None,
            addresses: None,
            database,
            resp3,
            secure,
            tls: None,
        })
    }

    /// The connection parameters that a URL with this scheme may have.
    pub(crate) fn parameters(url: &str) -> &'static [&'static str] {
        let scheme = url.split("://").next().unwrap_or_default();
        match scheme.split_at(scheme.find(['-', '+']).unwrap_or(scheme.len())).1 {
            "-cluster" => &["protocol", "node"],
            "-sentinel" => &["protocol", "node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"],
            "+unix" => &["protocol", "db"],
            _ => &["protocol"],
        }
    }

    /// Sets the certificates for TLS. Reads the operating system's root certificates by default.
    pub(crate) fn with_certificates(mut self, certificates: &Certificates) -> Result<Self, ConnectError> {
        if self.secure {
            self.tls = Some(tls::client_side(certificates)?);
        } else if certificates.ca.is_some() || certificates.client.is_some() {
            return Err(ConnectError::Certificates("the URL has no TLS; use rediss://".to_owned()));
        }
        Ok(self)
    }

    /// The topology of the servers, for logs.
    pub(crate) const fn topology(&self) -> &'static str {
        match self.servers.as_slice() {
            _ if self.is_cluster => "cluster",
            [Server::OfSentinels(_), ..] => "sentinel",
            _ => "standalone",
        }
    }

    pub(crate) fn with(mut self, provider: Option<Provider>, addresses: Option<AddressMap>) -> Self {
        (self.provider, self.addresses) = (provider, addresses);
        self
    }

    /// The credentials for the next connection to `server`. Fails if the provider fails or times out.
    pub(super) async fn credentials(
        &self,
        server: &str,
        timeout: Duration,
    ) -> Result<Option<Credentials>, ConnectError> {
        let Some(Provider(provide)) = &self.provider else { return Ok(self.credentials.clone()) };
        let reason = match tokio::time::timeout(timeout, provide()).await {
            Ok(Ok(credentials)) => return Ok(Some(credentials)),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no reply within {timeout:?}"),
        };
        Err(ConnectError::Credentials { server: server.to_owned(), reason })
    }

    pub(super) fn database(&self) -> Option<u32> {
        Some(self.database).filter(|database| *database != 0)
    }

    /// The server with this address, which a node or a Sentinel announced.
    pub(super) fn announced(&self, name: &str, port: u16) -> Host {
        let address = address_of(name, port);
        let mapped = self.addresses.as_ref().and_then(|map| (map.0)(&address));
        match mapped.as_deref().and_then(host_and_port) {
            Some((name, port)) => Host::new(name, port),
            None => Host::new(name, port),
        }
    }

    /// The cluster node with this announced address. The certificate of an IP address has the name of the first host.
    pub(super) fn node(&self, name: &str, port: u16) -> Server {
        let is_address = |name: &str| name.parse::<std::net::IpAddr>().is_ok();
        let host = self.announced(name, port);
        let first = self.servers.first().and_then(|first| first.hosts().first()).map(|first| first.name.clone());
        let certificate_name = first.filter(|first| self.secure && is_address(&host.name) && !is_address(first));
        Server::At(Endpoint::Tcp(Host { certificate_name, ..host }))
    }
}

/// The address, without user and password.
impl fmt::Display for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.servers.iter().map(Server::label).collect::<Vec<_>>().join(", ");
        if self.is_cluster { write!(f, "the cluster at {all}") } else { f.write_str(&all) }
    }
}

impl fmt::Debug for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTarget")
            .field("server", &self.to_string())
            .field("secure", &self.secure)
            .finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn label(&self) -> String {
        match self {
            Self::At(endpoint) => endpoint.label(),
            Self::OfSentinels(sentinels) => {
                let hosts = sentinels.hosts.iter().map(Host::label).collect::<Vec<_>>().join(", ");
                format!("{}, by the Sentinels at {hosts}", sentinels.service)
            }
        }
    }

    /// Returns `None` for a Unix socket.
    pub(crate) fn hosts(&self) -> &[Host] {
        match self {
            Self::At(Endpoint::Tcp(host)) => std::slice::from_ref(host),
            Self::At(Endpoint::Unix(_)) => &[],
            Self::OfSentinels(sentinels) => &sentinels.hosts,
        }
    }
}

impl Endpoint {
    pub(super) fn label(&self) -> String {
        match self {
            Self::Tcp(host) => host.label(),
            Self::Unix(path) => path.display().to_string(),
        }
    }
}

impl Host {
    pub(super) fn new(name: &str, port: u16) -> Self {
        Self { name: name.to_owned(), port, certificate_name: None }
    }

    pub(super) fn label(&self) -> String {
        address_of(&self.name, self.port)
    }
}

fn bad(text: impl Into<String>) -> ConnectError {
    ConnectError::Address(text.into())
}

struct Query {
    resp3: bool,
    nodes: Vec<Host>,
    /// The service name for Sentinels, and their credentials.
    sentinels: (String, Option<Credentials>),
    database: u32,
}

impl Query {
    fn read(query: &str, kind: &str) -> Result<Self, ConnectError> {
        let mut read = Self { resp3: true, nodes: Vec::new(), sentinels: Default::default(), database: 0 };
        let (mut user, mut password) = (String::new(), String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match (&*name, &*value, kind) {
                ("protocol", "2" | "resp2", _) => read.resp3 = false,
                ("protocol", "3" | "resp3", _) => read.resp3 = true,
                ("protocol", ..) => return Err(bad("protocol is 2, resp2, 3 or resp3")),
                ("node", node, "-cluster" | "-sentinel") => read.nodes.push(self::node(node)?),
                ("sentinelServiceName", name, "-sentinel") => name.clone_into(&mut read.sentinels.0),
                ("sentinelUsername", name, "-sentinel") => name.clone_into(&mut user),
                ("sentinelPassword", secret, "-sentinel") => secret.clone_into(&mut password),
                ("db", database, "+unix") => {
                    let form = "only ?db= and the number of a database may follow the path of the socket";
                    read.database = number(database, form)?;
                }
                _ => return Err(bad(format!("the query of the URL contains an unknown setting; {ENCODE}"))),
            }
        }
        read.sentinels.1 =
            Credentials::of_url(user, password).map_err(|()| bad("sentinelUsername also needs sentinelPassword"))?;
        if kind == "-sentinel" && read.sentinels.0.is_empty() {
            return Err(bad("Sentinel needs the name of the service: ?sentinelServiceName=name"));
        }
        Ok(read)
    }
}

fn node(text: &str) -> Result<Host, ConnectError> {
    // Without brackets, the last group of an IPv6 address could be a port.
    let is_clear = text.starts_with('[') || text.matches(':').count() == 1;
    let form = "a node must be host:port, with an IPv6 address in brackets: node=[::1]:6379";
    host(text, None).ok().filter(|_| is_clear).ok_or_else(|| bad(form))
}

fn host(text: &str, default_port: Option<u16>) -> Result<Host, ConnectError> {
    // After a bracket or a name, a colon begins the port. Inside brackets it belongs to the address.
    let (name, port) = match text.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (text, ""),
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let is_known = match bare {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => is_host(name),
    };
    let name = bare.unwrap_or(name);
    if name.is_empty() {
        return Err(bad(format!("it has no host; {ENCODE}")));
    }
    if !is_known {
        return Err(bad(format!("the host is not a name or an address; {ENCODE}")));
    }
    match if port.is_empty() { default_port } else { port.parse().ok() } {
        Some(port) if port != 0 => Ok(Host::new(name, port)),
        _ => Err(bad(format!("the port is not a number from 1 to 65535; {ENCODE}"))),
    }
}

/// Returns whether the text may be a host name or an address. Only the resolver can check whether the name exists.
fn is_host(text: &str) -> bool {
    let is_special = |part: char| part.is_whitespace() || part.is_control() || "/?#@[]\\<>^|%\"`{}".contains(part);
    text.parse::<Ipv6Addr>().is_ok() || !(text.is_empty() || text.contains(':') || text.contains(is_special))
}

fn socket(host: &str, path: &str) -> Result<Endpoint, ConnectError> {
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(bad(format!("a socket has no host: redis+unix:///path; {ENCODE}")));
    }
    let path = decoded(path)?;
    if path.is_empty() {
        return Err(bad("the URL has no socket path: redis+unix:///path"));
    }
    Ok(Endpoint::Unix(format!("/{path}").into()))
}

/// Percent-decodes a part of a URL before its query.
fn decoded(text: &str) -> Result<String, ConnectError> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| bad("a user, a password or a path is not UTF-8"))
}

fn number(text: &str, form: &str) -> Result<u32, ConnectError> {
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| bad(form))
}

/// Splits `host:port` as nodes write it. The host may be empty, or an IPv6 address with or without brackets.
pub(super) fn host_and_port(address: &str) -> Option<(&str, u16)> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    Some((bare.unwrap_or(host), port.parse().ok()?))
}

/// Formats an address for messages and URLs. IPv6 addresses get brackets, because their last group could be a port.
pub(super) fn address_of(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Returns whether a text from a server can be a host: an address or a DNS name. Errors and logs contain the host.
pub(super) fn is_announced_host(text: &str) -> bool {
    (1..=253).contains(&text.len()) && !text.contains(|c: char| c.is_control() || c.is_whitespace())
}

/// A user and a password. Its `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

impl Credentials {
    /// Credentials of a named ACL user.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: Some(user.into()), password: password.into() }
    }

    /// Credentials of the default user.
    pub fn of_default_user(password: impl Into<String>) -> Self {
        Self { user: None, password: password.into() }
    }

    /// Credentials from a URL, which may lack the user or both.
    pub(super) fn of_url(user: String, password: String) -> Result<Option<Self>, ()> {
        let user = Some(user).filter(|user| !user.is_empty());
        match (user, password.is_empty()) {
            (Some(_), true) => Err(()),
            (None, true) => Ok(None),
            (user, false) => Ok(Some(Self { user, password })),
        }
    }
}

pub(crate) type Provided = Result<Credentials, Box<dyn Error + Send + Sync>>;

/// Provides the credentials for each connection.
#[derive(Clone)]
pub(crate) struct Provider(Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Provided> + Send>> + Send + Sync>);

impl Provider {
    pub(crate) fn new<F>(provider: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Provided> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(provider())))
    }
}

/// `Debug` without the contents.
macro_rules! hide {
    ($($name:ident),*) => {$(impl fmt::Debug for $name {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct(stringify!($name)).finish_non_exhaustive()
        }
    })*};
}

hide!(AddressMap, Credentials, Provider);

#[derive(Clone, Default)]
pub(crate) struct Certificates {
    /// The trusted authorities, in place of those of the operating system.
    pub(crate) ca: Option<Vec<u8>>,
    /// The client's certificate chain and private key, for servers that request them.
    pub(crate) client: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates").field("ca", &self.ca.is_some()).field("client", &self.client.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        ServerTarget::parse(url).expect_err(url).to_string()
    }

    #[test]
    fn database_of_every_sort_of_server_is_selected() {
        for url in [
            "redis://host/7",
            "redis-cluster://a:1/7?node=b:2",
            "redis-sentinel://a:1/7?sentinelServiceName=main",
            "redis+unix:///run/redis.sock?db=7",
        ] {
            let target = ServerTarget::parse(url).expect(url);
            assert_eq!(target.database(), Some(7), "{url}");
        }
        for url in ["redis://host", "redis://host/", "redis-cluster://a:1/"] {
            assert_eq!(ServerTarget::parse(url).expect(url).database(), None, "{url}");
        }
        assert_eq!(ServerTarget::parse("redis://host/1000").expect("a target").database(), Some(1000));
        for url in [
            "redis://host/x",
            "redis://host/1/",
            "redis://host//1",
            "redis-cluster://host/x",
            "redis://host/+1",
            "redis://host/99999999999",
            "redis+unix:///run/redis.sock?db=x",
        ] {
            assert!(refusal(url).contains("number of a database"), "{url}");
        }
    }

    #[test]
    fn parts_of_an_address_that_would_be_ignored_are_refused() {
        assert!(refusal("redis://host#1").contains('#'));
        assert!(
            refusal("redis+unix://run/redis.sock").contains("redis+unix:///path"),
            "the host is a part of the path"
        );
        assert!(refusal("redis-sentinel://a?sentinelServiceName=main&sentinelUsername=u").contains("sentinelPassword"));
        assert!(refusal("redis-sentinel://a?sentinelServiceName=").contains("name of the service"));
    }

    #[test]
    fn socket_with_a_blank_and_a_password_is_read() {
        for url in ["redis+unix://u:p%40@/run/a%20b+c.sock", "redis+unix://u:p%40@localhost/run/a b+c.sock"] {
            let target = ServerTarget::parse(url).expect(url);
            assert_eq!(target.to_string(), "/run/a b+c.sock");
            assert!(target.credentials == Some(Credentials::new("u", "p@")), "{url}");
        }
    }

    #[test]
    fn password_that_is_not_encoded_is_told_how_to_be() {
        for password in ["a/b", "a#b", "a?b", "a:/b", "/", "#"] {
            let error =
                ServerTarget::parse(&format!("redis://:{password}@127.0.0.1:6379")).expect_err(password).to_string();
            assert!(error.contains("must be percent-encoded"), "{password}: {error}");
        }
    }

    #[test]
    fn hosts_and_ports_are_read_as_urls_have_them() {
        let host = |url: &str| ServerTarget::parse(url).map(|target| target.to_string());
        for (url, label) in [
            ("redis://db", "db:6379"),
            ("redis-sentinel://s?sentinelServiceName=main", "main, by the Sentinels at s:26379"),
            ("redis://u:p@[::1]", "[::1]:6379"),
            ("redis://[::1]:7/2", "[::1]:7"),
            ("redis://db:1", "db:1"),
            ("redis-cluster://a?node=%5B::1%5D:2", "the cluster at a:6379, [::1]:2"),
        ] {
            assert_eq!(host(url).expect(url), label);
        }
        for (url, why) in [
            ("redis://", "no host"),
            ("redis://:1", "no host"),
            ("redis://u:p@", "no host"),
            ("redis://[]", "no host"),
            ("redis://::1", "not a name or an address"),
            ("redis://[a]", "not a name or an address"),
            ("redis://a b", "not a name or an address"),
            ("redis://host:0", "not a number from 1 to 65535"),
            ("redis://host:65536", "not a number from 1 to 65535"),
            ("redis://host:x", "not a number from 1 to 65535"),
            ("redis-cluster://a?node=b", "host:port"),
            ("redis-cluster://a?node=b:0", "host:port"),
            ("redis://%ff:p@host", "UTF-8"),
            ("redis://user@host", "a user without a password"),
        ] {
            assert!(refusal(url).contains(why), "{url}: {}", refusal(url));
        }
    }

    #[test]
    fn ipv6_address_has_brackets_where_people_read_it() {
        for (address, host, written) in [
            ("::1:7000", "::1", "[::1]:7000"),
            ("[::1]:7000", "::1", "[::1]:7000"),
            (":7000", "", ":7000"),
            ("a:7000", "a", "a:7000"),
        ] {
            assert_eq!(host_and_port(address), Some((host, 7000)));
            assert_eq!(address_of(host, 7000), written);
        }
        assert_eq!(host_and_port("a"), None);
    }

    #[test]
    fn ipv6_address_of_a_node_must_have_brackets() {
        assert_eq!(node("[::1]:7000").ok(), Some(Host::new("::1", 7000)));
        assert_eq!(node("a:7000").ok(), Some(Host::new("a", 7000)));
        for address in ["::1:7000", "::1", "[a]:7000", "[::1]", "[::1]:x", "a", "a:b:1", "[::1:7000", ""] {
            assert!(node(address).is_err(), "{address}");
        }
    }
}
