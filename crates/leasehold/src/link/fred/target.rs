//! Which server, and as whom: parsed from a URL, or taken from a configuration of fred.

use super::address;
use super::certificates::Certificates;
use super::error::ConnectError;
use super::tls;
use fred::types::RespVersion;
use fred::types::config::{Config, Server, ServerConfig};
use std::fmt;

/// Which server or servers to talk to, and as whom.
///
/// | URL | server |
/// |---|---|
/// | `redis://[user:password@]host[:port][/db]` | one server, behind TLS with `rediss` and the feature `tls` |
/// | `redis-sentinel://…@host[:port][/db]?sentinelServiceName=name&node=host:port` | the primary that Sentinel names |
/// | `redis-cluster://…@host[:port][/db]?node=host:port` | a cluster |
/// | `redis+unix://[user:password@]/path/to/socket[?db=n]` | one server, by a Unix socket |
///
/// `protocol=2` or `protocol=resp2` in the query chooses RESP2, for what stands between and does not know `HELLO`; 3 is the default.
///
/// The database is a number from 0 to 255. Every connection selects it, also those to a cluster: the server's refusal is the error. A blank or
/// another special character in the path of a socket may be percent-encoded.
///
/// `valkey` may stand for `redis` and `valkeys` for `rediss` everywhere. Neither its `Debug` nor any error shows a password.
#[derive(Clone)]
pub(crate) struct ServerTarget {
    config: Config,
    secure: bool,
}

/// The schemes of URLs.
const SCHEMES: &str =
    "it begins with redis, rediss (with TLS), valkey or valkeys, then nothing, -cluster, -sentinel or +unix, then ://";

impl ServerTarget {
    /// Reads a URL.
    ///
    /// # Errors
    ///
    /// It is malformed. The text names the fault and not the URL, which may hold a password.
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let bad = |text: &str| ConnectError::Address(text.to_owned());
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
            return Err(ConnectError::Address(format!(
                "the URL has a #, and what follows it would be ignored; {ENCODE}"
            )));
        }
        let (rest, own) = own_parameters(rest, kind)?;
        let (place, query) = rest.split_once('?').unwrap_or((&rest, ""));
        let mut config = match kind {
            "+unix" => socket(place, query)?,
            "" | "-cluster" | "-sentinel" => at_host(kind, place, query)?,
            _ => return Err(bad(SCHEMES)),
        };
        if let ServerConfig::Clustered { hosts, .. } | ServerConfig::Sentinel { hosts, .. } = &mut config.server {
            hosts.splice(0..0, own.nodes);
        }
        if let ServerConfig::Sentinel { service_name, username, password, .. } = &config.server {
            if service_name.is_empty() {
                return Err(bad(SERVICE));
            }
            if username.is_some() && password.is_none() {
                return Err(bad("sentinelUsername needs sentinelPassword beside it"));
            }
        }
        // Only the command HELLO of RESP3 tells a wrong password from a missing one on every server.
        config.version = own.version;
        if config.username.is_some() && config.password.is_none() {
            return Err(bad("a user without a password; write user:password@, or :password@ for the default user"));
        }
        Self::from_config(config, secure)
    }

    /// The parameters that the query of a URL with the scheme of this one may have about the way to the server.
    pub(crate) fn parameters(url: &str) -> &'static [&'static str] {
        let scheme = url.split("://").next().unwrap_or_default();
        match scheme.split_at(scheme.find(['-', '+']).unwrap_or(scheme.len())).1 {
            "-cluster" => &["protocol", "node"],
            "-sentinel" => &["protocol", "node", "sentinelServiceName", "sentinelUsername", "sentinelPassword"],
            "+unix" => &["protocol", "db"],
            _ => &["protocol"],
        }
    }

    /// With these certificates instead of those that the URL implies.
    ///
    /// # Errors
    ///
    /// They are not PEM, or the target does not use TLS.
    pub(crate) fn with_certificates(mut self, certificates: &Certificates) -> Result<Self, ConnectError> {
        if !self.secure {
            return Err(ConnectError::Certificates("the URL has no TLS; use rediss://".to_owned()));
        }
        tls::secure(&mut self.config, certificates)?;
        Ok(self)
    }

    /// Whether it is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        self.config.server.is_clustered()
    }

    /// The first targets of the connections: a cluster's known nodes, or the one server, or Sentinels as a whole.
    pub(super) fn seeds(&self) -> Vec<ServerConfig> {
        match &self.config.server {
            ServerConfig::Clustered { hosts, .. } => {
                hosts.iter().map(|server| ServerConfig::Centralized { server: server.clone() }).collect()
            }
            other => vec![other.clone()],
        }
    }

    /// With the certificate authorities of the operating system, where it needs some and none were given. They are read here
    /// once, and not for every connection.
    ///
    /// # Errors
    ///
    /// The operating system has none.
    pub(super) fn prepared(mut self) -> Result<Self, ConnectError> {
        if self.secure && !self.config.uses_tls() {
            tls::secure(&mut self.config, &Certificates::default())?;
        }
        Ok(self)
    }

    /// The user, if there is one, and the password.
    pub(super) fn credentials(&self) -> Option<(Option<String>, String)> {
        Some((self.config.username.clone(), self.config.password.clone()?))
    }

    /// The database to choose.
    pub(super) fn database(&self) -> Option<u8> {
        self.config.database.filter(|database| *database != 0)
    }

    /// Whether connections speak RESP3.
    pub(super) fn resp3(&self) -> bool {
        self.config.version == RespVersion::RESP3
    }

    /// The TLS side of connections.
    ///
    /// # Errors
    ///
    /// It is that of another library than rustls.
    pub(super) fn tls(&self) -> Result<Option<&tls::ClientSide>, ConnectError> {
        tls::of(&self.config)
    }

    /// Whether connections are secured.
    pub(super) const fn secure(&self) -> bool {
        self.secure
    }

    /// The name to check a cluster node's certificate by, where the cluster names the node by its IP address: the name under
    /// which the cluster was first found.
    pub(super) fn certificate_name(&self) -> Option<String> {
        let first = self.config.server.hosts().into_iter().next()?;
        let is_name = first.host.parse::<std::net::IpAddr>().is_err();
        (self.secure && is_name).then(|| first.host.to_string())
    }

    /// Takes a configuration of fred. Its server, credentials, database, protocol version and TLS are used; what it says of
    /// failing and blocking is not.
    ///
    /// # Errors
    ///
    /// It names no server.
    pub(crate) fn from_config(mut config: Config, secure: bool) -> Result<Self, ConnectError> {
        match &mut config.server {
            ServerConfig::Centralized { server } => tidy(server)?,
            ServerConfig::Clustered { hosts, .. } | ServerConfig::Sentinel { hosts, .. } => {
                if hosts.is_empty() {
                    return Err(ConnectError::Address("it names no host".to_owned()));
                }
                // fred puts the host of the URL last; readers of errors expect it first.
                hosts.rotate_right(1);
                hosts.iter_mut().try_for_each(tidy)?;
            }
            ServerConfig::Unix { path } => {
                if path.as_os_str().is_empty() {
                    return Err(ConnectError::Address("it names no socket".to_owned()));
                }
            }
        }
        Ok(Self { config, secure })
    }
}

/// The address, without user and password.
impl fmt::Display for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&label(&self.config.server))
    }
}

impl fmt::Debug for ServerTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTarget")
            .field("server", &label(&self.config.server))
            .field("secure", &self.secure)
            .finish_non_exhaustive()
    }
}

/// The name of a server in errors and logs. [`ServerConfig`] itself must not be shown: it may hold Sentinel's password.
pub(super) fn label(server: &ServerConfig) -> String {
    let list = |hosts: &[Server]| {
        let names: Vec<_> = hosts.iter().map(|server| address::address_of(&server.host, server.port)).collect();
        names.join(", ")
    };
    match server {
        ServerConfig::Centralized { server } => address::address_of(&server.host, server.port),
        ServerConfig::Clustered { hosts, .. } => format!("the cluster at {}", list(hosts)),
        ServerConfig::Sentinel { hosts, service_name, .. } => {
            format!("{service_name}, by the Sentinels at {}", list(hosts))
        }
        ServerConfig::Unix { path } => path.display().to_string(),
    }
}

fn tidy(server: &mut Server) -> Result<(), ConnectError> {
    // A URL writes an IPv6 address in brackets; resolvers do not want them.
    if let Some(bare) = server.host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        server.host = bare.to_owned().into();
    }
    if server.host.is_empty() || server.port == 0 {
        return Err(ConnectError::Address("it names no host, or port 0".to_owned()));
    }
    Ok(())
}

/// The parameters of a URL that are read here and not by fred.
struct OwnParameters {
    version: RespVersion,
    /// fred knows no node by an IPv6 address.
    nodes: Vec<Server>,
}

/// The URL without these parameters, and what they say.
fn own_parameters(rest: &str, kind: &str) -> Result<(String, OwnParameters), ConnectError> {
    let mut own = OwnParameters { version: RespVersion::RESP3, nodes: Vec::new() };
    let Some((base, query)) = rest.split_once('?') else { return Ok((rest.to_owned(), own)) };
    let mut others = Vec::new();
    for part in query.split('&') {
        match part.split_once('=') {
            Some(("protocol", "2" | "resp2")) => own.version = RespVersion::RESP2,
            Some(("protocol", "3" | "resp3")) => own.version = RespVersion::RESP3,
            Some(("protocol", _)) => {
                return Err(ConnectError::Address("protocol is 2, resp2, 3 or resp3".to_owned()));
            }
            Some(("node", _)) if matches!(kind, "-cluster" | "-sentinel") => own.nodes.push(node(part)?),
            _ => others.push(part),
        }
    }
    let rest = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
    Ok((rest, own))
}

/// The server of a parameter `node=host:port`.
fn node(parameter: &str) -> Result<Server, ConnectError> {
    let decoded = form_urlencoded::parse(parameter.as_bytes()).next().map(|(_, value)| value.into_owned());
    match address::host_and_port_of_url(&decoded.unwrap_or_default()) {
        Some((host, port)) => Ok(Server::new(host, port)),
        None => {
            let form = "a node is not written as host:port, with an IPv6 address in brackets: node=[::1]:6379";
            Err(ConnectError::Address(form.to_owned()))
        }
    }
}

/// Reads `[user:password@]host[:port][/db]` and what fred reads of the query.
fn at_host(kind: &str, place: &str, query: &str) -> Result<Config, ConnectError> {
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    if path.contains('@') {
        return Err(ConnectError::Address(format!("after the host comes nothing, or {DATABASE}; {ENCODE}")));
    }
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    // fred would build a TLS configuration of its own, from whichever crypto provider the process has; so it sees no TLS.
    let plain = format!("redis{kind}://{authority}{query}");
    let parsed = match kind {
        "-cluster" => Config::from_url_clustered(&plain),
        "-sentinel" => Config::from_url_sentinel(&plain),
        _ => Config::from_url_centralized(&plain),
    };
    let mut config = parsed.map_err(|error| ConnectError::Address(explain(&error)))?;
    if !path.is_empty() {
        config.database = Some(database(path, &format!("after the host comes nothing, or {DATABASE}"))?);
    }
    Ok(config)
}

/// Reads `[user:password@]/path[?db=n]`. fred neither decodes the path nor takes a password without a host.
fn socket(place: &str, query: &str) -> Result<Config, ConnectError> {
    let bad = |text: &str| ConnectError::Address(text.to_owned());
    let (authority, path) = place.split_once('/').ok_or_else(|| bad("it names no socket: redis+unix:///path"))?;
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if !host.is_empty() && !host.eq_ignore_ascii_case("localhost") {
        return Err(ConnectError::Address(format!("a socket has no host: redis+unix:///path; {ENCODE}")));
    }
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    let some = |text: &str| Some(decoded(text)).filter(|text| !text.is_empty());
    let config = Config {
        server: ServerConfig::Unix {
            path: format!("/{}", some(path).ok_or_else(|| bad("it names no socket"))?).into(),
        },
        username: some(user),
        password: some(password),
        ..Config::default()
    };
    let form = "after the path of the socket comes nothing, or ?db= and the number of a database";
    let database = match query.strip_prefix("db=") {
        Some(number) => Some(database(number, form)?),
        None if query.is_empty() => None,
        None => return Err(bad(form)),
    };
    Ok(Config { database, ..config })
}

fn decoded(text: &str) -> String {
    // A form has blanks and separators of its own, which are none here.
    let form = format!("={}", text.replace('+', "%2B").replace('&', "%26"));
    form_urlencoded::parse(form.as_bytes()).next().map(|(_, text)| text.into_owned()).unwrap_or_default()
}

/// # Errors
///
/// It is no number, which `form` says; or it is one that fred cannot select.
fn database(text: &str, form: &str) -> Result<u8, ConnectError> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(ConnectError::Address(form.to_owned()));
    }
    text.parse()
        .map_err(|_| ConnectError::Address("the number of the database is at most 255 with this client".to_owned()))
}

/// What may follow a host.
const DATABASE: &str = "/ and the number of a database";

/// What a Sentinel must be asked for.
const SERVICE: &str = "Sentinel needs the name of the service: ?sentinelServiceName=name";

/// The advice for a password that ends the part of the URL in which it stands.
pub(crate) const ENCODE: &str = "a password with / : ? # or @ must be percent-encoded";

/// fred's words for a malformed URL, which never repeat more of it than a node's address.
fn explain(error: &fred::error::Error) -> String {
    match error.details() {
        "EmptyHost" | "Invalid or missing host." => format!("it names no host; {ENCODE}"),
        "InvalidPort" => format!("the port is no number from 1 to 65535; {ENCODE}"),
        "InvalidDomainCharacter" => format!("the host is no name and no address; {ENCODE}"),
        "Invalid integer string." => "a port is no number".to_owned(),
        details if details.starts_with("Invalid or missing sentinel") => SERVICE.to_owned(),
        details => details.to_owned(),
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
        for url in ["redis://host/300", "redis-cluster://host/256", "redis+unix:///run/redis.sock?db=1000"] {
            assert!(refusal(url).contains("at most 255"), "{url}");
        }
        for url in ["redis://host/x", "redis://host/1/", "redis://host//1", "redis-cluster://host/x", "redis://host/+1"]
        {
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
            let config = ServerTarget::parse(url).expect(url).config;
            assert_eq!(config.server, ServerConfig::Unix { path: "/run/a b+c.sock".into() });
            assert_eq!((config.username.as_deref(), config.password.as_deref()), (Some("u"), Some("p@")));
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
}
